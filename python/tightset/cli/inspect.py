"""`tightset inspect`."""

from __future__ import annotations

import sys

from tightset.cli import options
from tightset.cli.calibrate import described
from tightset.cli.predictor_files import read_predictor
from tightset.metrics import coverage_band


def inspect(predictor: options.Predictor, *, json: options.Json = False) -> None:
    """Say what a predictor's file holds.

    \b
    tightset inspect predictor.json
    tightset inspect predictor.json --json
    """
    found = read_predictor(predictor)
    facts = described(found)
    # Selection on the calibrating rows leaves a law without a closed form.
    is_exact = found.recipe.selection in (None, "held-out")
    band = coverage_band(found.n_calibration, found.alpha) if is_exact else None
    if json:
        options.print_json({**facts, "true_coverage_band": None if band is None else list(band)})
        return
    lines = [
        f"alpha            {found.alpha:g}: sets contain the label of {1 - found.alpha:.4g} of the rows",
        f"labels           {found.n_labels}",
        f"calibrated on    {found.n_calibration} rows, the threshold is score {found.rank} of them",
        f"candidates       {facts['n_candidates']}, selection {facts['selection'] or 'none'}",
    ]
    if band is not None:
        lines.append(f"true coverage    {band.lower:.4f} to {band.upper:.4f} for nine calibrations of ten")
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
