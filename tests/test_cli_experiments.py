"""`tightset compare`, `tightset reproduce` and `tightset bench`, end to end."""

from __future__ import annotations

import csv
import json
import os
import sys
import warnings

import numpy as np
import pytest

import tightset as ts
from command_line import output
from tightset.cli import app, pictures
from tightset.comparison import compare
from tightset.methods import ALL


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("compare")
    rng = np.random.default_rng(8)
    labels = rng.integers(5, size=400)
    np.savez(path / "both.npz", logits=2 * rng.normal(size=(400, 5)) + 3 * np.eye(5)[labels], labels=labels)
    return path


def expected(folder):
    with np.load(folder / "both.npz") as arrays:
        logits, labels = arrays["logits"], arrays["labels"]
    return compare(
        logits,
        labels,
        name="both.npz",
        recipes=["thr", "aps", "paper"],
        levels=[0.9, 0.95],
        n_splits=3,
        seed=2,
    )


def without_times(value):
    """Return a document without what differs from run to run."""
    if isinstance(value, dict):
        return {key: without_times(one) for key, one in value.items() if not key.endswith("_seconds")}
    return [without_times(one) for one in value] if isinstance(value, list) else value


SETTINGS = ("both.npz", "--recipes", "thr,aps,paper", "--levels", "0.9,0.95", "--splits", "3", "--seed", "2")


def test_compare_prints_what_the_library_finds(folder):
    found = expected(folder)
    text = output("compare", *SETTINGS, cwd=folder)
    lines = text.splitlines()
    assert lines[0].startswith("both.npz: 400 rows, 5 labels")
    for recipe in found.recipes:
        line = next(line for line in lines if line.startswith(f"{recipe} "))
        for level in found.levels:
            cell = found.cell(recipe, level)
            mark = "~" if recipe == "paper" else "+"
            assert f"{cell.coverage.mean():.3f}{mark} {cell.mean_size.mean():6.3f}" in line
    assert found.sentence in text


