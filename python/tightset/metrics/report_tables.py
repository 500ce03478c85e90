"""A report as small tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tightset.metrics.bins import RankStrata, SizeStrata
from tightset.metrics.excess_risk import ExcessRisk
from tightset.metrics.layout import Table
from tightset.metrics.p_value_criteria import PValueCriteria
from tightset.metrics.slabs import WorstSlab
from tightset.metrics.strata import Stratum

if TYPE_CHECKING:
    from tightset.metrics.reporting import Report

LEVEL = 0.9
"""Probability of the bands that a report has."""


def title_of(report: Report) -> str:
    """Return what the tables are of."""
    known = [f"{report.rows} rows", f"{report.n_labels} labels"]
    if report.alpha is not None:
        known.append(f"alpha {report.alpha:g}")
    if report.n_calibration is not None:
        known.append(f"{report.n_calibration} calibration rows")
    return "Prediction sets: " + ", ".join(known)


def tables_of(report: Report) -> list[Table]:
    """Return the tables of all that is known."""
    tables = [_coverage_table(report), _size_table(report)]
    for name, found in (("by entropy", report.by_entropy), ("top label, entropy", report.by_scenario)):
        if found is not None:
            tables.append(_strata_table(report, name, found, []))
    tables.append(_binned_table(report, "by size", report.by_size, "SSCV", report.by_size.sscv))
    if report.by_rank is not None:
        violation = report.by_rank.violation
        tables.append(
            _binned_table(report, "by rank of the label", report.by_rank, "DiffViolation", violation)
        )
    gap = report.by_class.cov_gap
    notes = [f"{report.by_class.n_classes} of {report.n_labels} classes occur"]
    if gap is not None:
        notes.insert(0, f"CovGap {gap:.2f} percentage points")
    tables.append(_strata_table(report, "worst classes", report.by_class.worst, notes))
    if report.worst_slab is not None:
        tables.append(_slab_table(report.worst_slab))
    if report.excess_risk is not None:
        tables.append(_risk_table(report.excess_risk))
    if report.p_value_criteria is not None:
        tables.append(_p_value_table(report.p_value_criteria))
    return tables


def _binned_table(
    report: Report, title: str, found: SizeStrata | RankStrata, name: str, worst: float | None
) -> Table:
    notes = [] if worst is None else [f"{name} {worst:.4f}"]
    if found.left_out:
        few = ", ".join(f"{stratum.name} ({stratum.rows})" for stratum in found.left_out)
        notes.append(f"left out, fewer than {found.min_rows} rows: {few}")
    return _strata_table(report, title, found.strata, notes)


def _coverage_table(report: Report) -> Table:
    lines, notes = [["observed", f"{report.coverage:.4f}", ""]], []
    if report.alpha is not None:
        lines.append(["asked for", f"{1.0 - report.alpha:.4f}", ""])
    if report.true_band is not None and report.observed_band is not None:
        low, high = report.observed_band
        where = "below" if report.coverage < low else "above" if report.coverage > high else "within"
        for name, band in (("true", report.true_band), ("observed", report.observed_band)):
            likely = f"{name}, {100 * LEVEL:.0f} % of draws"
            lines.append([likely, f"{band.lower:.4f}", f"to {band.upper:.4f}"])
        notes.append(f"observed coverage is {where} its band")
    if report.why_no_band is not None:
        notes.append(f"no band: {report.why_no_band}")
    return Table("coverage", ["", ""], lines, notes)


def _size_table(report: Report) -> Table:
    size = report.size
    return Table(
        "size",
        ["share", "coverage", "mean", "median"],
        [
            ["all sets", _number(1.0), _number(report.coverage), f"{size.mean:.3f}", f"{size.median:g}"],
            [
                "non-empty",
                _number(1.0 - size.empty_rate),
                _number(size.coverage_nonempty),
                _number(size.mean_nonempty, 3),
                "",
            ],
            ["empty", _number(size.empty_rate), "", "", ""],
            ["one label", _number(size.singleton_rate), _number(size.coverage_singleton), "", ""],
            ["the label alone", _number(size.singleton_hit_rate), "", "", ""],
        ],
        [],
    )


def _strata_table(report: Report, title: str, strata: tuple[Stratum, ...], notes: list[str]) -> Table:
    columns = ["rows", "coverage", "gap", "mean size", "empty"]
    lines = [
        [
            stratum.name,
            str(stratum.rows),
            _number(stratum.coverage),
            ""
            if stratum.coverage is None or report.alpha is None
            else f"{stratum.coverage - (1.0 - report.alpha):+.4f}",
            _number(stratum.mean_size, 3),
            _number(stratum.empty_rate),
        ]
        for stratum in strata
    ]
    if report.alpha is None:
        columns.pop(2)
        lines = [[*line[:3], *line[4:]] for line in lines]
    return Table(title, columns, lines, notes)


def _slab_table(slab: WorstSlab) -> Table:
    lines = [
        ["found worst", str(slab.searched_rows), _number(slab.searched_coverage)],
        ["other rows there", str(slab.rows), _number(slab.coverage)],
    ]
    return Table("worst slab of the features", ["rows", "coverage"], lines, [])


def _risk_table(risk: ExcessRisk) -> Table:
    lines = [
        ["L1", f"{risk.l1:+.4f}", f"± {risk.l1_error:.4f}"],
        ["L1, too little coverage", f"{risk.under:+.4f}", ""],
        ["L1, too much", f"{risk.over:+.4f}", ""],
        ["L2", f"{risk.l2:+.4f}", ""],
        ["KL", f"{risk.kl:+.4f}", ""],
    ]
    return Table("excess risk of coverage (ERT)", ["", ""], lines, [])


def _p_value_table(found: PValueCriteria) -> Table:
    def lines(names: dict[str, str]) -> list[list[str]]:
        values = {name: getattr(found, name) for name in names}
        return [[names[name], _number(value)] for name, value in values.items() if value is not None]

    table = {
        "s": "S, sum",
        "u": "U, second largest",
        "f": "F, all but the largest",
        "n": "N, labels above alpha",
        "m": "M, several labels above alpha",
        "e": "E, labels beyond the first",
        "ou": "OU, largest of a wrong label",
        "of": "OF, sum of wrong labels",
        "om": "OM, a wrong label above alpha",
        "oe": "OE, wrong labels above alpha",
    }
    return Table("p-values", ["mean"], lines(table), [])


def _number(value: float | None, digits: int = 4) -> str:
    return "" if value is None else f"{value:.{digits}f}"
