"""Plain APS, calibration and prediction, beside other libraries on the same arrays: `make bench-peers`.

Each gets what it wants in the form it wants it, made beforehand: TorchCP tensors of logits, the others
probabilities. TorchCP and MAPIE, which have bars, are timed on all rows: their arrays of all pairs outgrow
the caches, as a share of them does not. The others are timed on a share of the rows and scaled. crepes has no
APS of its own; it gets APS scores from NumPy, whose time is counted.
"""

from __future__ import annotations

import numpy as np
import pytest

import numpy_forms
import tightset as ts
from workloads import title, workload

# What other libraries warn of is theirs.
pytestmark = pytest.mark.filterwarnings("ignore")
ALPHA = 0.1
WORKLOADS = pytest.mark.parametrize("name", ["A", "B"])


def work(name):
    return f"plain APS, calibrate and predict, {title(name)}"


def part_of(name, share):
    logits, labels = workload(name)
    n = int(len(labels) * share)
    return logits[:n], labels[:n]


@WORKLOADS
@pytest.mark.parametrize("what", ["tightset", "tightset, with the mask"])
def test_tightset(timed, name, what):
    logits, labels = workload(name)

    def call():
        sets = ts.calibrate(logits, labels, ALPHA, "aps").predict_set(logits)
        return sets if what == "tightset" else sets.mask

    timed(work(name), what, call)


@WORKLOADS
def test_torchcp(timed, name):
    torch = pytest.importorskip("torch")
    from torchcp.classification.predictor import SplitPredictor
    from torchcp.classification.score import APS

    torch.set_num_threads(2)
    logits, labels = (torch.from_numpy(array) for array in workload(name))

    def call():
        predictor = SplitPredictor(score_function=APS(score_type="softmax"))
        predictor.calculate_threshold(logits, labels, ALPHA)
        return predictor.predict_with_logits(logits)

    mask = timed(work(name), "TorchCP", call, rounds=3)
    check(mask.numpy().astype(bool), labels.numpy())


@WORKLOADS
def test_mapie(timed, name):
    from mapie.classification import SplitConformalClassifier
    from mapie.conformity_scores import APSConformityScore
    from sklearn.base import BaseEstimator, ClassifierMixin

    logits, labels = workload(name)
    p = numpy_forms.softmax(logits.astype(np.float64))

    class Given(ClassifierMixin, BaseEstimator):
        """A classifier whose features are its probabilities."""

        def fit(self, *_):
            self.classes_ = np.arange(p.shape[1])
            return self

        def predict_proba(self, probabilities):
            return probabilities

        def predict(self, probabilities):
            return probabilities.argmax(axis=1)

    estimator = Given().fit()

    def call():
        classifier = SplitConformalClassifier(
            estimator,
            confidence_level=1 - ALPHA,
            conformity_score=APSConformityScore(),
            prefit=True,
            random_state=0,
        )
        classifier.conformalize(p, labels)
        return classifier.predict_set(p, conformity_score_params={"include_last_label": "randomized"})

    _, mask = timed(work(name), "MAPIE", call, rounds=2, warmups=0)
    check(mask[:, :, 0], labels)


@WORKLOADS
def test_puncc(timed, name):
    from deel.puncc.api.prediction import BasePredictor
    from deel.puncc.classification import APS

    share = 0.1
    logits, labels = part_of(name, share)
    p = numpy_forms.softmax(logits)

    class Given(BasePredictor):
        """A model whose features are its probabilities."""

        def predict(self, X, **_):  # noqa: N803
            return X

    def call():
        predictor = APS(Given(None, is_trained=True), train=False)
        predictor.fit(X_calib=p, y_calib=labels)
        return predictor.predict(p, alpha=ALPHA)[1]

    sets = timed(work(name), "puncc", call, share=share, rounds=2, warmups=0)
    covered = np.mean([label in found for label, found in zip(labels, sets, strict=True)])
    assert 0.88 < covered < 0.92


@WORKLOADS
def test_crepes(timed, name):
    from crepes import ConformalClassifier

    share = 0.02
    logits, labels = part_of(name, share)
    p = numpy_forms.softmax(logits)
    rows = np.arange(len(labels))

    def aps():
        order = np.argsort(-p, axis=1)
        ordered = np.take_along_axis(p, order, 1)
        scores = np.empty_like(p)
        u = np.random.default_rng(0).random((len(p), 1), dtype=p.dtype)
        np.put_along_axis(scores, order, np.cumsum(ordered, axis=1) - u * ordered, 1)
        return scores

    def call():
        scores = aps()
        classifier = ConformalClassifier().fit(scores[rows, labels], seed=0)
        # Calibration and test rows are others in use, so their scores are computed anew.
        return classifier.predict_set(aps(), confidence=1 - ALPHA, smoothing=False)

    mask = timed(work(name), "crepes", call, share=share, rounds=2, warmups=0)
    check(mask.astype(bool), labels)


def check(mask, labels):
    """The sets are sets at this level, or the time is of something else."""
    assert 0.88 < mask[np.arange(len(labels)), labels].mean() < 0.92
