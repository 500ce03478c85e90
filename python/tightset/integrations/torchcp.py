"""Scores for TorchCP, in place of its own of the same names: any of its predictors takes them.

`SplitPredictor` is TorchCP's with a calibration that scores each batch as it comes.

>>> import torch
>>> from tightset.integrations.torchcp import EntropyReweighted, SplitPredictor
>>> logits, labels = 2 * torch.randn(500, 10), torch.randint(10, (500,))
>>> predictor = SplitPredictor(score_function=EntropyReweighted("aps", temperature=2.0))
>>> predictor.calculate_threshold(logits, labels, 0.1)
>>> predictor.predict_with_logits(logits[:3]).shape
torch.Size([3, 10])
"""

from __future__ import annotations

from typing import Any

import torch
from torchcp.classification import predictor as predictors
from torchcp.classification.score.base import BaseScore

from tightset.integrations.score_rule import ScoreRule
from tightset.scores import RAPS as RAPS_SCORE
from tightset.scores import SAPS as SAPS_SCORE
from tightset.scores import Entropy, ScoreLike

__all__ = ["APS", "RAPS", "SAPS", "THR", "EntropyReweighted", "SplitPredictor"]

_IS_PROBABILITIES = {"softmax": False, "identity": True}


class _RowScore(BaseScore):  # type: ignore[misc]
    """Calls with logits, and labels or none, as TorchCP makes them.

    U belongs to the row, the same for all of its labels, and comes from the row's bits and the seed.
    Without randomisation a score includes its own label's mass. Tensors must be on the CPU; scores come
    back in the type of the logits, float32 for float16 and bfloat16.
    """

    def __init__(self, rule: ScoreRule) -> None:
        super().__init__()
        self.rule = rule

    def __call__(self, logits: torch.Tensor, label: torch.Tensor | None = None) -> torch.Tensor:
        """Return scores of shape (n,) with labels, (n, K) without."""
        rows = logits.unsqueeze(0) if logits.dim() == 1 else logits
        found = self.rule.of_all(rows) if label is None else self.rule.of_labels(rows, label.reshape(-1))
        dtype = torch.float64 if logits.dtype == torch.float64 else torch.float32
        return torch.from_numpy(found).to(dtype)


def _rule(score: ScoreLike, score_type: str, **settings: Any) -> ScoreRule:
    if score_type not in _IS_PROBABILITIES:
        message = f"score_type must be 'softmax' or, for probabilities, 'identity', got {score_type!r}"
        raise ValueError(message)
    return ScoreRule(score, probabilities=_IS_PROBABILITIES[score_type], **settings)


class THR(_RowScore):
    """``1 - f_y``, which TorchCP calls LAC."""

    def __init__(self, score_type: str = "softmax", *, ranked: bool = False) -> None:
        super().__init__(_rule("thr", score_type, ranked=ranked))


class APS(_RowScore):
    """Mass of the labels ranked before, and U times the label's own.

    Parameters
    ----------
    score_type
        ``"softmax"`` for logits, ``"identity"`` for probabilities.
    randomized
        If not, U is 1.
    seed
        Seed of U.
    ranked
        Whether to score on the scale that keeps labels apart where the softmax saturates; thresholds
        are then on that scale too.
    """

    def __init__(
        self,
        score_type: str = "softmax",
        randomized: bool = True,  # noqa: FBT001, FBT002 - the order of TorchCP's arguments
        *,
        seed: int = 0,
        ranked: bool = False,
    ) -> None:
        super().__init__(_rule("aps", score_type, randomized=randomized, seed=seed, ranked=ranked))


class RAPS(_RowScore):
    """APS and a penalty for each rank after `kreg`; other parameters as in `APS`."""

    def __init__(
        self,
        score_type: str = "softmax",
        randomized: bool = True,  # noqa: FBT001, FBT002
        penalty: float = 0.0,
        kreg: int = 0,
        *,
        seed: int = 0,
        ranked: bool = False,
    ) -> None:
        score = RAPS_SCORE(penalty, kreg)
        super().__init__(_rule(score, score_type, randomized=randomized, seed=seed, ranked=ranked))


class SAPS(_RowScore):
    """Top probability, then `weight` for each rank; other parameters as in `APS`."""

    def __init__(
        self,
        score_type: str = "softmax",
        randomized: bool = True,  # noqa: FBT001, FBT002
        weight: float = 0.2,
        *,
        seed: int = 0,
        ranked: bool = False,
    ) -> None:
        score = SAPS_SCORE(weight)
        super().__init__(_rule(score, score_type, randomized=randomized, seed=seed, ranked=ranked))


class EntropyReweighted(_RowScore):
    """Any score of the logits ``z / ((gamma + H) ** power T)``.

    Parameters
    ----------
    score, temperature
        As in `tightset.Scoring`.
    gamma, power
        As in `tightset.Entropy`: 0 is the paper's reweighting, 1 is what its authors released.
    score_type, randomized, seed
        As in `APS`.
    ranked
        As in `APS`; on by default, as reweighted rows often saturate.
    """

    def __init__(
        self,
        score: ScoreLike = "aps",
        *,
        gamma: float = 0.0,
        power: float = 1.0,
        temperature: float = 1.0,
        score_type: str = "softmax",
        randomized: bool = True,
        seed: int = 0,
        ranked: bool = True,
    ) -> None:
        super().__init__(
            _rule(
                score,
                score_type,
                reweight=Entropy(gamma, power),
                temperature=temperature,
                randomized=randomized,
                seed=seed,
                ranked=ranked,
            )
        )


class SplitPredictor(predictors.SplitPredictor):  # type: ignore[misc]
    """TorchCP's `SplitPredictor`, which keeps a score for each row in calibration and not its logits.

    The threshold is the same: scores of a row do not depend on its batch. Parameters are TorchCP's.

    Examples
    --------
    >>> import torch
    >>> from tightset.integrations.torchcp import APS, SplitPredictor
    >>> predictor = SplitPredictor(APS(), model=torch.nn.Linear(4, 3), alpha=0.1)
    >>> rows, labels = torch.randn(100, 4), torch.randint(3, (100,))
    >>> predictor.calibrate(zip(rows.split(20), labels.split(20), strict=True))
    >>> predictor.cal_scores.shape
    torch.Size([100])
    """

    def calibrate(self, cal_dataloader: Any, alpha: float | None = None) -> None:
        """Calibrate on batches of (rows, labels)."""
        if self._model is None:
            message = "model must be given to calibrate on a loader, got None"
            raise ValueError(message)
        self._model.eval()
        # A division by 1 gives the same bits in new memory, which takes three times as long as scoring it.
        is_scaled = float(self._logits_transformation.temperature) != 1.0
        scores = []
        with torch.no_grad():
            for rows, labels, *_ in cal_dataloader:
                logits = self._model(rows.to(self._device))
                if is_scaled:
                    logits = self._logits_transformation(logits)
                scores.append(self.score_function(logits.float(), labels.to(self._device)))
        self.cal_scores = torch.cat(scores)
        self.q_hat = self._calculate_conformal_value(self.cal_scores, self.alpha if alpha is None else alpha)
