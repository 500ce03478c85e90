"""Bad input from the shell: one line, exit code 2, no traceback, nothing written."""

from __future__ import annotations

import os
import sys
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tightset as ts
from command_line import refusal
from tightset.cli import app, array_files, options, predict


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("bad")
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(50, 3)), rng.integers(3, size=50)
    np.save(path / "x.npy", logits)
    np.save(path / "y.npy", labels)
    np.savez(path / "xy.npz", logits=logits, labels=labels)
    np.savez(path / "ab.npz", a=logits, b=labels)
    np.save(path / "nan.npy", np.where(np.arange(3) == 1, np.nan, logits))
    np.save(path / "wide.npy", rng.normal(size=(50, 4)))
    np.save(path / "half.npy", labels + 0.5)
    np.save(path / "short.npy", labels[:49])
    np.save(path / "few.npy", logits[:5])
    np.save(path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    (path / "broken.npy").write_bytes(b"\x93NUMPY no")
    (path / "empty.csv").write_text("")
    (path / "words.csv").write_text("a,b\n1,x\n")
    (path / "ragged.csv").write_text("1,2\n3\n")
    (path / "broken.parquet").write_bytes(b"PAR1 no")
    (path / "broken.safetensors").write_bytes(b"no")
    (path / "broken.json").write_text("{")
    (path / "x.txt").write_text("1")
    ts.calibrate(logits, labels, recipe="thr").save(path / "p.json")
    return path


CASES = [
    (["nonsense"], "No such command 'nonsense'"),
    (["calibrate", "x.npy", "y.npy"], "Missing option '--output'"),
    (["calibrate", "x.npy", "y.npy", "--nonsense"], "No such option"),
    (["calibrate", "gone.npy", "y.npy", "-o", "q.json"], "gone.npy does not exist"),
    (["calibrate", "x.npy", "-o", "q.json"], "LABELS must be given: x.npy holds one array"),
    (["calibrate", ".", "y.npy", "-o", "q.json"], ". is not a file"),
    (["calibrate", "-", "-", "-o", "q.json"], "LOGITS and LABELS cannot both be standard input"),
    (
        ["calibrate", "-", "y.npy", "-o", "q.json", "--condition", "-"],
        "LOGITS and --condition cannot both be",
    ),
    (["calibrate", "x.npy", "y.npy", "-o", "q.json", "--condition", "groups"], "groups does not exist"),
    (["calibrate", "ab.npz", "-o", "q.json"], "ab.npz has no array 'logits' but a, b; say which with"),
    (["calibrate", "xy.npz:z", "y.npy", "-o", "q.json"], "xy.npz has no array 'z', it has logits, labels"),
    (["calibrate", "nan.npy", "y.npy", "-o", "q.json"], "logits"),
    (["calibrate", "x.npy", "half.npy", "-o", "q.json"], "labels"),
    (["calibrate", "x.npy", "short.npy", "-o", "q.json"], "labels must have"),
    (["calibrate", "objects.npy", "y.npy", "-o", "q.json"], "objects.npy cannot be read as .npy"),
    (["calibrate", "broken.npy", "y.npy", "-o", "q.json"], "broken.npy cannot be read as .npy"),
    (["calibrate", "empty.csv", "y.npy", "-o", "q.json"], "empty.csv cannot be read as .csv: it is empty"),
    (["calibrate", "words.csv", "y.npy", "-o", "q.json"], "words.csv cannot be read as .csv"),
    (["calibrate", "ragged.csv", "y.npy", "-o", "q.json"], "ragged.csv cannot be read as .csv"),
    (["calibrate", "broken.parquet", "y.npy", "-o", "q.json"], "broken.parquet cannot be read"),
    (["calibrate", "broken.safetensors", "y.npy", "-o", "q.json"], "broken.safetensors cannot be read"),
    (["calibrate", "x.txt", "y.npy", "-o", "q.json"], "the file must end in one of .npy, .npz, .csv"),
    (["calibrate", "x.npy", "y.npy", "-o", "q.json", "-a", "2"], "alpha must be strictly between 0 and 1"),
    (["calibrate", "x.npy", "y.npy", "-o", "q.json", "-a", "x"], "Invalid value for '--alpha'"),
    (["calibrate", "x.npy", "y.npy", "-o", "q.json", "-r", "best"], "recipe must be one of 'paper'"),
    (["calibrate", "x.npy", "y.npy", "-o", "q.json", "--objective", "luck"], "objective must be one of"),
    (["calibrate", "x.npy", "y.npy", "-o", "no/q.json"], "the folder of no/q.json does not exist"),
    (["calibrate", "x.npy", "y.npy", "-o", "."], "is a folder, not a file"),
    (["predict", "p.json", "wide.npy"], "logits must have 3 labels as in calibration, got 4"),
    (["predict", "p.json", "x.npy", "-o", "s.txt"], "--output must end in one of .npz, .parquet, .jsonl"),
    (["predict", "p.json", "x.npy", "-o", "no/s.npz"], "the folder of no/s.npz does not exist"),
    (["predict", "gone.json", "x.npy"], "gone.json does not exist"),
    (["predict", "broken.json", "x.npy"], "broken.json is not a valid predictor"),
    (["predict", "-", "-"], "PREDICTOR and LOGITS cannot both be standard input"),
    (["predict", "p.json", "-"], "standard input is neither .npy, .npz, .parquet nor .csv: it is empty"),
    (["predict", "-", "x.npy"], "standard input is not a valid predictor"),
    (["evaluate", "p.json", "x.npy"], "LABELS must be given"),
    (["evaluate", "p.json", "x.npy", "short.npy"], "labels must have"),
    (["evaluate", "-", "-"], "PREDICTOR and LOGITS cannot both be standard input"),
    (["evaluate", "-", "x.npy", "-"], "PREDICTOR and LABELS cannot both be standard input"),
    (["predict", "p.json", "-", "--groups", "-"], "LOGITS and --groups cannot both be standard input"),
    (["inspect", "broken.json"], "broken.json is not a valid predictor"),
    (
        ["inspect", "x.npy"],
        "x.npy is not a valid predictor: it is no predictor document, which is JSON in UTF-8",
    ),
    (["inspect"], "Missing argument"),
    (["compare", "xy.npz", "--recipes", "best"], "--recipes must be some of paper"),
    (["compare", "xy.npz", "--recipes", "thr,aps/best"], "aps/label: label, cluster, rc3p, pac, entropy"),
    (["compare", "xy.npz", "--recipes", "thr,paper/label"], "got 'paper/label'"),
    (["compare", "xy.npz", "--levels", "1:2"], "--levels must be numbers as in"),
    (["compare", "xy.npz", "--levels", "1.5"], "levels must be strictly between 0 and 1, got 1.5"),
    (["compare", "xy.npz", "--splits", "0"], "splits"),
    (["compare", "xy.npz", "--test-share", "1"], "test_share must be strictly between 0 and 1, got 1.0"),
    (["compare", "few.npy", "short.npy"], "labels must have"),
    (["compare", "xy.npz", "--json", "--csv", "-"], "cannot both go to standard output"),
    (["compare", "xy.npz", "--report", "-"], "--report must be a file, got -"),
    (["compare", "xy.npz", "--report", "no/r.html"], "the folder of no/r.html does not exist"),
    (["reproduce", "--dataset", "cifar"], "--dataset must be one of"),
    (["reproduce", "--splits", "0"], "Invalid value for '--splits'"),
    (["reproduce", "--output", "x.npy"], "x.npy: File exists"),
    (["bench", "--rows", "1"], "Invalid value for '--rows'"),
]


@pytest.mark.parametrize(("arguments", "message"), CASES, ids=lambda value: " ".join(value)[:60])
def test_one_line(folder, arguments, message):
    before = set(folder.iterdir())
    assert message in refusal(*arguments, cwd=folder, stdin=b"")
    assert set(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("package", "arguments", "message"),
    [
        (
            "typer",
            ["--help"],
            "the command line needs typer, of the extra cli: pip install 'tightset[cli]', or '.[cli]'",
        ),
        (
            "pyarrow",
            ["predict", "p.json", "broken.parquet"],
            ".parquet files need pyarrow, of the extra files",
        ),
        (
            "pyarrow",
            ["predict", "p.json", "x.npy", "-o", "s.parquet"],
            ".parquet files need pyarrow, of the extra files",
        ),
        ("safetensors", ["predict", "p.json", "broken.safetensors"], "need safetensors, of the extra files"),
        (
            "sklearn",
            ["compare", "xy.npz", "--recipes", "aps/spline"],
            "aps/spline need scikit-learn, of the extra sklearn: pip",
        ),
        (
            "matplotlib",
            ["compare", "xy.npz", "--report", "r.html"],
            "reports need matplotlib, of the extra plot",
        ),
        ("fastapi", ["serve", "p.json"], "services need fastapi, of the extra serve: pip install"),
    ],
)
def test_a_missing_package_is_named(folder, tmp_path, package, arguments, message):
    """A module of the same name that cannot be found stands in for one that is not installed."""
    (tmp_path / f"{package}.py").write_text(
        f"raise ModuleNotFoundError('No module named {package}', name='{package}')\n"
    )
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    assert message in refusal(*arguments, cwd=folder, env=env)


def test_the_module_runs_too(folder):
    import subprocess

    done = subprocess.run([sys.executable, "-m", "tightset", "inspect"], capture_output=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(b"tightset: error: Missing argument")


def test_a_fault_of_ours_is_not_taken_for_one_of_the_input(folder, monkeypatch):
    def fail(*_):
        raise RuntimeError("a fault on purpose")

    monkeypatch.setattr("tightset.cli.inspect.read_predictor", fail)
    with warnings.catch_warnings(), pytest.raises(RuntimeError, match="on purpose"):
        app.run(["inspect", str(folder / "p.json")])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"logits": [[1.0, 2.0], [3.0]]}, r"column 'logits' must have lists of one length .* \[1, 2\]"),
        # As many numbers as two rows of two have.
        ({"logits": [[1.0], [2.0, 3.0, 4.0]]}, r"column 'logits' must have lists of one length .* \[1, 3\]"),
        (
            {"logits": [[1.0, None], [2.0, 3.0]]},
            "column 'logits' must have lists of one length without nulls",
        ),
        ({"a": [1.0, None], "b": [1.0, 2.0]}, "column 'a' has 1 missing values"),
    ],
)
def test_tables_with_holes(tmp_path, columns, message):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table(columns), path)
    with pytest.raises(ValueError, match=rf"t\.parquet cannot be read as \.parquet: {message}"):
        array_files.read_logits(str(path))


def test_more_names_than_columns(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b,c\n1,2\n3,4\n")
    with pytest.raises(ValueError, match=r"t\.csv cannot be read as \.csv: it has 3 names over 2 columns"):
        array_files.read_logits(str(path))


@pytest.mark.parametrize("levels", ["", "x", "0.9,x", "0.9:0.95", "0.95:0.9:0.01", "0.9:0.95:0"])
def test_levels_that_are_none(levels):
    with pytest.raises(ValueError, match=f"--levels must be numbers as in 0.9,0.95 .* got '{levels}'"):
        options.parse_levels(levels)


def test_groups_of_too_few_rows(folder, monkeypatch):
    monkeypatch.setattr(predict, "_BLOCK", 30)
    message = r"--groups must hold one for each of the 50 rows, got shape \(49,\)"
    with pytest.raises(ValueError, match=message):
        predict.predict_in_blocks(
            ts.load(folder / "p.json"), np.load(folder / "x.npy"), groups=np.zeros(49, int)
        )
