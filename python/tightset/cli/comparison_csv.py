"""The figures of comparisons as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from tightset.cli.paper_numbers import PAPER, Printed
from tightset.evaluation import Evaluation, spread

_HEADER = (
    "dataset", "recipe", "level", "guarantee", "splits", "n_calibration", "n_test",
    "coverage", "coverage_sd", "size", "size_sd", "median_size", "singleton_rate", "empty_rate",
    "worst_stratum", "worst_stratum_coverage", "worst_class", "worst_class_coverage",
    "calibration_seconds", "prediction_seconds",
    "band_lower", "band_upper", "in_band", "paper_coverage", "paper_size",
)  # fmt: skip


def csv_text(evaluations: Sequence[Evaluation]) -> str:
    """Return one line for each data set, recipe and level: means over the splits, and their spread."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_HEADER)
    for found in evaluations:
        for cell in found.cells:
            band = cell.mean_band or ("", "")
            printed = PAPER.get((found.dataset, cell.recipe, cell.level), Printed(None, None))
            writer.writerow(
                [
                    found.dataset,
                    cell.recipe,
                    f"{cell.level:g}",
                    cell.guarantee,
                    found.n_splits,
                    cell.n_calibration,
                    cell.n_test,
                    *(_digits(v) for v in (cell.coverage.mean(), spread(cell.coverage))),
                    *(_digits(v) for v in (cell.mean_size.mean(), spread(cell.mean_size))),
                    *(_digits(v.mean()) for v in (cell.median_size, cell.singleton_rate, cell.empty_rate)),
                    *(cell.worst_stratum, _digits(cell.worst_stratum_coverage)),
                    *(cell.worst_class, _digits(cell.worst_class_coverage)),
                    *(_digits(v.mean()) for v in (cell.calibration_seconds, cell.prediction_seconds)),
                    *(end if isinstance(end, str) else _digits(end) for end in band),
                    {True: "yes", False: "no", None: ""}[cell.in_band],
                    *("" if figure is None else figure for figure in printed),
                ]
            )
    return out.getvalue()


def _digits(value: float) -> str:
    return f"{value:.6g}"
