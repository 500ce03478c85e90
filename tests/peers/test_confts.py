"""The conformal loss of ConfTS is TorchCP's with its plain quantile; its soft quantile is of another level.

Run by `make test-peers`; docs/differences.md says what differs.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import tightset as ts
from tightset.transforms.temperature import conformal_loss

# Deprecations inside the peers are theirs.
pytestmark = pytest.mark.filterwarnings("ignore")

ALPHA, N, K = 0.1, 400, 6


@pytest.fixture(autouse=True)
def double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    labels = rng.integers(K, size=N)
    return 2 * rng.normal(size=(N, K)) + 2 * np.eye(K)[labels], labels


def theirs(*, soft):
    from torchcp.classification.loss.confts import ConfTSLoss
    from torchcp.classification.predictor import SplitPredictor
    from torchcp.classification.score import APS

    predictor = SplitPredictor(score_function=APS(score_type="softmax", randomized=False))
    return ConfTSLoss(predictor, alpha=ALPHA, fraction=0.5, soft_qunatile=soft)


def loss_and_slope(loss, logits, labels, temperature):
    log_t = torch.tensor(math.log(temperature), requires_grad=True)
    value = loss(torch.from_numpy(logits) / torch.exp(log_t), torch.from_numpy(labels))
    value.backward()
    return value.item(), log_t.grad.item()


@pytest.mark.parametrize("temperature", [0.2, 0.7, 1.0, 1.5, 4.0])
def test_loss_is_the_same_and_its_slope_but_for_the_quantile(rows, temperature):
    """TorchCP holds its plain quantile fixed in the gradient; ours moves with T."""
    value, slope = loss_and_slope(theirs(soft=False), *rows, temperature)
    ours, whole = conformal_loss(*rows, temperature, ALPHA)
    assert ours == pytest.approx(value, rel=1e-12)
    step, tau = 1e-6, []
    distance = 0.0
    for t in (temperature, temperature * math.exp(step), temperature * math.exp(-step)):
        scores = ts.label_scores(*rows, "aps", reweight=None, u=1.0, temperature=t)
        tau.append(ts.conformal_threshold(scores[: N // 2], ALPHA))
        distance = distance or float(np.mean(tau[0] - scores[N // 2 :]))
    of_quantile = 2 * distance * (tau[1] - tau[2]) / (2 * step)
    assert slope + of_quantile == pytest.approx(whole, rel=1e-5, abs=1e-8)


def test_descent_is_that_of_the_authors(rows):
    """Gradient descent in log T from 1.5 by autograd, on TorchCP's scores, the quantile in the graph."""
    logits, labels = (torch.from_numpy(part) for part in rows)
    loss = theirs(soft=False)
    log_t = torch.tensor(math.log(1.5), requires_grad=True)
    optimiser = torch.optim.SGD([log_t], lr=0.8)
    for _ in range(1000):
        optimiser.zero_grad()
        scores = loss.predictor.score_function(logits / torch.exp(log_t), labels)
        rank = ts.conformal_rank(N // 2, ALPHA)
        tau = torch.kthvalue(scores[: N // 2], rank).values
        torch.mean((tau - scores[N // 2 :]) ** 2).backward()
        before = log_t.item()
        optimiser.step()
        if abs(log_t.item() - before) < 0.001:
            break
    found = ts.transforms.ConfTS(ALPHA, tolerance=0.001).fit(*rows).temperature
    assert found == pytest.approx(math.exp(log_t.item()), rel=1e-9)


@pytest.mark.parametrize("temperature", [0.7, 1.5])
def test_their_soft_quantile_is_of_level_alpha(rows, temperature):
    """Scores are sorted from the top and read as if from the bottom: tau is the alpha-quantile."""
    scores = ts.label_scores(*rows, "aps", reweight=None, u=1.0, temperature=temperature)[: N // 2]
    soft = theirs(soft=True)._soft_quantile(torch.from_numpy(scores), ALPHA).item()
    assert soft == pytest.approx(np.quantile(scores, ALPHA), abs=0.03)
    assert soft < ts.conformal_threshold(scores, ALPHA) - 0.2
