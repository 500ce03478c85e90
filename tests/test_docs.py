"""Everything the documentation shows runs: docstrings, and the blocks of each page in one session."""

from __future__ import annotations

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
PAGES = [
    ROOT / "README.md",
    *(ROOT / "docs" / name for name in ("integrations.md", "scale.md", "service.md")),
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
    for module in (ts, ts.metrics, ts.plot, tightset.report):
        for name in module.__all__:
            item = getattr(module, name)
            if inspect.isfunction(item):
                assert ">>>" in inspect.getdoc(item), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages(page):
    """Blocks of a page run in one session; those that a peer is named for run in tests/peers."""
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    assert blocks
    session = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), session)
