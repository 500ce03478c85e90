"""Dask: thresholds of a cluster are those of one machine, to the bit."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tightset as ts
from conftest import SCORES, synthetic
from tightset.streaming.plan import Plan

da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

from tightset.integrations import dask as on_dask  # noqa: E402

HELD_OUT = ts.Recipe("aps", [None, "entropy"], [0.5, 1, 2, 8], "held-out")
SMALL = ts.Recipe(["aps", "thr"], [None, "entropy"], [0, 1, 4], "modsel")
ALL = (
    *SCORES,
    *("er-aps", "er-raps", "er-saps", "er-thr", "er-rank", "tightest"),
    *("paper", "released", HELD_OUT),
)
CHUNKS = (1, 700, 0, 13, 386, 0, 900)


def problem():
    """Rows sorted by difficulty, so that no shard looks like another."""
    logits, labels = synthetic(np.random.default_rng(4), 2000, 6, strength=2.0)
    order = np.argsort(ts.label_scores(logits, labels, "aps"), kind="stable")
    return logits[order], labels[order]


def arrays(logits, labels):
    return da.from_array(logits, chunks=(CHUNKS, 6)), da.from_array(labels, chunks=(CHUNKS,))


def expected(logits, labels, recipe, alphas, **options):
    if getattr(recipe, "selection", None) == "held-out" or recipe in ("paper", "released"):
        return ts.calibrate_stream([(logits, labels)], alphas, recipe, **options)
    return ts.calibrate(logits, labels, alphas, recipe, **options)


@pytest.mark.parametrize("recipe", ["aps", "released", HELD_OUT, SMALL], ids=str)
@pytest.mark.parametrize("unknown", [False, True])
def test_threads_give_what_one_machine_gives(recipe, unknown):
    logits, labels = problem()
    z, y = arrays(logits, labels)
    if unknown:
        keep = da.from_array(np.ones(len(labels), dtype=bool), chunks=(CHUNKS,))
        z, y = z[keep], y[keep]
    found = on_dask.calibrate(z, y, [0.05, 0.2], recipe, seed=2)
    assert found == expected(logits, labels, recipe, [0.05, 0.2], seed=2)
    sets = on_dask.predict_set(found[0], z)
    assert len(sets) == len(CHUNKS)
    blocks = [block.compute() for block in sets]
    assert [row.tolist() for block in blocks for row in block] == [
        row.tolist() for row in found[0].predict_set(logits)
    ]


def test_other_cuts_and_row_ids():
    logits, labels = problem()
    ids = np.random.default_rng(0).permutation(10**6)[:2000]
    z = da.from_array(logits, chunks=(333, 2))
    y, i = da.from_array(labels, chunks=500), da.from_array(ids, chunks=2000)
    found = on_dask.calibrate(z, y, 0.1, SMALL, row_ids=i)
    assert found == ts.calibrate(logits, labels, 0.1, SMALL, row_ids=ids)
    (sets,) = on_dask.predict_set(found, z.rechunk((2000, 6)), row_ids=i)
    assert sets.compute() == found.predict_set(logits, row_ids=ids)


def test_bad_arrays_are_refused():
    logits, labels = problem()
    z, y = arrays(logits, labels)
    with pytest.raises(TypeError, match="logits must be a Dask array, got ndarray"):
        on_dask.calibrate(logits, y)
    with pytest.raises(ValueError, match=r"logits must have shape \(n, K\), got 1 dimensions"):
        on_dask.calibrate(y, y)
    with pytest.raises(ValueError, match="one value for each of the 2000 rows, got 1999"):
        on_dask.calibrate(z, y[:-1])
    unknown = z[da.from_array(np.ones(2000, dtype=bool), chunks=(CHUNKS,))]
    with pytest.raises(
        ValueError, match="as many chunks as logits where chunk sizes are unknown: got 1 and 7"
    ):
        on_dask.calibrate(unknown, y.rechunk(2000))
    with pytest.raises(ValueError, match="labels must have one value for each"):
        on_dask.calibrate(unknown, y.rechunk(((700, 1, 0, 13, 386, 0, 900),)), recipe="aps")


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=0
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def failing_once(folder):
    """A function that fails for one block, the first time only; the file remembers."""

    def read(block, block_info=None):
        place = block_info[0]["chunk-location"][0]
        mark = folder / "failed"
        if place == 1 and not mark.exists():
            mark.touch()
            raise OSError("a disk that comes back")
        return block

    return read


def killing_once(folder):
    """A function that kills its worker at one block, the first time only."""

    def read(block, block_info=None):
        import os

        place = block_info[0]["chunk-location"][0]
        mark = folder / "killed"
        if place == 4 and not mark.exists():
            mark.touch()
            os._exit(1)
        return block

    return read


def count_bytes():
    """Count what this process sends, from now on."""
    from distributed.comm.tcp import TCP

    write, TCP.sent = TCP.write, 0

    async def counted(self, *args, **options):
        n = await write(self, *args, **options)
        TCP.sent += n
        return n

    TCP.write = counted


def bytes_sent():
    from distributed.comm.tcp import TCP

    return TCP.sent


def made(part):
    """A function that makes the logits or the labels of a block, on whatever worker."""

    def make(block_info=None):
        number = block_info[None]["chunk-location"][0]
        return synthetic(np.random.default_rng(number), 2000, 10, strength=2.0)[part]

    return make


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.filterwarnings("ignore")  # of distributed, about ports and closing
@pytest.mark.parametrize("recipe", ["aps", "er-aps", "tightest"])
def test_little_travels(monkeypatch, recipe):
    """All that workers send, rows, counts and messages, stays under 8 MB a worker and pass."""
    blocks = 16
    sent = []
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=0
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.run(count_bytes)
        z = da.map_blocks(made(0), chunks=((2000,) * blocks, (10,)), dtype=np.float64)
        y = da.map_blocks(made(1), chunks=((2000,) * blocks,), dtype=np.int64)
        end_pass = Plan.end_pass

        def ended(plan, *args):
            sent.append(client.run(bytes_sent))
            end_pass(plan, *args)

        monkeypatch.setattr(Plan, "end_pass", ended)
        sent.append(client.run(bytes_sent))
        found = on_dask.calibrate(z, y, 0.1, recipe)
        logits, labels = (np.concatenate([block.compute() for block in x.blocks.ravel()]) for x in (z, y))
    assert found == ts.calibrate(logits, labels, 0.1, recipe)
    assert len(sent) > 2
    for before, after in itertools.pairwise(sent):
        each = [after[worker] - before[worker] for worker in before]
        assert len(each) == 2
        assert 0 < max(each) < 8_000_000


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore")  # of distributed, about ports and closing
@pytest.mark.parametrize("trouble", [None, failing_once, killing_once])
@pytest.mark.parametrize("recipe", ALL, ids=str)
def test_a_cluster_gives_what_one_machine_gives(client, tmp_path, recipe, trouble):
    import dask

    logits, labels = problem()
    z, y = arrays(logits, labels)
    if trouble is not None:
        z = z.map_blocks(trouble(tmp_path), dtype=z.dtype)
    with dask.annotate(retries=2), dask.config.set({"optimization.fuse.active": False}):
        found = on_dask.calibrate(z, y, [0.05, 0.2], recipe, seed=2)
    assert found == expected(logits, labels, recipe, [0.05, 0.2], seed=2)
    assert trouble is None or list(tmp_path.iterdir())
