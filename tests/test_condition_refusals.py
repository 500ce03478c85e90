"""Conditions and groups that are refused, with what their errors say."""

from __future__ import annotations

import numpy as np
import pytest

import tightset as ts
from conftest import Y, Z
from tightset import _core

CONDITIONS = [
    (
        "unknown name",
        {"condition": "labels"},
        ValueError,
        "condition must be one of 'label', 'cluster', 'rc3p' or an array with the group of each row, got",
    ),
    (
        "too few groups",
        {"condition": [1, 2]},
        ValueError,
        "condition must have one value for each of the 4 rows",
    ),
    ("float groups", {"condition": [0.5, 1, 2, 3]}, TypeError, "condition must be integers or strings"),
    ("mixed groups", {"condition": np.array(["a", 1, 2, 3], object)}, TypeError, "got a int"),
    ("masked groups", {"condition": np.ma.array(Y, mask=Y > 1)}, TypeError, "condition must not be masked"),
    ("large groups", {"condition": np.array([2**63] * 4, np.uint64)}, ValueError, "must be below 2^63"),
    ("no text", {"condition": ["a", "b", "c", "\ud800"]}, ValueError, "must be text that UTF-8 can hold"),
    ("bool groups", {"condition": Y > 0}, TypeError, "got dtype bool"),
    ("scarce", {"condition": "label", "scarce": "none"}, ValueError, "scarce must be one of 'all', 'pooled'"),
    ("guarantee", {"guarantee": "strong"}, ValueError, "guarantee must be one of 'marginal', 'pac'"),
    ("delta 0", {"guarantee": "pac", "delta": 0.0}, ValueError, "delta must be strictly between 0 and 1"),
    (
        "delta 1",
        {"guarantee": "pac", "delta": 1},
        ValueError,
        "delta must be strictly between 0 and 1, got 1",
    ),
    ("delta text", {"guarantee": "pac", "delta": "x"}, TypeError, "delta must be a number, got 'x'"),
    (
        "paper by label",
        {"recipe": "paper", "condition": "label"},
        ValueError,
        "condition='label' needs a recipe with selection None, 'modsel' or 'held-out', got 'paper'",
    ),
    (
        "modsel in clusters",
        {"recipe": ts.Recipe("aps", None, [1, 2], "modsel"), "condition": "cluster"},
        ValueError,
        "condition='cluster' needs a recipe with selection None or 'held-out', got 'modsel'",
    ),
]


@pytest.mark.parametrize(
    ("options", "error", "message"), [c[1:] for c in CONDITIONS], ids=[c[0] for c in CONDITIONS]
)
def test_conditions(options, error, message):
    with pytest.raises(error) as caught:
        ts.calibrate(Z, Y, **({"alpha": 0.4, "recipe": "aps"} | options))
    assert message in str(caught.value)


def test_conditions_need_arrays():
    blocks = [(Z, Y)]
    with pytest.raises(TypeError, match="condition needs arrays of logits and labels"):
        ts.calibrate(blocks, condition="label")
    with pytest.raises(TypeError, match="guarantee needs arrays of logits and labels"):
        ts.calibrate(blocks, guarantee="pac")


def test_groups_are_given_exactly_when_calibration_had_them():
    with pytest.raises(ValueError, match="it was without groups"):
        ts.calibrate(Z, Y, 0.4, "aps").predict_set(Z, groups=Y)
    grouped = ts.calibrate(Z, Y, 0.7, "aps", condition=[0, 0, 1, 1])
    for call in (grouped.predict_set, grouped.predict_p):
        with pytest.raises(ValueError, match="it was with groups"):
            call(Z)
        with pytest.raises(ValueError, match="groups must have one value for each of the 4 rows"):
            call(Z, groups=[0, 1])
        with pytest.raises(TypeError, match="groups must be integers or strings"):
            call(Z, groups=[0.5, 1.0, 1.0, 1.0])


def test_cells_of_the_core_are_refused():
    scoring = ts.Recipe("aps").candidates[0].core
    none = np.empty(0)
    cell = (_core.Survivors([(scoring, 1.0, 1.0, 0, none, 1)]), False, [])
    of = np.zeros(3, np.uint32)
    with pytest.raises(ValueError, match="cell_of must be the number of a cell for each label, got 1"):
        _core.Cells([cell], of + 1)
    with pytest.raises(ValueError, match="survivors must be at least one, got 0"):
        _core.Survivors([])
    with pytest.raises(ValueError, match="most_ranks must have one value"):
        _core.Cells([cell], of, of[:2])
    cells = _core.Cells([cell], of)
    with pytest.raises(ValueError, match="logits must have 3 labels as in calibration, got 2"):
        _core.predict_cell_sets(Z[:, :2], cells, allow_empty=True, seed=0)
    with pytest.raises(ValueError, match="score_table must be saved"):
        _core.cell_p_values(Z, cells, smoothed=False, seed=0)
    edges = np.zeros(2)
    with pytest.raises(ValueError, match="brackets must be as many for each candidate and cell, got 2"):
        _core.count_cell_pairs(Z, [scoring], of, 3, edges, edges, seed=0)
    with pytest.raises(ValueError, match="cell_of must have one value"):
        _core.count_cell_pairs(Z, [scoring], of[:2], 1, edges, edges, seed=0)
    with pytest.raises(ValueError, match="brackets must be pairs lo <= hi"):
        _core.count_cell_pairs(Z, [scoring], of, 1, edges + 1, edges, seed=0)
