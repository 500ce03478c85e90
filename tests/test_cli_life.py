"""A predictor's life from the shell: calibrate, inspect, predict, evaluate."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors.numpy

import tightset as ts
from command_line import output, run
from tightset.cli import app

N = 600


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    labels = rng.integers(4, size=2 * N)
    logits = (2 * rng.normal(size=(2 * N, 4)) + 4 * np.eye(4)[labels]).astype(np.float32)
    return logits, labels


@pytest.fixture
def folder(data, tmp_path):
    logits, labels = data
    np.save(tmp_path / "logits.npy", logits[:N])
    np.save(tmp_path / "labels.npy", labels[:N])
    np.save(tmp_path / "new.npy", logits[N:])
    np.save(tmp_path / "truth.npy", labels[N:])
    return tmp_path


def expected(data, **settings):
    logits, labels = data
    return ts.calibrate(logits[:N], labels[:N], **settings)


@pytest.mark.parametrize("recipe", ["er-aps", "thr", "paper"])
def test_calibrate_writes_the_predictor_of_the_library(data, folder, recipe):
    said = output(
        "calibrate", "logits.npy", "labels.npy", "-o", "p.json", "-a", 0.05, "-r", recipe, cwd=folder
    )
    assert said.startswith("p.json: alpha 0.05, 600 rows, 4 labels")
    assert ts.load(folder / "p.json") == expected(data, alpha=0.05, recipe=recipe)


def test_calibrate_takes_every_option(data, folder):
    out = output(
        *("calibrate", "logits.npy", "labels.npy", "-o", "p.json", "--objective", "adaptive", "--seed", 7),
        *("--score-table", "--threads", 1, "--json"),
        cwd=folder,
    )
    made, loaded = expected(data, objective="adaptive", seed=7), ts.load(folder / "p.json")
    assert loaded == made
    assert np.array_equal(loaded.calibration_scores, made.calibration_scores)
    said = json.loads(out)
    assert said["output"] == "p.json"
    assert said["n_calibration"] == made.n_calibration
    assert said["in_use"] == [{"scoring": str(made.scoring), "threshold": made.threshold}]


def test_probabilities(data, folder):
    logits, labels = data
    p = ts.softmax(logits)
    np.savez(folder / "p.npz", logits=p[:N], labels=labels[:N])
    np.save(folder / "new-p.npy", p[N:])
    output("calibrate", "p.npz", "-o", "p.json", "--probabilities", "-r", "aps", cwd=folder)
    output("predict", "p.json", "new-p.npy", "-o", "sets.npz", cwd=folder)
    made = ts.calibrate(p[:N], labels[:N], recipe="aps", probabilities=True)
    with np.load(folder / "sets.npz") as sets:
        assert np.array_equal(sets["indices"], made.predict_set(p[N:]).indices)


def write(path, logits, labels):
    """Write both into one file of the format that the suffix names."""
    if path.suffix == ".npz":
        np.savez(path, logits=logits, labels=labels)
    elif path.suffix == ".csv":
        header = ",".join([*(f"class {i}" for i in range(logits.shape[1])), "label"])
        table = np.column_stack([logits.astype(np.float64), labels])
        np.savetxt(path, table, delimiter=",", header=header, comments="", fmt="%.17g")
    elif path.suffix == ".parquet":
        columns = {f"class {i}": logits[:, i] for i in range(logits.shape[1])}
        pq.write_table(pa.table({**columns, "label": labels}), path)
    else:
        safetensors.numpy.save_file({"logits": logits, "labels": labels}, path)


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".parquet", ".safetensors"])
def test_logits_and_labels_in_one_file(data, folder, suffix):
    logits, labels = data
    write(folder / f"both{suffix}", logits[:N], labels[:N])
    output("calibrate", f"both{suffix}", "-o", "p.json", "-r", "thr", cwd=folder)
    # Text has no float32: a table of decimals is read in double precision.
    wide = logits[:N].astype(np.float64) if suffix == ".csv" else logits[:N]
    assert ts.load(folder / "p.json") == ts.calibrate(wide, labels[:N], recipe="thr")


@pytest.mark.parametrize("header", ["", "label", "the class"])
def test_labels_as_text(data, folder, header):
    logits, labels = data
    np.savetxt(folder / "labels.csv", labels[:N], fmt="%d", header=header, comments="")
    output("calibrate", "logits.npy", "labels.csv", "-o", "p.json", "-r", "thr", cwd=folder)
    assert ts.load(folder / "p.json") == ts.calibrate(logits[:N], labels[:N], recipe="thr")


def test_lists_in_a_column(data, folder):
    logits, labels = data
    pq.write_table(pa.table({"logits": logits[:N].tolist(), "labels": labels[:N]}), folder / "lists.parquet")
    output("calibrate", "lists.parquet", "-o", "p.json", "-r", "thr", cwd=folder)
    wide = logits[:N].astype(np.float64)
    assert ts.load(folder / "p.json") == ts.calibrate(wide, labels[:N], recipe="thr")


def test_arrays_by_name(data, folder):
    logits, labels = data
    np.savez(folder / "many.npz", a=logits[:N], b=labels[:N], c=logits[N:])
    output("calibrate", "many.npz:a", "many.npz:b", "-o", "p.json", cwd=folder)
    assert ts.load(folder / "p.json") == expected(data)


def test_large_files_are_mapped(data, folder, monkeypatch):
    from tightset.cli import array_files

    assert not isinstance(array_files.read_logits(str(folder / "new.npy")), np.memmap)
    monkeypatch.setattr(array_files, "MAPPED_FROM", 1000)
    found = array_files.read_logits(str(folder / "new.npy"))
    assert isinstance(found, np.memmap)
    assert np.array_equal(found, data[0][N:])


@pytest.mark.parametrize("suffix", [".npz", ".parquet", ".jsonl"])
def test_predict_writes_the_sets_of_the_library(data, folder, suffix):
    made = expected(data, recipe="thr")
    made.save(folder / "p.json")
    said = output("predict", "p.json", "new.npy", "-o", f"sets{suffix}", cwd=folder)
    sets = made.predict_set(data[0][N:])
    assert said == f"sets{suffix}: 600 sets, mean size {sets.sizes.mean():.3f}, " + (
        f"{(sets.sizes == 0).mean():.1%} empty\n"
    )
    path = folder / f"sets{suffix}"
    if suffix == ".npz":
        with np.load(path) as found:
            again = ts.PredictionSets(found["indptr"], found["indices"], int(found["n_labels"]))
        assert again == sets
        return
    if suffix == ".parquet":
        rows = pq.read_table(path).to_pylist()
    else:
        rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["row"] for row in rows] == list(range(N))
    assert [row["labels"] for row in rows] == [labels.tolist() for labels in sets]


def test_predict_in_blocks_gives_the_same_sets(data, monkeypatch):
    from tightset.cli import predict

    made = expected(data, recipe="thr")
    monkeypatch.setattr(predict, "_BLOCK", 4 * 37)
    assert predict.predict_in_blocks(made, data[0][N:]) == made.predict_set(data[0][N:])


def test_no_empty(data, folder):
    made = expected(data, alpha=0.5, recipe="thr")
    made.save(folder / "p.json")
    with_empty = json.loads(output("predict", "p.json", "new.npy", "-o", "s.npz", "--json", cwd=folder))
    assert with_empty["empty_rate"] > 0
    settings = ("predict", "p.json", "new.npy", "-o", "s.npz", "--json", "--no-empty")
    assert json.loads(output(*settings, cwd=folder))["empty_rate"] == 0


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".csv", ".parquet"])
def test_logits_through_a_pipe(data, folder, suffix):
    expected(data, recipe="thr").save(folder / "p.json")
    path = folder / f"piped{suffix}"
    if suffix == ".npy":
        np.save(path, data[0][N:])
    else:
        write(path, data[0][N:], data[1][N:])
    from_file = output("predict", "p.json", path.name, cwd=folder)
    assert output("predict", "p.json", "-", stdin=path.read_bytes(), cwd=folder) == from_file
    assert from_file.count("\n") == N


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted where Linux lists them")
def test_parquet_is_read_without_threads_that_could_outlive_the_command(data, tmp_path):
    # One of pyarrow's that was not yet done with bytes it had read aborted the command at its end.
    write(tmp_path / "piped.parquet", data[0][N:], data[1][N:])
    program = (
        "import os, sys, pyarrow.parquet\n"
        "from tightset.cli.array_files import read_data\n"
        "before = os.listdir('/proc/self/task')\n"
        "rows = len(read_data('-', None).labels)\n"
        "print(rows, os.listdir('/proc/self/task') == before)"
    )
    content = (tmp_path / "piped.parquet").read_bytes()
    done = subprocess.run([sys.executable, "-c", program], input=content, capture_output=True, check=True)
    assert done.stdout.decode() == f"{N} True\n"


def test_a_predictor_through_a_pipe(data, folder):
    text = output("calibrate", "logits.npy", "labels.npy", "-o", "-", cwd=folder)
    expected(data).save(folder / "p.json")
    assert text == (folder / "p.json").read_text()
    piped = output("predict", "-", "new.npy", stdin=text.encode(), cwd=folder)
    assert piped == output("predict", "p.json", "new.npy", cwd=folder)


def test_a_warning_names_the_option(data, folder):
    np.save(folder / "f.npy", np.exp(data[0][:N]) / np.exp(data[0][:N]).sum(axis=1, keepdims=True))
    done = run("calibrate", "f.npy", "labels.npy", "-o", "f.json", "-r", "thr", cwd=folder)
    warning = done.stderr.decode()
    assert warning.startswith("tightset: warning: logits read like probabilities")
    assert warning.endswith(": use --probabilities of calibrate or compare\n")


def test_evaluate(data, folder):
    made = expected(data, recipe="thr")
    made.save(folder / "p.json")
    logits, labels = data[0][N:], data[1][N:]
    report = ts.metrics.report(made.predict_set(logits), labels, logits, 0.1, N)
    assert output("evaluate", "p.json", "new.npy", "truth.npy", cwd=folder) == f"{report}\n"
    said = json.loads(output("evaluate", "p.json", "new.npy", "truth.npy", "--json", cwd=folder))
    assert said == json.loads(json.dumps(report.to_dict()))


def test_inspect(data, folder):
    made = expected(data, alpha=0.05, recipe="thr")
    made.save(folder / "p.json")
    text = output("inspect", "p.json", cwd=folder)
    assert f"threshold {made.threshold:.6g}" in text
    assert "600 rows, the threshold is score 571" in text
    band = ts.metrics.coverage_band(N, 0.05)
    assert f"{band.lower:.4f} to {band.upper:.4f}" in text
    said = json.loads(output("inspect", "p.json", "--json", cwd=folder))
    assert said["rank"] == 571
    assert said["true_coverage_band"] == list(band)


def test_inspect_of_a_selected_predictor_promises_no_law(data, folder):
    expected(data).save(folder / "p.json")
    assert json.loads(output("inspect", "p.json", "--json", cwd=folder))["true_coverage_band"] is None
    assert "true coverage    no band: candidates were selected" in output("inspect", "p.json", cwd=folder)
    report = output("evaluate", "p.json", "new.npy", "truth.npy", cwd=folder)
    assert "no band: candidates were selected on the calibration rows (modsel)" in report


def test_inspect_of_a_higher_rank_has_its_law(data, folder):
    made = expected(data, recipe="thr", guarantee="pac")
    made.save(folder / "p.json")
    assert made.rank > ts.conformal_rank(N, 0.1)
    # A level whose rank this is has the same law.
    band = ts.metrics.coverage_band(N, 1 - (made.rank - 0.5) / (N + 1))
    assert json.loads(output("inspect", "p.json", "--json", cwd=folder))["true_coverage_band"] == list(band)
    report = json.loads(output("evaluate", "p.json", "new.npy", "truth.npy", "--json", cwd=folder))
    assert report["true_band"] == list(band)


def test_an_infinite_threshold_is_json(folder):
    done = run(
        *("calibrate", "logits.npy", "labels.npy", "-o", "p.json", "-a", 0.001, "-r", "thr", "--json"),
        cwd=folder,
    )
    assert json.loads(done.stdout)["in_use"][0]["threshold"] == "inf"
    assert done.stderr.decode().startswith("tightset: warning: 600 rows are too few for alpha=0.001")
    assert done.stderr.count(b"\n") == 1


def test_conditions_and_guarantees(data, folder):
    calibrate = ("calibrate", "logits.npy", "labels.npy", "-o", "p.json")
    said = output(
        *calibrate, "-r", "aps", "--condition", "label", "--guarantee", "pac", "--delta", 0.2, cwd=folder
    )
    assert said.rstrip().endswith("in 4 cells by label")
    made = expected(data, recipe="aps", condition="label", guarantee="pac", delta=0.2)
    assert ts.load(folder / "p.json") == made
    said = output("inspect", "p.json", cwd=folder)
    assert "coverage within  label: 4 cells, scarce 'all'" in said
    assert "pac: all but 0.2 of calibrations, divided among 4 thresholds" in said
    assert "true coverage    no band: condition='label' has a threshold for each cell" in said
    facts = json.loads(output("inspect", "p.json", "--json", cwd=folder))
    assert [cell["rank"] for cell in facts["condition"]["cells"]] == [c.rank for c in made.condition.cells]


def test_inspect_is_short_where_there_is_much(data, tmp_path, capsys):
    rng = np.random.default_rng(4)
    labels = rng.integers(7, size=900)
    logits = 2 * rng.normal(size=(900, 7)) + 3 * np.eye(7)[labels]
    made = ts.calibrate(logits, labels, recipe="er-aps", condition="label", row_ids=np.arange(900))
    made.save(tmp_path / "p.json")
    with warnings.catch_warnings():
        assert app.run(["inspect", str(tmp_path / "p.json")]) == 0
    said = capsys.readouterr().out
    used = [len(made.condition.cells[made.condition.cell_of[label]].candidates) for label in range(5)]
    assert max(used) > 1
    for label, n in enumerate(used):
        assert f" {label}: score " in said
        assert n == 1 or f", {n} candidates\n" in said
    assert " 5: score" not in said
    assert "                 and 2 more\n" in said
    assert "                 with row ids\n" in said


def test_groups_from_files(data, folder):
    groups = np.array(["a", "b"])[np.arange(2 * N) % 2]
    np.save(folder / "groups.npy", groups[:N])
    np.save(folder / "new-groups.npy", groups[N:])
    output(
        *("calibrate", "logits.npy", "labels.npy", "-o", "p.json", "-r", "aps", "--condition", "groups.npy"),
        *("--scarce", "pooled"),
        cwd=folder,
    )
    made = expected(data, recipe="aps", condition=groups[:N], scarce="pooled")
    assert ts.load(folder / "p.json") == made
    output("predict", "p.json", "new.npy", "-o", "sets.npz", "--groups", "new-groups.npy", cwd=folder)
    sets = np.load(folder / "sets.npz")
    assert np.array_equal(sets["indices"], made.predict_set(data[0][N:], groups=groups[N:]).indices)
    said = output(
        "evaluate", "p.json", "new.npy", "truth.npy", "--groups", "new-groups.npy", "--json", cwd=folder
    )
    assert json.loads(said)["coverage"] > 0.8
    done = run("predict", "p.json", "new.npy", cwd=folder)
    assert b"groups must be given exactly when calibration had them" in done.stderr
