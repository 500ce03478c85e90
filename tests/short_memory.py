"""Calls of the core with little memory left, each in a forked process: `python short_memory.py N_THREADS`.

Prints a line of JSON for each call: its name, the MiB that were left to it, and how it ended: "finished",
"MemoryError", another exception, or the number of a signal.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from pathlib import Path

import numpy as np

import tightset as ts
from tightset import _core

# What is left to a call: nothing large, or some of what it needs.
MARGINS = (2, 60)

N = 4_000_000
# Rows that are all the same take no memory, and each of them is read.
MANY = np.broadcast_to(np.zeros((1, 10), np.float32), (N, 10))
LONG = np.broadcast_to(np.zeros((1, 1), np.float32), (1, 16 * N))
SCORES = np.zeros(10 * N)
RUN = SCORES.reshape(1, -1)
LABELS = np.zeros(N, np.int64)
OFFSETS, NO_LABELS = np.zeros(N + 1, np.int64), np.zeros(0, np.int32)
LOW, HIGH = np.full(3, -np.inf), np.full(3, np.inf)
CELL_OF = np.zeros(10, np.uint32)
APS = _core.Scoring("aps")
THREE = [APS, _core.Scoring("thr"), _core.Scoring("saps", weight=0.1)]
SURVIVORS = _core.Survivors([(scoring, np.inf, np.inf, 0, SCORES[:0], 1) for scoring in THREE])
KEPT = [SCORES[:1]] * 3
CELLS = _core.Cells([(SURVIVORS, False, KEPT)], CELL_OF)
SLOT = ([0], np.zeros(1, np.uint64), np.full(1, 64, np.uint32))


def calls(n_threads):
    """Return calls, by name, with a large result or much to work with."""
    on = {"n_threads": n_threads}
    drawn = {"seed": 0, **on}
    ranked = {"ranked": True, **drawn}
    sets = {"allow_empty": True, **drawn}
    plain = {"gamma": 0.0, "power": 0.0, "temperature": 1.0, **on}
    counts = {"keep": True, **drawn}
    return {
        "kth_smallest": lambda: _core.kth_smallest(SCORES, 5),
        "conformal_threshold": lambda: ts.conformal_threshold(SCORES, 0.1),
        "order_statistics of a long run": lambda: _core.order_statistics(RUN, [3, 5], **on),
        "order_statistics of many runs": lambda: _core.order_statistics(SCORES.reshape(-1, 1), [1], **on),
        "keys_within": lambda: _core.keys_within(RUN, *SLOT, **on),
        "permutation": lambda: _core.permutation(0, N),
        "mask": lambda: _core.mask(OFFSETS, NO_LABELS, 10),
        "uncertainty": lambda: _core.uncertainty(MANY, "entropy", **on),
        "softmax": lambda: _core.softmax(MANY, **plain),
        "ranks": lambda: _core.ranks(MANY, LABELS, **on),
        "label_scores": lambda: _core.label_scores(MANY, LABELS, THREE, **ranked),
        "label_scores of some rows": lambda: _core.label_scores(MANY, LABELS, [APS], rows=LABELS, **ranked),
        "all_scores": lambda: _core.all_scores(MANY, APS, **ranked),
        "p_values": lambda: _core.p_values(MANY, APS, SCORES[:3], smoothed=False, **drawn),
        "predict_sets": lambda: _core.predict_sets(MANY, APS, np.inf, **sets),
        "predict_selected_sets": lambda: _core.predict_selected_sets(MANY, SURVIVORS, **sets),
        "selected_p_values": lambda: _core.selected_p_values(MANY, SURVIVORS, KEPT, **drawn),
        "predict_cell_sets": lambda: _core.predict_cell_sets(MANY, CELLS, **sets),
        "cell_p_values": lambda: _core.cell_p_values(MANY, CELLS, smoothed=False, **drawn),
        "count_pairs": lambda: _core.count_pairs(MANY, THREE, LOW, HIGH, **counts),
        "count_cell_pairs": lambda: _core.count_cell_pairs(MANY, THREE, CELL_OF, 1, LOW, HIGH, **counts),
        "Survivors": lambda: _core.Survivors([(APS, -1.0, 0.0, 0, SCORES, 1)]),
        "Cells": lambda: _core.Cells([(SURVIVORS, False, [SCORES] * 3)], CELL_OF),
        "uncertainty of a long row": lambda: _core.uncertainty(LONG, "entropy", **on),
        "softmax of a long row": lambda: _core.softmax(LONG, **plain),
        "label_scores of a long row": lambda: _core.label_scores(LONG, LABELS[:1], THREE, **ranked),
        "all_scores of a long row": lambda: _core.all_scores(LONG, APS, **ranked),
        "predict_sets of a long row": lambda: _core.predict_sets(LONG, APS, np.inf, **sets),
        "predict_selected_sets of a long row": lambda: _core.predict_selected_sets(LONG, SURVIVORS, **sets),
        "count_pairs of a long row": lambda: _core.count_pairs(LONG, THREE, LOW, HIGH, **counts),
    }


def limited(call, n_threads, margin):
    """Make a call with so many MiB left, and return how it ended."""
    # The threads are there before: starting them takes memory too.
    _core._row_maxima(MANY[:10_000], n_threads=n_threads)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (margin << 20),) * 2)
    try:
        call()
    except Exception as error:
        return type(error).__name__
    return "finished"


def forked(call, n_threads, margin):
    """Return how a call ended in a process of its own."""
    reader, writer = os.pipe()
    if not (pid := os.fork()):
        try:
            os.write(writer, limited(call, n_threads, margin).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        end = file.read()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return end or f"signal {-status}"


if __name__ == "__main__":
    n_threads = int(sys.argv[1])
    for name, call in calls(n_threads).items():
        for margin in MARGINS:
            print(json.dumps([name, margin, forked(call, n_threads, margin)]), flush=True)
