"""Everything the documentation shows runs: docstrings, and the blocks of each page in one session."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

import tightset as ts
import tightset.report

# Those of the peers run in their environment, in tests/peers.
ELSEWHERE = {"tightset._core", *(f"tightset.integrations.{peer}" for peer in ("crepes", "mapie", "torchcp"))}
MODULES = [
    "tightset",
    *(m.name for m in pkgutil.walk_packages(ts.__path__, "tightset.") if m.name not in ELSEWHERE),
]
ROOT = Path(__file__).parent.parent
# Fences of blocks that run here; "python peers" needs the other libraries, and runs in tests/peers.
BLOCK = re.compile(r"```(?:python|\{code-cell\} ipython3)\n(?::tags:.*\n\n?)?(.*?)```", re.DOTALL)
PAGES = [
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    if BLOCK.search(page.read_text())
]

# Modules whose names users type.
PUBLIC = [
    "tightset",
    "tightset.averaged",
    "tightset.comparison",
    "tightset.datasets",
    "tightset.effects",
    "tightset.evaluation",
    "tightset.family",
    "tightset.graphs",
    "tightset.localised",
    "tightset.methods",
    "tightset.metrics",
    "tightset.monitor",
    "tightset.plot",
    "tightset.report",
    "tightset.reweighted",
    "tightset.service",
    "tightset.transforms",
    *(
        f"tightset.integrations.{name}"
        for name in ("crepes", "dask", "dense", "mapie", "puncc", "sklearn", "torchcp")
    ),
]


@pytest.fixture(autouse=True)
def plain_arrays(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with np.printoptions(legacy=False):
        yield
    plt.close("all")


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0


def test_every_public_function_is_documented_with_an_example():
    wider = (ts.averaged, ts.family, ts.graphs, ts.localised, ts.monitor, ts.reweighted, ts.transforms)
    for module in (ts, ts.metrics, ts.plot, tightset.report, *wider):
        for name in module.__all__:
            item = getattr(module, name)
            if inspect.isfunction(item):
                assert ">>>" in inspect.getdoc(item), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages(page):
    """Blocks of a page run in one session."""
    session = {}
    for block in BLOCK.findall(page.read_text()):
        exec(compile(block, str(page), "exec"), session)


def test_the_pages_are_found():
    assert {"README", "tutorial", "mathematics", "integrations", "scale"} <= {page.stem for page in PAGES}


@pytest.mark.parametrize("module", PUBLIC)
def test_the_reference_lists_every_public_name(module):
    """Held to `__all__`; modules of other libraries are read as text, for those may not be installed."""
    pages = "".join(page.read_text() for page in (ROOT / "docs" / "api").glob("*.md"))
    listed = set()
    for part in re.split(r"\.\. currentmodule:: ", pages)[1:]:
        name, _, rest = part.partition("\n")
        if name == module:
            listed |= set(re.findall(r"^   (\w+)$", rest.partition("```")[0], re.MULTILINE))
    source = ROOT / "python" / Path(*module.split("."))
    text = (source / "__init__.py" if source.is_dir() else source.with_suffix(".py")).read_text()
    public = set(ast.literal_eval(re.search(r"^__all__ = (\[.*?\])", text, re.DOTALL | re.MULTILINE)[1]))
    if module == "tightset":
        public -= {"__version__", *(name.removeprefix("tightset.") for name in PUBLIC)}
    assert listed == public


def test_links_have_a_text():
    """A link without one has its page's title on the site, and is invisible elsewhere."""
    empty = [page.name for page in (ROOT / "docs").rglob("*.md") if "[](" in page.read_text()]
    assert empty == []
