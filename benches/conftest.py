"""What the timed calls share: two threads, and how an entry of the table is recorded."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

import tightset as ts

sys.path.insert(0, str(Path(__file__).parent))

THREADS = 2
TURNS = 4
LOAD_BEFORE = os.getloadavg()[0]


def pytest_benchmark_update_machine_info(machine_info):
    """Keep how busy the machine was with other things: times of a busy one say little."""
    machine_info["load_before"] = LOAD_BEFORE


@pytest.fixture(autouse=True)
def _threads():
    ts.set_num_threads(THREADS)
    yield
    ts.set_num_threads(None)


@pytest.fixture(scope="session", params=range(TURNS))
def turn(request):
    """One of several runs through all calls, one after the other in the same process.

    A shared machine is disturbed for seconds at a time, and not each call of those that are compared.
    """
    return request.param


@pytest.fixture
def timed(benchmark, turn):
    """Time a call, once in each turn. `work` and `what` are the row of the table and the column.

    `share` is the part of the rows that the call goes over; tables count it for all of them.
    `units` divides the time for bars on time per element. What else is given is kept with the entry.
    """

    def run(work, what, call, *, share=1.0, rounds=5, warmups=1, **kept):
        benchmark.group = work
        benchmark.extra_info.update(work=work, what=what, share=share, **kept)
        result = benchmark.pedantic(call, rounds=rounds, warmup_rounds=warmups)
        if benchmark.stats is not None:
            times = benchmark.stats.stats.data
            benchmark.extra_info["p99"] = float(np.quantile(times, 0.99))
        return result

    return run


@pytest.fixture
def measured(benchmark):
    """Record a number that is not a time of this process."""

    def record(work, what, measure):
        benchmark.group = work
        value = benchmark.pedantic(measure, rounds=1)
        benchmark.extra_info.update(work=work, what=what, share=1.0, value=value)
        return value

    return record
