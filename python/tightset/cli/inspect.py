"""`tightset inspect`."""

from __future__ import annotations

import sys

from tightset.cells import Condition
from tightset.cli import options
from tightset.cli.calibrate import described
from tightset.cli.predictor_files import read_predictor
from tightset.metrics.predictor_law import law_band, why_no_law
from tightset.predictor import Predictor


def inspect(predictor: options.Predictor, *, json: options.Json = False) -> None:
    """Say what a predictor's file holds.

    \b
    tightset inspect predictor.json
    tightset inspect predictor.json --json
    """
    found = read_predictor(predictor)
    facts = described(found)
    band = law_band(found, None, 0.9)
    if json:
        options.print_json({**facts, "true_coverage_band": None if band is None else list(band)})
        return
    lines = [
        f"alpha            {found.alpha:g}: sets contain the label of {1 - found.alpha:.4g} of the rows",
        f"labels           {found.n_labels}",
        f"calibrated on    {found.n_calibration} rows{_rank(found)}",
        f"candidates       {facts['n_candidates']}, selection {facts['selection'] or 'none'}",
    ]
    if found.delta is not None:
        share = f"all but {found.delta:g} of calibrations"
        lines.append(f"guarantee        pac: {share}, divided among {found.shares} thresholds")
    if found.condition is not None:
        lines += _cells(found.condition)
    if band is not None:
        lines.append(f"true coverage    {band.lower:.4f} to {band.upper:.4f} for nine calibrations of ten")
    else:
        lines.append(f"true coverage    no band: {why_no_law(found)}")
    lines += [f"in use           {c.scoring}, threshold {c.threshold:.6g}" for c in found.candidates[:5]]
    if len(found.candidates) > 5:
        lines.append(f"                 and {len(found.candidates) - 5} more, among which new rows choose")
    lines.append(
        f"reads            {'probabilities' if found.probabilities else 'logits'}, seed {found.seed}"
    )
    if found.uses_row_ids:
        lines.append("                 with row ids")
    lines.append(f"p-values         {'yes' if facts['has_scores'] else 'no: calibrate with --score-table'}")
    sys.stdout.write("\n".join(lines) + "\n")


def _rank(found: Predictor) -> str:
    return "" if found.condition else f", the threshold is score {found.rank} of them"


def _cells(condition: Condition) -> list[str]:
    names = condition.groups or range(len(condition.cell_of))
    lines = [f"coverage within  {condition.kind}: {condition.n_cells} cells, scarce {condition.scarce!r}"]
    for name, cell in list(zip(names, condition.cell_of, strict=True))[:5]:
        used = condition.cells[cell]
        what = f"threshold {used.candidates[0].threshold:.6g}"
        if len(used.candidates) > 1:
            what = f"{len(used.candidates)} candidates"
        pooled = ", pooled" if cell == condition.pooled else ""
        lines.append(f"                 {name}: score {used.rank} of {used.n_calibration}, {what}{pooled}")
    if len(condition.cell_of) > 5:
        lines.append(f"                 and {len(condition.cell_of) - 5} more")
    return lines
