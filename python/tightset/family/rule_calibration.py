"""From rules, logits and labels to a predictor, with selection that keeps coverage exact.

Rules are fixed before the data are seen. One alone is ordinary split conformal prediction. ``"held-out"``
takes the rule of smallest mean size on a quarter of the rows, which then have no part in the threshold.
``"modsel"`` (Liang, Zhu & Barber 2024) has all rows in both: `RulePredictor` says how a new row takes part
in the choice. It is the definition of ``tightset.modsel`` in plain NumPy, for scores that the core does not
have.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from tightset import _core
from tightset._inputs import ArrayLike, as_alpha, as_calibration_logits, as_labels
from tightset.family.block_rows import BlockRows
from tightset.family.rule_predictor import RuleCandidate, RulePredictor, RuleSelection, checked_given
from tightset.family.rules import Rule
from tightset.thresholds import warn_if_unbounded
from tightset.warning_kinds import SmallCalibrationWarning


def calibrate_rules(
    rules: Sequence[Rule],
    logits: ArrayLike,
    labels: ArrayLike,
    alpha: float,
    *,
    given: ArrayLike | None = None,
    selection: RuleSelection,
    seed: int,
    row_ids: ArrayLike | None,
    probabilities: bool,
    n_threads: int | None,
) -> RulePredictor:
    """Return the predictor of the rule, or of those among which is selected."""
    if selection not in get_args(RuleSelection):
        message = f"selection must be 'modsel' or 'held-out', got {selection!r}"
        raise ValueError(message)
    rules = tuple(dict.fromkeys(rules))
    level = as_alpha(alpha)
    array = as_calibration_logits(logits)
    rows = BlockRows.read(
        array,
        row_ids=row_ids,
        given=checked_given(rules, given, len(array)),
        seed=seed,
        probabilities=probabilities,
        n_threads=n_threads,
        stacklevel=3,
    )
    truth = rows.checked_labels(as_labels(labels, len(array)))
    positions, chosen = None, (0,)
    if len(rules) > 1 and selection == "held-out":
        chosen_rule, positions = _held_out(rules, rows, truth, level)
        chosen = (chosen_rule,)
    if positions is not None or len(rules) == 1:
        used = [rules[m] for m in chosen]
        table = np.sort(rows.label_scores(used, truth, positions), axis=1)
        brackets: list[tuple[float, int, tuple[float, ...]]] = []
    else:
        used, table, brackets = _modsel(rules, rows, truth, level)
    table.setflags(write=False)
    n = table.shape[1]
    rank = _core.conformal_rank(n, level)
    thresholds = table[:, rank - 1].tolist() if rank <= n else [float("inf")] * len(used)
    impossible = int(np.isposinf(table[0]).sum())
    warn_if_unbounded(level, rank, n, thresholds[0], impossible=impossible, spent=len(rows) - n, stacklevel=4)
    candidates = (
        [RuleCandidate(*parts) for parts in zip(used, thresholds, strict=True)]
        if not brackets
        else [
            RuleCandidate(rule, threshold, *bracket)
            for rule, threshold, bracket in zip(used, thresholds, brackets, strict=True)
        ]
    )
    return RulePredictor(
        alpha=level,
        n_labels=rows.n_labels,
        n_calibration=n,
        rank=rank,
        seed=rows.seed,
        probabilities=rows.probabilities,
        uses_row_ids=rows.row_ids is not None,
        calibration_scores=table,
        candidates=tuple(candidates),
        selection=selection if len(rules) > 1 else None,
        considered=len(rules),
    )


def _held_out(
    rules: Sequence[Rule], rows: BlockRows, labels: NDArray[np.int64], alpha: float
) -> tuple[int, NDArray[np.int64]]:
    """Return the rule of smallest mean size on a quarter of the rows, and the positions of the others."""
    held, rest = rows.split(len(rows) // 4)
    rank = _core.conformal_rank(len(held), alpha)
    if rank > len(held):
        message = (
            f"{len(held)} of {len(rows)} rows, the part for selection, are too few to select a rule at "
            f"alpha={alpha}: the first one is used ({rules[0]})"
        )
        warnings.warn(message, SmallCalibrationWarning, stacklevel=4)
        return 0, rest
    table = rows.label_scores(rules, labels, held)
    thresholds = np.sort(table, axis=1)[:, rank - 1]
    pairs = np.zeros(len(rules), dtype=np.int64)
    for _, block in rows.blocks(held):
        pairs += [int((r.scores(block) <= q).sum()) for r, q in zip(rules, thresholds, strict=True)]
    return int(pairs.argmin()), rest


def _modsel(
    rules: Sequence[Rule], rows: BlockRows, labels: NDArray[np.int64], alpha: float
) -> tuple[list[Rule], NDArray[np.float64], list[tuple[float, int, tuple[float, ...]]]]:
    """Return the rules that some new row may choose, their sorted scores, and what it chooses by.

    No brackets where one rule is left, or where every set holds all labels.
    """
    table = np.sort(rows.label_scores(rules, labels, None), axis=1)
    n = table.shape[1]
    rank = _core.conformal_rank(n, alpha)
    if rank > n or np.isposinf(table[:, rank - 1]).all():
        return [rules[0]], table[:1].copy(), []
    hi = table[:, rank - 1]
    lo = table[:, rank - 2] if rank > 1 else np.full(len(rules), -np.inf)
    at_lo = np.zeros(len(rules), dtype=np.int64)
    between: list[list[NDArray[np.float64]]] = [[] for _ in rules]
    for _, block in rows.blocks():
        for m, rule in enumerate(rules):
            scores = rule.scores(block)
            at_lo[m] += int((scores <= lo[m]).sum())
            between[m].append(scores[(scores > lo[m]) & (scores <= hi[m])])
    inside = [np.sort(np.concatenate(parts)) for parts in between]
    most = at_lo + [len(part) for part in inside]
    # Adding a row adds at most K pairs: who has more up to lo than another up to hi never wins.
    survivors = np.flatnonzero(at_lo <= most.min() + rows.n_labels)
    used = [rules[m] for m in survivors.tolist()]
    if len(used) == 1:
        return used, table[survivors], []
    return used, table[survivors], [(float(lo[m]), int(at_lo[m]), tuple(inside[m])) for m in survivors]
