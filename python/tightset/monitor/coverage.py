"""An alarm on lost coverage that may be looked at after every label."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightset._inputs import ArrayLike, as_alpha, as_integer, as_number
from tightset.metrics.predictor_law import law_band
from tightset.monitor.evidence import MOST, ODDS, CoverageEvidence
from tightset.monitor.state import VERSION, check_state, fingerprint, require_scores
from tightset.predictor import Predictor
from tightset.recipes import Recipe
from tightset.scores import Scoring

FORMAT = "tightset-coverage-monitor"
_FIELDS = ("level", "n", "covered", "alarmed_at", "ranked_covered", "wealth", "tie_places")


class CoverageMonitor:
    """Watch whether new labels are covered as the calibration promised.

    If the new rows and labels are exchangeable with the calibration rows, the alarm is ever raised with
    probability at most `level`, over the draw of both, however many labels come and however often one looks.
    This holds for every recipe and selection, for small calibration sets and for tied scores. The alarm is
    for coverage that is too low; sets that cover too much do not raise it.

    Where several candidates were selected from on the calibration rows (``"modsel"``, ``"paper"`` and
    ``"released"``), each candidate in use is watched against its own calibration scores, and each bet counts
    with the share of the stake that the candidate had before any data were seen: equal for the parts of the
    recipe that ``|`` joined, equal within a part.

    Parameters
    ----------
    predictor
        With its calibration scores, as `calibrate` returns it or ``save(..., score_table=True)`` keeps it.
    level
        Bound on the probability of a false alarm, strictly between 0 and 1.

    Attributes
    ----------
    n
        Labels seen.
    evidence
        How many times better the labels are explained by lost coverage than by exchangeability: an e-value,
        at most 1 in expectation while exchangeability holds. At ``1 / level`` the alarm is raised.
    alarm, alarmed_at
        Whether evidence has reached that, now or ever before; after how many labels, or None.

    Examples
    --------
    >>> import numpy as np
    >>> import tightset as ts
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(5, size=5000)
    >>> logits = 2 * rng.normal(size=(5000, 5)) + 4 * np.eye(5)[labels]
    >>> predictor = ts.calibrate(logits[:2000], labels[:2000], alpha=0.1, recipe="aps")
    >>> watch = ts.monitor.CoverageMonitor(predictor, level=0.01)
    >>> watch.update(logits[2000:4000], labels[2000:4000])
    CoverageMonitor(n=2000, coverage=0.8905, evidence=0.355, alarm=False)
    >>> noisy = logits[4000:] + 1.5 * rng.normal(size=(1000, 5))
    >>> watch.update(noisy, labels[4000:]).alarmed_at
    2195
    >>> again = ts.monitor.CoverageMonitor.from_state(predictor, watch.state())
    >>> again.evidence == watch.evidence
    True
    """

    def __init__(self, predictor: Predictor, level: float = 0.01) -> None:
        require_scores(predictor, "CoverageMonitor")
        self.predictor = predictor
        self.level = as_alpha(level, "level")
        self.alarmed_at: int | None = None
        self._covered = 0
        self._fingerprint = fingerprint(predictor)
        self._n = 0
        self._evidence: CoverageEvidence | None = None
        self._tie_places = np.zeros(len(predictor.candidates))
        # With rank n + 1 every set holds all labels: nothing can be missed, and nothing shown by misses.
        if predictor.rank <= predictor.n_calibration:
            shares = candidate_shares(predictor.recipe, [c.scoring for c in predictor.candidates])
            self._evidence = CoverageEvidence(predictor.rank, predictor.n_calibration, shares)
            self._tie_places = self._places_among_ties()

    @property
    def n(self) -> int:
        """Labels seen."""
        return self._n

    @property
    def coverage(self) -> float | None:
        """Share of the labels seen that their set holds, or None before the first."""
        return self._covered / self._n if self._n else None

    @property
    def band(self) -> tuple[float, float] | None:
        """Where the coverage of `n` labels lies with probability 1 - level under exchangeability.

        The band is for one look at this n; only the alarm may be watched all the time. It is exact for scores
        without ties that nothing was selected on (see `tightset.metrics.coverage_band`), and None for
        predictors that selected on their calibration rows, whose coverage may spread more widely. The alarm
        holds for them all the same: it watches each candidate by its own scores.
        """
        band = law_band(self.predictor, self._n or None, 1.0 - self.level)
        if band is None:
            return None
        return (band.lower, band.upper) if self._n else (0.0, 1.0)

    @property
    def evidence(self) -> float:
        """The e-value of all labels seen so far; 1 before the first."""
        return 1.0 if self._evidence is None else self._evidence.value

    @property
    def alarm(self) -> bool:
        """Whether evidence has ever reached ``1 / level``."""
        return self.alarmed_at is not None

    def __repr__(self) -> str:
        coverage = "None" if self.coverage is None else f"{self.coverage:.4g}"
        evidence = f"{self.evidence:.3g}"
        return f"CoverageMonitor(n={self.n}, coverage={coverage}, evidence={evidence}, alarm={self.alarm})"

    def update(
        self,
        logits: ArrayLike,
        labels: ArrayLike,
        *,
        row_ids: ArrayLike | None = None,
        n_threads: int | None = None,
    ) -> CoverageMonitor:
        """Take in rows and their true labels, in the order in which they came; return the monitor.

        Rows that are refused leave the monitor as it was. The result does not depend on how rows are
        gathered into calls. Calls must not overlap: with several threads, hold a lock.

        Parameters
        ----------
        logits, labels
            Shapes (n, K) and (n,), or one row of shape (K,) and its label.
        row_ids, n_threads
            As in `Predictor.predict_set`.
        """
        options: dict[str, Any] = {"row_ids": row_ids, "n_threads": n_threads}
        predictor = self.predictor
        scores = predictor.label_scores(logits, labels, **options)
        thresholds = np.array([[candidate.threshold] for candidate in predictor.candidates])
        below, at = scores < thresholds, scores == thresholds
        if len(predictor.candidates) == 1:
            covered = int((below | at).sum())
        else:
            covered = int(predictor.predict_set(logits, **options).covers(np.atleast_1d(labels)).sum())
        if self._evidence is not None:
            in_order = below
            if at.any():
                in_order = below | (at & (self._places(scores.shape[1]) <= self._tie_places[:, np.newaxis]))
            first = self._evidence.add(in_order.T, 1.0 / self.level)
            if first is not None and self.alarmed_at is None:
                self.alarmed_at = self._n + first + 1
        self._n += scores.shape[1]
        self._covered += covered
        return self

    # Ties. Give every score, old and new, its own uniform place and order tied scores by it: the order has no
    # ties and is exchangeable if the scores are, so labels up to the k-th calibration score in this order
    # follow the urn exactly. Only places of scores equal to the threshold matter. Of e calibration scores
    # equal to it, the k-th of all is the j-th in place, and the j-th smallest of e uniforms has the law
    # Beta(j, e + 1 - j): it is drawn once, without the others.
    # (To count ties as covered instead would not do: the ratio of a path is not monotone in its hits, so the
    # process would be no supermartingale.)

    def _places_among_ties(self) -> NDArray[np.float64]:
        scores = self.predictor.calibration_scores
        assert scores is not None, "require_scores was called"
        generator = np.random.default_rng([*bytes.fromhex(self._fingerprint), 1])
        places = []
        for row, candidate in zip(scores, self.predictor.candidates, strict=True):
            less, up_to = (int(np.searchsorted(row, candidate.threshold, side)) for side in ("left", "right"))
            j = self.predictor.rank - less
            places.append(generator.beta(j, up_to - less + 1 - j))
        return np.array(places)

    def _places(self, rows: int) -> NDArray[np.float64]:
        """Places of the next rows: the same numbers whatever calls they come in, and after a restart."""
        bits = np.random.PCG64([*bytes.fromhex(self._fingerprint), 2]).advance(self._n)
        return np.random.Generator(bits).random(rows)

    def state(self) -> dict[str, Any]:
        """Return everything that `from_state` needs beside the predictor, as a dict for JSON."""
        evidence = self._evidence
        return {
            "format": FORMAT,
            "format_version": VERSION,
            "predictor": self._fingerprint,
            "level": self.level,
            "n": self._n,
            "covered": self._covered,
            "alarmed_at": self.alarmed_at,
            "ranked_covered": [] if evidence is None else evidence.covered.tolist(),
            "wealth": [] if evidence is None else evidence.wealth.tolist(),
            # Drawn by a method that NumPy may change; the others are raw bits.
            "tie_places": self._tie_places.tolist(),
        }

    @classmethod
    def from_state(cls, predictor: Predictor, state: dict[str, Any]) -> CoverageMonitor:
        """Return the monitor of a state; ValueError if it belongs to another predictor."""
        require_scores(predictor, "CoverageMonitor")
        check_state(state, FORMAT, fingerprint(predictor), _FIELDS)
        found = cls(predictor, state["level"])
        n = found._n = as_integer(state["n"], "n", 0)
        found._covered = as_integer(state["covered"], "covered", 0, n)
        if state["alarmed_at"] is not None:
            found.alarmed_at = as_integer(state["alarmed_at"], "alarmed_at", 1, n)
        m = len(predictor.candidates)
        found._tie_places = _numbers(state["tie_places"], "tie_places", (m,), 1.0)
        if found._evidence is not None:
            found._evidence.n = n
            found._evidence.covered = _numbers(state["ranked_covered"], "ranked_covered", (m,), n).astype(
                np.int64
            )
            found._evidence.wealth = _numbers(state["wealth"], "wealth", (m, len(ODDS)), MOST)
        return found


def candidate_shares(recipe: Recipe, used: list[Scoring]) -> NDArray[np.float64]:
    """Return the prior of the candidates in use among all that were selected from on the calibration rows."""
    if recipe.selection in (None, "held-out"):
        return np.ones(1)  # nothing was, or on other rows
    parts = [part.candidates for part in recipe.parts]
    return np.array([sum(part.count(scoring) / len(part) for part in parts) / len(parts) for scoring in used])


def _numbers(value: Any, name: str, shape: tuple[int, ...], most: float) -> NDArray[np.float64]:
    array = np.array(value, dtype=object)
    if array.shape != shape:
        message = f"state: {name} must have shape {shape}, got {array.shape}"
        raise ValueError(message)
    numbers = np.array([as_number(v, name) for v in array.ravel()]).reshape(shape)
    if not ((numbers >= 0) & (numbers <= most)).all():
        message = f"state: {name} must be between 0 and {most:g}, got {value}"
        raise ValueError(message)
    return numbers
