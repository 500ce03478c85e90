"""Everything the documentation shows runs: docstrings, and the README's blocks in one session."""

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

MODULES = [
    "tightset",
    *(m.name for m in pkgutil.walk_packages(ts.__path__, "tightset.") if m.name != "tightset._core"),
]
README = Path(__file__).parent.parent / "README.md"


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


def test_readme():
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert blocks
    session = {}
    for block in blocks:
        exec(compile(block, str(README), "exec"), session)
