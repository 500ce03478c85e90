"""The bars: what each figure must reach, and how it is formed from the entries of a run.

Times are the best of several runs, with two threads, in one process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from workloads import SHAPES, title

MICROSECOND = 1e-6


@dataclass(frozen=True)
class Bar:
    """A figure with a bound; without one it is reported and nothing more."""

    work: str
    figure: str
    of: Callable
    at_least: float | None = None
    at_most: float | None = None
    unit: str = "x"

    def measured(self, results):
        """Return the figure, or None where an entry that it needs was not run."""
        try:
            return self.of(results)
        except KeyError:
            return None

    def is_met(self, value):
        """Return whether the figure keeps to its bounds; None when it has none."""
        if self.at_least is None and self.at_most is None:
            return None
        return (self.at_least is None or value >= self.at_least) and (
            self.at_most is None or value <= self.at_most
        )

    @property
    def bound(self):
        """The bound in words."""
        unit = f" {self.unit}"
        low = "" if self.at_least is None else f">= {self.at_least:g}{unit}"
        high = "" if self.at_most is None else f"<= {self.at_most:g}{unit}"
        return " and ".join(part for part in (low, high) if part)


def ratio(over, under):
    """Best time of one entry over that of another, each as (work, what)."""
    return lambda results: results[over].best / results[under].best


def per_element(results, name):
    n, k = SHAPES[name]
    return results[f"label scores, {title(name)}", "tightset"].best / (n * k)


def growth(results):
    """Time per element of the large workload over that of the small one, less the fixed cost of a call."""
    work = f"label scores, {title('small')}"
    part = results[work, "tightset, a fifteenth of the rows"]

    def slope(name):
        n, k = SHAPES[name]
        more = results[f"label scores, {title(name)}", "tightset"].best - part.best
        return more / ((n - part.kept["rows"]) * k)

    return slope("large") / slope("small")


def mean_size(work):
    return lambda results: results[work, "tightset"].kept["mean_size"]


SCORES = {name: f"label scores, {title(name)}" for name in "ABCD"}
PASS = {name: (work, "tightset") for name, work in SCORES.items()}
SETS_A, SETS_B = f"APS sets at T = 0.7, {title('A')}", f"plain APS sets, {title('B')}"
LARGE_SETS = f"plain APS sets, {title('A')}"
KINDS, LAYOUTS = f"the scores, {title('A')}", f"dtypes and layouts, {title('A')}"
PAPER, PEERS = f"Algorithm 1, {title('A')}", f"plain APS, calibrate and predict, {title('A')}"
HOOK = f"TorchCP's calculate_threshold, plain APS, {title('A')}"
LOADER_HOOK = f"TorchCP's calibrate with a loader, plain APS, {title('A')}"
P_VALUES = "crepes, p-values, 10,000 x 100, 10,000 calibration rows"
ROW = "predict_set of one row, E, K = 1,000"
MEMORY = "peak memory beyond input and output, 1 GB"


def _label_scores():
    bounds = {"A": (100, 17), "B": (35, 18), "C": (50, 17)}
    for name, (textbook, fast) in bounds.items():
        work = SCORES[name]
        yield Bar(work, "textbook NumPy", ratio((work, "NumPy, textbook"), PASS[name]), at_least=textbook)
        yield Bar(work, "NumPy, no sort", ratio((work, "NumPy, no sort"), PASS[name]), at_least=fast)
        yield Bar(work, "NumPy, in blocks", ratio((work, "NumPy, in blocks"), PASS[name]), at_least=fast)
        # On A 4 is good, 2.5 the dream.
        yield Bar(work, "over only reading", ratio(PASS[name], (work, "only reading")))


BARS = [
    *_label_scores(),
    *(
        Bar(
            KINDS,
            f"{score} over aps",
            ratio((KINDS, f"tightset, {score}"), (KINDS, "tightset, aps")),
            None,
            1.3,
        )
        for score in ("thr", "raps", "saps", "rank")
    ),
    Bar(
        SCORES["A"],
        "32 temperatures over 1",
        ratio((SCORES["A"], "tightset, 32 temperatures"), PASS["A"]),
        None,
        12,
    ),
    Bar(PAPER, "textbook NumPy", ratio((PAPER, "NumPy, textbook"), (PAPER, "tightset")), at_least=100),
    # The bars on sets are for sets of under 20 labels.
    Bar(SETS_A, "mean size of a set", mean_size(SETS_A), at_most=20, unit="labels"),
    Bar(SETS_A, "over the label-score pass", ratio((SETS_A, "tightset"), PASS["A"]), at_most=3),
    Bar(
        SETS_A,
        "with the mask, over the pass",
        ratio((SETS_A, "tightset, with the mask"), PASS["A"]),
        at_most=4,
    ),
    Bar(LARGE_SETS, "mean size of a set", mean_size(LARGE_SETS), unit="labels"),
    Bar(LARGE_SETS, "over the label-score pass", ratio((LARGE_SETS, "tightset"), PASS["A"])),
    Bar(SETS_B, "over the label-score pass", ratio((SETS_B, "tightset"), PASS["B"]), at_most=2),
    Bar(PEERS, "TorchCP 1.2", ratio((PEERS, "TorchCP"), (PEERS, "tightset")), at_least=50),
    Bar(HOOK, "with our score", ratio((HOOK, "TorchCP"), (HOOK, "tightset's score")), at_least=20),
    Bar(
        LOADER_HOOK,
        "with our score",
        ratio((LOADER_HOOK, "TorchCP"), (LOADER_HOOK, "tightset's score")),
        at_least=20,
    ),
    # TorchCP divides each batch by a temperature and joins them: what is left to any score.
    Bar(
        LOADER_HOOK,
        "with a score that takes no time",
        ratio((LOADER_HOOK, "TorchCP"), (LOADER_HOOK, "a score that takes no time")),
    ),
    Bar(
        LOADER_HOOK,
        "and our SplitPredictor",
        ratio((LOADER_HOOK, "TorchCP"), (LOADER_HOOK, "tightset")),
        at_least=20,
    ),
    *(
        Bar(
            f"{P_VALUES}, {kind}",
            "over crepes",
            ratio((f"{P_VALUES}, {kind}", "crepes"), (f"{P_VALUES}, {kind}", "tightset")),
            at_least=100,
        )
        for kind in ("plain", "smoothed")
    ),
    Bar(PEERS, "MAPIE 1.6", ratio((PEERS, "MAPIE"), (PEERS, "tightset")), at_least=100),
    Bar(
        SCORES["D"],
        "time per element over A's",
        lambda r: per_element(r, "D") / per_element(r, "A"),
        at_most=1.2,
    ),
    Bar(ROW, "median", lambda r: r[ROW, "tightset"].median / MICROSECOND, at_most=12, unit="us"),
    Bar(ROW, "p99", lambda r: r[ROW, "tightset"].p99 / MICROSECOND, at_most=40, unit="us"),
    Bar(
        ROW,
        "NumPy, medians",
        lambda r: r[ROW, "NumPy, textbook"].median / r[ROW, "tightset"].median,
        at_least=5,
    ),
    Bar(
        SCORES["A"],
        "one thread over two",
        ratio((SCORES["A"], "tightset, one thread"), PASS["A"]),
        at_least=1.8,
    ),
    *(
        Bar(
            LAYOUTS,
            f"{layout} over float32",
            ratio((LAYOUTS, f"tightset, {layout}"), (LAYOUTS, "tightset, float32")),
            at_most=most,
        )
        for layout, most in {"float64": 3, "float16": 1.6, "bfloat16": 1.6, "fortran": 1.6}.items()
    ),
    Bar("growth, K = 100", "per element, n = 10^6 over n = 10^4", growth, at_least=0.85, at_most=1.15),
    *(
        Bar(MEMORY, layout, lambda r, w=f"tightset, {layout}": r[MEMORY, w].best, at_most=16, unit="MB")
        for layout in ("float32", "float64", "float16", "bfloat16", "fortran")
    ),
    Bar("import", "tightset over NumPy", ratio(("import", "tightset"), ("import", "numpy")), at_most=1.3),
]
