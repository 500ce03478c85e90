"""`tightset compare`, `tightset reproduce` and `tightset bench`, end to end."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

import tightset as ts
from command_line import output
from tightset.comparison import compare


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
    assert json.loads(out) == json.loads(json.dumps(found.to_dict()))
    with (folder / "t.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 6
    assert float(lines[0]["coverage"]) == pytest.approx(found.cells[0].coverage.mean(), abs=1e-6)
    assert lines[0]["in_band"] == "yes"
    assert lines[-1]["in_band"] == ""
    assert found.sentence.split(":")[0] in (folder / "r.html").read_text()
    assert output("compare", *SETTINGS, "--csv", "-", cwd=folder) == (folder / "t.csv").read_text()


def test_compare_takes_a_sample_of_many_rows(folder):
    document = json.loads(output("compare", *SETTINGS, "--max-rows", 100, "--json", cwd=folder))
    assert document["n"] == 100
    again = json.loads(output("compare", *SETTINGS, "--max-rows", 100, "--json", cwd=folder))
    assert again == document


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
