"""The figures of the README are those that the command prints, and lie in their bands."""

from __future__ import annotations

import json
import re

import pytest

import tightset as ts
from readme_table import COMMAND, README, printed, shown

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("readme")
    table = printed(folder)
    document = json.loads((folder / "tightset-results" / "results.json").read_text())
    return table, document["evaluations"]


def test_the_table(run):
    _, inside, _ = shown()
    assert inside == run[0], "make readme brings the README up to date"


def test_the_command_is_named():
    assert COMMAND in README.read_text()
    assert len(README.read_text().splitlines()) < 200


def test_the_install_line_brings_what_the_commands_need():
    section = README.read_text().partition("## From the shell")[2].partition("\n## ")[0]
    extras = re.search(r"pip install '\.\[([\w,]+)\]'", section).group(1).split(",")
    needs = {"tightset compare": "cli", "-o sets.parquet": "files", "--report out.html": "plot"}
    for what, extra in needs.items():
        assert what in section
        assert extra in extras


def test_every_exact_recipe_is_in_its_band(run):
    assert [one["dataset"] for one in run[1]] == list(ts.datasets.names())
    for one in run[1]:
        checked = [cell for cell in one["cells"] if cell["recipe"] != "paper"]
        assert len(checked) == 30
        assert [(cell["recipe"], cell["level"]) for cell in checked if not cell["in_band"]] == []
