"""Sources that are read in as many passes as memory asks for: iterators, checkpoints, progress, refusals."""

from __future__ import annotations

import io
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import tightset as ts
from streaming_cases import problem
from tightset.progress import RowProgress
from tightset.streaming import block as block_module
from tightset.streaming import run

HELD_OUT = ts.Recipe("aps", [None, "entropy"], [0.5, 1, 2, 8], "held-out")

pytestmark = pytest.mark.filterwarnings("ignore::tightset.SmallCalibrationWarning")


@pytest.mark.parametrize("max_memory", [1, 2**20, 2**30])
def test_memory_decides_how_often_the_source_is_read(max_memory):
    logits, labels, _ = problem(n=2000)
    readings = 0

    def source():
        nonlocal readings
        readings += 1
        return ((logits[i : i + 300], labels[i : i + 300]) for i in range(0, 2000, 300))

    found = ts.calibrate_stream(source, [0.05, 0.1], "er-aps", max_memory=max_memory)
    assert found == ts.calibrate(logits, labels, [0.05, 0.1])
    # Scores, counts, scores between; without room for the scores, their ranks take more readings.
    assert readings == 3 if max_memory == 2**30 else readings > 3


@pytest.mark.parametrize(
    ("recipe", "one_shot"), [("aps", False), ("aps", True), ("er-aps", False), ("er-thr", False)]
)
def test_scores_that_fit_stay_for_p_values(recipe, one_shot):
    logits, labels, _ = problem(n=1200)
    blocks = [(logits[i : i + 250], labels[i : i + 250]) for i in range(0, 1200, 250)]
    alphas = [0.05, 0.2]
    found = ts.calibrate_stream(iter(blocks) if one_shot else blocks, alphas, recipe)
    for ours, expected in zip(found, ts.calibrate(logits, labels, alphas, recipe), strict=True):
        assert ours.calibration_scores.tobytes() == expected.calibration_scores.tobytes()
        assert not ours.calibration_scores.flags.writeable
        assert ours.predict_p(logits[:40]).tobytes() == expected.predict_p(logits[:40]).tobytes()
        assert pickle.loads(pickle.dumps(ours)).predict_p(logits[0]).shape == (1, 7)
        if recipe != "aps":
            ours, expected = ours.selection_curve, expected.selection_curve
            assert ours.coverage_by_entropy == expected.coverage_by_entropy
            assert (ours.level, len(ours.coverage_by_entropy)) == (expected.level, 5)


def test_p_values_of_a_part_of_the_rows():
    logits, labels, ids = problem(n=1200)
    found = ts.calibrate_stream([(logits, labels, ids)], 0.1, "released")
    assert found.calibration_scores.shape == (1, found.n_calibration)
    assert found.calibration_scores[0, found.rank - 1] == found.threshold
    p = found.predict_p(logits, row_ids=ids)
    assert np.array_equal(p > 0.1, found.predict_set(logits, row_ids=ids).mask)


@pytest.mark.parametrize(
    ("recipe", "max_memory"),
    [("aps", 8 * 1199), ("er-aps", 2**16), ("paper", 2**30), (HELD_OUT, 2**30)],
    ids=str,
)
def test_p_values_without_scores_are_refused(recipe, max_memory):
    logits, labels, _ = problem(n=1200)
    found = ts.calibrate_stream([(logits, labels)], 0.1, recipe, max_memory=max_memory)
    with pytest.raises(ValueError, match=r"calibrated on blocks whose scores were not kept \(max_memory\)"):
        found.predict_p(logits)


def test_one_shot_iterators():
    logits, labels, _ = problem(n=1000)
    blocks = [(logits[i : i + 300], labels[i : i + 300]) for i in range(0, 1000, 300)]
    assert ts.calibrate_stream(iter(blocks), 0.1, "raps") == ts.calibrate(logits, labels, 0.1, "raps")
    for recipe in ("er-aps", "released", "paper"):
        with pytest.raises(ValueError, match="source can be read only once, and a recipe with"):
            ts.calibrate_stream(iter(blocks), 0.1, recipe)
    with pytest.raises(ValueError, match="max_memory must hold the scores"):
        ts.calibrate_stream(iter(blocks), 0.1, "aps", max_memory=1000)
    with pytest.raises(ValueError, match="checkpoint needs a source that can be read again"):
        ts.calibrate_stream(iter(blocks), 0.1, "aps", checkpoint="x")


def test_calibrate_takes_sources():
    logits, labels, _ = problem(n=1000)
    blocks = [(logits[i : i + 300], labels[i : i + 300]) for i in range(0, 1000, 300)]
    assert ts.calibrate(blocks, alpha=0.1) == ts.calibrate(logits, labels, 0.1)
    with pytest.raises(TypeError, match="row_ids must be part of the blocks"):
        ts.calibrate(blocks, alpha=0.1, row_ids=[1])
    with pytest.raises(TypeError, match="labels must be given with an array of logits"):
        ts.calibrate(logits)


class Interrupted:
    """A source that is interrupted once, in a given reading, before a given block."""

    def __init__(self, blocks, reading, block):
        self.blocks, self.when, self.readings = blocks, (reading, block), 0

    def __iter__(self):
        self.readings += 1
        for i, block in enumerate(self.blocks):
            if (self.readings, i) == self.when:
                raise KeyboardInterrupt
            yield block


