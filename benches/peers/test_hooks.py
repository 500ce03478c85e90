"""The peers with our scores in place of theirs: `make bench-peers`.

TorchCP calibrates plain APS, through its `calibrate` with a model and batches and by logits alone, with our
score and then with our `SplitPredictor` too; a score that takes no time shows what its copies of the logits
cost. crepes computes p-values of given scores.
"""

from __future__ import annotations

import numpy as np
import pytest

from workloads import title, workload

# What other libraries warn of is theirs.
pytestmark = pytest.mark.filterwarnings("ignore")
ALPHA = 0.1
TORCHCP = f"TorchCP's calculate_threshold, plain APS, {title('A')}"
TORCHCP_LOADER = f"TorchCP's calibrate with a loader, plain APS, {title('A')}"
OWN = ("TorchCP", "tightset's score", "tightset")
CREPES = "crepes, p-values, 10,000 x 100, 10,000 calibration rows"


@pytest.mark.parametrize("whose", [*OWN, "a score that takes no time"])
@pytest.mark.parametrize("work", [TORCHCP, TORCHCP_LOADER])
def test_torchcp(timed, whose, work):
    torch = pytest.importorskip("torch")
    from torchcp.classification import score as theirs
    from torchcp.classification.predictor import SplitPredictor

    from tightset.integrations import torchcp as ours

    torch.set_num_threads(2)
    logits, labels = (torch.from_numpy(array) for array in workload("A"))
    none = torch.ones(len(labels))
    score = (theirs if whose == "TorchCP" else ours).APS() if whose in OWN else lambda *_: none
    kind = ours.SplitPredictor if whose == "tightset" else SplitPredictor
    predictor = kind(score_function=score, model=torch.nn.Identity(), device=torch.device("cpu"))
    # Ready batches: collating single rows would take most of the time, whoever scores.
    loader = list(zip(logits.split(5000), labels.split(5000), strict=True))

    def call():
        if work == TORCHCP:
            predictor.calculate_threshold(logits, labels, ALPHA)
        else:
            predictor.calibrate(loader, ALPHA)
        return predictor.q_hat

    q = timed(work, whose, call, rounds=3 if whose == "TorchCP" else 7)
    # The same law of U, other draws.
    assert 0.0 < float(q) <= 1.0


@pytest.mark.parametrize("whose", ["crepes", "tightset"])
@pytest.mark.parametrize("smoothing", [False, True], ids=["plain", "smoothed"])
def test_crepes(timed, whose, smoothing):
    from crepes.base import p_values_batch

    from tightset.integrations.crepes import p_values

    rng = np.random.default_rng(0)
    calibration, test = rng.random(10_000), rng.random((10_000, 100))
    share = 0.01 if whose == "crepes" else 1.0
    part = test[: int(len(test) * share)]

    def call():
        if whose == "crepes":
            return p_values_batch(calibration, part, None, None, smoothing, 0)
        return p_values(calibration, part, smoothing=smoothing, seed=0)

    found = timed(f"{CREPES}, {'smoothed' if smoothing else 'plain'}", whose, call, share=share, rounds=5)
    few = slice(0, 20)
    expected = p_values_batch(calibration, test[few], None, None, smoothing, 0)
    assert found[few].tobytes() == expected.tobytes()
