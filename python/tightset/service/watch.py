"""What labels tell about one model: coverage, its alarm, and alpha where it follows them."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightset.metrics.predictor_law import law_band, why_no_law
from tightset.monitor import AdaptiveAlpha, CoverageMonitor
from tightset.predictor import Predictor
from tightset.service.models import Model
from tightset.service.settings import Settings
from tightset.sets import PredictionSets

# Labels behind the coverage of late, which the page shows beside that of all.
_RECENT = 500


class Watch:
    """The labels of one model in one version; a changed file begins a new one.

    Attributes
    ----------
    labelled, covered
        Rows whose label has come, and those whose set, as it was sent, had it.
    monitor
        The alarm, or None where `off` says why there is none.
    adaptive
        What drives alpha, or None.
    """

    def __init__(self, model: Model, settings: Settings) -> None:
        self.model = model
        self.labelled = self.covered = 0
        self.off: str | None = None
        self.monitor: CoverageMonitor | None = None
        self.adaptive: AdaptiveAlpha | None = None
        self._history: list[list[float | None]] = []
        self._recent: deque[bool] = deque(maxlen=_RECENT)
        predictor = model.predictor
        if predictor.condition is not None:
            kind = predictor.condition.kind
            self.off = f"it takes one threshold, and condition={kind!r} has one for each cell"
        elif predictor.calibration_scores is None:
            self.off = "the file has no score table: calibrate with --score-table"
        else:
            self.monitor = CoverageMonitor(predictor, level=settings.alarm_level)
            if settings.adapt:
                self.adaptive = AdaptiveAlpha(predictor, rate=settings.rate)
        if settings.adapt and self.adaptive is None:
            message = f"adapt needs the calibration scores of model {model.name}: {self.off}"
            raise ValueError(message)

    @property
    def alpha(self) -> float:
        """The level that sets are made at now; an adapted one may leave 0 to 1."""
        return self.model.predictor.alpha if self.adaptive is None else float(self.adaptive.alpha)

    @property
    def coverage(self) -> float | None:
        """Share of labelled rows whose set had the label."""
        return self.covered / self.labelled if self.labelled else None

    @property
    def band(self) -> tuple[float, float] | None:
        """Where coverage of so many labels lies if rows are as in calibration.

        None before the first, and where `why_no_band` says why. It is for one look; what may be watched all
        the time is the alarm. With an alarm the band has its level, without one it is that of nine draws of
        ten.
        """
        if not self.labelled or self.why_no_band is not None:
            return None
        if self.monitor is not None:
            return self.monitor.band
        return law_band(self.model.predictor, self.labelled, 0.9)

    @property
    def why_no_band(self) -> str | None:
        """Why there is no band, or None if there is one."""
        if self.adaptive is not None:
            return "alpha adapts, and the sets that were sent are not those of one level"
        return why_no_law(self.model.predictor)

    def learn(
        self,
        logits: NDArray[Any],
        labels: NDArray[np.int64],
        row_ids: NDArray[np.uint64] | None,
        covered: NDArray[np.bool_],
    ) -> None:
        """Take in rows with their labels, and whether the sets that were sent had them."""
        if self.monitor is not None:
            self.monitor.update(logits, labels, row_ids=row_ids)
        if self.adaptive is not None:
            self.adaptive.update(logits, labels, row_ids=row_ids)
        self.labelled += len(labels)
        self.covered += int(np.count_nonzero(covered))
        self._recent.extend(covered.tolist())
        # Points that are a twentieth apart, on the logarithmic axis that they are drawn on.
        if not self._history or self.labelled >= 1.05 * (self._history[-1][0] or 0):
            self._history.append(self._point())

    def _point(self) -> list[float | None]:
        lower, upper = self.band or (None, None)
        return [self.labelled, self.coverage, lower, upper]

    def described(self) -> dict[str, Any]:
        """Return what the page shows; what is infinite is None."""
        band = self.band
        found: dict[str, Any] = {
            "labelled": self.labelled,
            "coverage": self.coverage,
            "recent": {
                "labels": len(self._recent),
                "coverage": sum(self._recent) / len(self._recent) if self._recent else None,
            },
            "band": None if band is None else list(band),
            "why_no_band": self.why_no_band,
            "alpha": self.alpha,
            "adapts": self.adaptive is not None,
            "alarm": None,
            "alarmed_at": None,
            "evidence": None,
            "alarm_at": None,
            "off": self.off,
            "history": [*self._history, self._point()] if self.labelled else [],
        }
        if self.monitor is not None:
            found["alarm"] = bool(self.monitor.alarm)
            found["alarmed_at"] = self.monitor.alarmed_at
            evidence = float(self.monitor.evidence)
            found["evidence"] = evidence if np.isfinite(evidence) else None
            found["alarm_at"] = 1.0 / self.monitor.level
        return found

    def state(self) -> dict[str, Any]:
        """Return what a restart needs, JSON-ready."""
        return {
            "version": self.model.version,
            "labelled": self.labelled,
            "covered": self.covered,
            "history": self._history,
            "monitor": None if self.monitor is None else self.monitor.state(),
            "adaptive": None if self.adaptive is None else self.adaptive.state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from `state` of the same model and version."""
        predictor: Predictor = self.model.predictor
        monitor, adaptive = state["monitor"], state["adaptive"]
        if self.monitor is not None and monitor is not None:
            self.monitor = CoverageMonitor.from_state(predictor, monitor)
        if self.adaptive is not None and adaptive is not None:
            self.adaptive = AdaptiveAlpha.from_state(predictor, adaptive)
        self.labelled, self.covered = int(state["labelled"]), int(state["covered"])
        self._history = [list(point) for point in state["history"]]

    def predict(self, logits: NDArray[Any], row_ids: NDArray[np.uint64] | None) -> PredictionSets:
        """Return sets at the alpha of now."""
        assert self.adaptive is not None, "only asked where alpha adapts"
        return self.adaptive.predict_set(logits, row_ids=row_ids)
