"""What all adapters have: examples that run, and refusals."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import tightset as ts

# Deprecations inside the peers are theirs.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("peer", ["crepes", "mapie", "torchcp"])
def test_docstrings(peer):
    import doctest
    import importlib

    result = doctest.testmod(importlib.import_module(f"tightset.integrations.{peer}"))
    assert result.attempted
    assert not result.failed


@pytest.mark.parametrize("page", ["integrations", "torch"])
def test_pages(page):
    text = (Path(__file__).parents[2] / "docs" / f"{page}.md").read_text()
    blocks = re.findall(r"```python peers\n(.*?)```", text, re.DOTALL)
    assert blocks
    session = {}
    for block in blocks:
        exec(compile(block, page, "exec"), session)


def test_what_the_adapters_cannot_do_is_refused():
    from tightset.integrations.mapie import ConformityScore
    from tightset.integrations.score_rule import ScoreRule

    p = np.array([[0.7, 0.2, 0.1]])
    with pytest.raises(ValueError, match="agg_scores must be 'mean' with this score, got 'crossval'"):
        ConformityScore().get_predictions(None, np.array([0.1]), p, None, agg_scores="crossval")
    with pytest.raises(ValueError, match="sets need a rule with ranked=True, got False"):
        ScoreRule("thr", ranked=False).sets(p, 0.5)
    assert repr(ScoreRule("thr")) == f"ScoreRule({ts.Scoring('thr', None, 1.0)})"