def test_compare_as_json_csv_and_report(folder):
    out = output("compare", *SETTINGS, "--json", "--csv", "t.csv", "--report", "r.html", cwd=folder)
    found = expected(folder)
    assert without_times(json.loads(out)) == without_times(json.loads(json.dumps(found.to_dict())))
    with (folder / "t.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 6
    assert float(lines[0]["coverage"]) == pytest.approx(found.cells[0].coverage.mean(), abs=1e-6)
    assert lines[0]["in_band"] == "yes"
    assert lines[-1]["in_band"] == ""
    assert found.sentence.split(":")[0] in (folder / "r.html").read_text()
    again = list(csv.DictReader(output("compare", *SETTINGS, "--csv", "-", cwd=folder).splitlines()))
    assert [without_times(line) for line in again] == [without_times(line) for line in lines]


def test_many_levels_are_shown_by_three(folder, capsys):
    arguments = ["compare", str(folder / "both.npz"), "--recipes", "thr", "--levels", "0.90:0.96:0.01"]
    with warnings.catch_warnings():
        assert app.run([*arguments, "--splits", "1"]) == 0
    head, line = [
        line for line in capsys.readouterr().out.splitlines() if "of 7" in line or "in band" in line
    ]
    assert head.split() == ["method", "0.9", "0.93", "0.96", "in", "band"]
    assert line.endswith(" of 7"), "bands are those of all levels"


def test_compare_takes_a_sample_of_many_rows(folder):
    document = json.loads(output("compare", *SETTINGS, "--max-rows", 100, "--json", cwd=folder))
    assert document["n"] == 100
    again = json.loads(output("compare", *SETTINGS, "--max-rows", 100, "--json", cwd=folder))
    assert without_times(again) == without_times(document)


def test_compare_all(folder):
    settings = ("both.npz", "--all", "--recipes", "thr", "--levels", "0.9", "--splits", "2")
    text = output("compare", *settings, "--report", "all.html", "--csv", "all.csv", cwd=folder)
    lines = text.splitlines()
    with (folder / "all.csv").open() as file:
        rows = {row["recipe"]: row for row in csv.DictReader(file)}
    assert set(rows) == set(ALL)
    page = (folder / "all.html").read_text()
    head = next(line for line in lines if line.startswith("method") and "worst label" in line)
    assert head.split()[-1] == "ms"
    for name in ALL:
        figures = [line for line in lines if line.startswith(f"{name} ")][-1].split()
        row = rows[name]
        for shown, column in zip(
            figures[1:5], ("size", "coverage", "worst_stratum_coverage", "worst_class_coverage"), strict=True
        ):
            assert float(shown) == pytest.approx(float(row[column]), abs=6e-4)
        assert float(row["calibration_seconds"]) > 0
        assert float(row["prediction_seconds"]) > 0
        assert f'<th scope="row">{name}</th>' in page
    for column in ("worst stratum", "worst label", "time"):
        assert f">{column}</th>" in page
    assert "Plots show 9 of the 36 methods" in page


def test_what_scikit_learn_does_is_left_out_without_it(folder, tmp_path):
    (tmp_path / "sklearn.py").write_text("raise ModuleNotFoundError('No module named sklearn')\n")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    settings = ("both.npz", "--all", "--levels", "0.9", "--splits", "1", "--max-rows", "200", "--json")
    document = json.loads(output("compare", *settings, cwd=folder, env=env))
    left_out = ["aps/isotonic", "aps/spline", "thr/isotonic", "thr/spline"]
    assert set(document["recipes"]) == set(ALL) - set(left_out)
    assert f"left out, for want of scikit-learn: {', '.join(left_out)}" in document["notes"]


def test_reproduce(tmp_path):
    settings = ("--dataset", "carer", "--recipes", "paper,aps,thr,er-aps", "--splits", "2")
    text = output("reproduce", *settings, "--output", "made/here", cwd=tmp_path)
    data = ts.datasets.load("carer")
    recipes = ["paper", "aps", "thr", "er-aps"]
    found = compare(data.logits, data.labels, recipes=recipes, n_splits=2)
    for recipe in recipes:
        cell = found.cell(recipe, 0.9)
        line = [line for line in text.splitlines() if line.startswith(f"  {recipe} ")][-1]
        mark = "~" if recipe == "paper" else "+"
        assert line.split()[1:3] == [f"{cell.coverage.mean():.3f}{mark}", f"{cell.mean_size.mean():.3f}"]
    assert "30 of 30 cells with an exact guarantee lie in their band" in text
    assert "right, low entropy" in text
    assert "Where our figures differ" in text
    files = [tmp_path / line for line in text.splitlines() if line.startswith("made/here/")]
    assert {file.name for file in files} == {
        *("table.csv", "results.json", "carer-size.svg", "carer-scenarios.svg"),
        *("saturation.svg", "selection.svg", "carer.html"),
    }
    assert all(file.stat().st_size for file in files)
    with files[0].open() as file:
        lines = {(line["recipe"], line["level"]): line for line in csv.DictReader(file)}
    assert lines["aps", "0.9"]["paper_size"] == "1.034"
    assert len(lines) == 40
    document = json.loads(files[1].read_text())
    assert set(document) == {"evaluations", "saturation", "selection_effect"}


def test_without_matplotlib_there_are_no_plots(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    made, said = pictures.draw(tmp_path, [], None, None)
    assert made == []
    assert said.startswith("No plots and reports: they need matplotlib, of the extra plot: pip install")
    assert list(tmp_path.iterdir()) == []


def test_reproduce_as_json(tmp_path):
    settings = ("-d", "carer", "--recipes", "thr", "--splits", "1", "--no-plots", "--json")
    document = json.loads(output("reproduce", *settings, "--output", tmp_path))
    assert document["evaluations"][0]["dataset"] == "carer"
    assert [file.rpartition("/")[2] for file in document["files"]] == ["table.csv", "results.json"]


def test_bench():
    text = output("bench", "--rows", 100, "--repeat", 1, "--threads", 1)
    assert "1 threads, float32" in text
    assert sum(line.startswith("label scores") for line in text.splitlines()) == 3
    document = json.loads(output("bench", "--rows", 100, "--repeat", 1, "--json"))
    assert len(document["results"]) == 12
    assert all(one["seconds"] > 0 for one in document["results"])


def test_bench_compares_the_same_scores():
    """What NumPy is timed with is the score, but for U."""
    from tightset.cli.bench import _data, _numpy_scores

    logits, labels = _data(200, 20)
    ours = ts.label_scores(logits, labels, "aps", u=0.5)
    assert _numpy_scores(logits, labels) == pytest.approx(ours, abs=1e-4)