@pytest.mark.parametrize("when", [(1, 0), (1, 3), (2, 0), (3, 5), (4, 1), (5, 2)])
@pytest.mark.parametrize("recipe", ["er-aps", "paper"])
def test_an_interrupted_call_is_taken_up_again(tmp_path, when, recipe):
    logits, labels, _ = problem(n=1500)
    blocks = [(logits[i : i + 200], labels[i : i + 200]) for i in range(0, 1500, 200)]
    source, path = Interrupted(blocks, *when), tmp_path / "state"
    options = {"seed": 3, "max_memory": 2**16, "checkpoint": path}
    with pytest.raises(KeyboardInterrupt):
        ts.calibrate_stream(source, 0.1, recipe, **options)
    assert [p.name for p in tmp_path.iterdir()] == ["state"]
    with pytest.raises(ValueError, match="of a call with other arguments: seed was 3, is 4"):
        ts.calibrate_stream(source, 0.1, recipe, **options | {"seed": 4})
    found = ts.calibrate_stream(source, 0.1, recipe, **options)
    assert found == ts.calibrate_stream(blocks, 0.1, recipe, seed=3)
    assert not list(tmp_path.iterdir())


def test_an_interrupt_in_the_middle_of_a_block(tmp_path, monkeypatch):
    logits, labels, _ = problem(n=1500)
    blocks = [(logits[i : i + 400], labels[i : i + 400]) for i in range(0, 1500, 400)]
    monkeypatch.setattr(block_module, "_BYTES_OF_SCORES", 8 * 100)  # a hundred rows at a time
    real, calls = block_module.add_scores, 0

    def interrupted(*arguments):
        nonlocal calls
        calls += 1
        if calls in (6, 12):
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(block_module, "add_scores", interrupted)
    options = {"max_memory": 2**10, "checkpoint": tmp_path / "state"}
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            ts.calibrate_stream(blocks, 0.1, "aps", **options)
    assert ts.calibrate_stream(blocks, 0.1, "aps", **options) == ts.calibrate(logits, labels, 0.1, "aps")


def test_checkpoints_are_written_from_time_to_time(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "_SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    logits, labels, _ = problem(n=400)
    path, sizes = tmp_path / "state", []

    def source():
        for i in range(0, 400, 100):
            yield logits[i : i + 100], labels[i : i + 100]
            sizes.append(ts.Calibration.from_bytes(path.read_bytes()).rows_in_pass)

    ts.calibrate_stream(source, 0.1, "aps", max_memory=2**9, checkpoint=path)
    assert sizes[:4] == [100, 200, 300, 400]


def test_a_checkpoint_that_is_none_is_refused(tmp_path):
    (tmp_path / "state").write_bytes(b"something else")
    with pytest.raises(ValueError, match="cannot be used: data must be bytes"):
        ts.calibrate_stream([], 0.1, "aps", checkpoint=tmp_path / "state")
    assert (tmp_path / "state").read_bytes() == b"something else"


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        (3, TypeError, "source must be an iterable"),
        ("nowhere.parquet", FileNotFoundError, "source must be a file or folder that exists"),
        ([np.zeros((3, 2))], TypeError, "block 0 must be \\(logits, labels\\)"),
        ([(np.zeros((3, 2)),)], TypeError, "block 0 must be .* got 1 parts"),
        ([], ValueError, "at least one row, got 0"),
    ],
)
def test_bad_sources(source, error, message):
    with pytest.raises(error, match=message):
        ts.calibrate_stream(source, 0.1, "aps")


def test_errors_say_which_block():
    logits, labels, _ = problem(n=100)
    bad = logits[50:].copy()
    bad[3] = np.nan
    with pytest.raises(ValueError, match="nan at row 3") as caught:
        ts.calibrate_stream([(logits[:50], labels[:50]), (bad, labels[50:])], 0.1, "aps")
    assert caught.value.__notes__ == ["in block 1 of the source, which begins at row 50"]


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("total", "line"),
    [(None, "pass 1 3,000 rows, 1,000 rows/s"), (6000, "#####] 50%, 1,000 rows/s, 3 s left")],
)
def test_progress_has_a_rate_and_the_time_left(monkeypatch, total, line):
    clock = iter([0.0, 0.5, 3.0])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    with RowProgress(total, "pass 1") as progress:
        progress.advance(1000)
        assert not terminal.getvalue()  # nothing in the first second
        progress.advance(2000)
        shown = terminal.getvalue()
    assert line in shown.replace(" " * 15, "").replace("]  50%", "] 50%")
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_warnings_come_once():
    logits, labels, _ = problem(n=5)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ts.calibrate_stream([(logits, labels)], 0.01, "er-aps")
    assert [w.category for w in caught] == [ts.SmallCalibrationWarning]


_STREAMED = """
import numpy as np
import tightset as ts
import footprint

def blocks():
    for seed in range(60):
        rng = np.random.default_rng(seed)
        yield rng.standard_normal((20_000, 100), dtype=np.float32), rng.integers(100, size=20_000)

for _ in zip(range(2), blocks()):
    pass
before = footprint.peak()
predictor = ts.calibrate_stream(blocks, 0.1, "aps", max_memory=2**20)
print(predictor.n_calibration, footprint.peak() - before)
"""


def test_memory_is_bounded_whatever_the_source_holds():
    """480 MB of logits and 9.6 MB of scores go through; the tenth of the logits would be too much."""
    where = Path(__file__).parent
    run = subprocess.run(
        [sys.executable, "-c", _STREAMED], cwd=where, capture_output=True, text=True, check=True
    )
    rows, beyond = map(int, run.stdout.split())
    assert rows == 1_200_000
    assert beyond < 48_000_000
