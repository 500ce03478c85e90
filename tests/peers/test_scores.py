"""With U given, our scores are those of TorchCP, MAPIE and puncc; torch and JAX arrays are read.

Run by `make test-peers`; the versions are pinned in pyproject.toml.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tightset as ts

TOLERANCE = {np.float32: 1e-6, np.float64: 1e-12}
K, N = 20, 400


# Deprecations inside the peers are theirs.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def torch_computes_in_the_type_of_the_logits(request):
    """TorchCP multiplies its penalty by ranks in torch's default type, whatever that of the logits."""
    dtype = request.getfixturevalue("batch")[2] if "batch" in request.fixturenames else np.float32
    torch.set_default_dtype(torch.float64 if dtype is np.float64 else torch.float32)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture(params=[np.float32, np.float64], ids=["float32", "float64"])
def batch(request):
    rng = np.random.default_rng(1)
    logits = (3 * rng.normal(size=(N, K))).astype(request.param)
    return logits, rng.integers(K, size=N), request.param


def ours(batch, score, u, **options):
    logits, labels, _ = batch
    return ts.label_scores(logits, labels, score, reweight=None, u=u, **options)


@pytest.mark.parametrize("u", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("name", ["aps", "raps"])
def test_torchcp(batch, name, u, monkeypatch):
    from torchcp.classification.score import APS, RAPS

    logits, labels, dtype = batch
    score = APS() if name == "aps" else RAPS(penalty=0.1, kreg=2)
    # TorchCP's c_r - U f_r is ours with 1 - U; its generator is replaced by the given number.
    monkeypatch.setattr(torch, "rand", lambda shape, **_: torch.full(torch.Size(np.atleast_1d(shape)), 1 - u))
    theirs = score(torch.from_numpy(logits), torch.from_numpy(labels)).numpy()
    mine = ours(batch, name if name == "aps" else ts.RAPS(0.1, 2), u)
    np.testing.assert_allclose(mine, theirs, rtol=0, atol=TOLERANCE[dtype])
    every = score(torch.from_numpy(logits)).numpy()
    mine = ts.all_scores(logits, name if name == "aps" else ts.RAPS(0.1, 2), reweight=None, u=u)
    np.testing.assert_allclose(mine, every, rtol=0, atol=TOLERANCE[dtype])


def test_torchcp_threshold_predicts_the_same_sets():
    from torchcp.classification.predictor import SplitPredictor
    from torchcp.classification.score import LAC

    rng = np.random.default_rng(2)
    logits, labels = rng.normal(size=(500, 7)) * 2, rng.integers(7, size=500)
    predictor = SplitPredictor(score_function=LAC(score_type="softmax"))
    predictor.calculate_threshold(torch.from_numpy(logits[:300]), torch.from_numpy(labels[:300]), 0.1)
    theirs = predictor.predict_with_logits(torch.from_numpy(logits[300:])).numpy().astype(bool)
    mine = ts.calibrate(logits[:300], labels[:300], 0.1, "thr").predict_set(logits[300:])
    np.testing.assert_array_equal(mine.mask, theirs)


@pytest.mark.parametrize("u", [0.0, 0.25, 1.0])
def test_puncc(batch, u, monkeypatch):
    from deel.puncc.api import nonconformity_scores as puncc

    logits, labels, dtype = batch
    p = ts.softmax(logits)
    monkeypatch.setattr(np.random, "uniform", lambda *a, **kw: np.full(kw.get("size", N), 1 - u))
    theirs = puncc.raps_score_builder(lambd=0, k_reg=1)(p, labels)
    np.testing.assert_allclose(ours(batch, "aps", u), np.asarray(theirs), rtol=0, atol=TOLERANCE[dtype])
    theirs = puncc.raps_score_builder(lambd=0.1, k_reg=2)(p, labels)
    np.testing.assert_allclose(
        ours(batch, ts.RAPS(0.1, 2), u), np.asarray(theirs), rtol=0, atol=TOLERANCE[dtype]
    )


def test_mapie(batch):
    from mapie.conformity_scores import APSConformityScore

    logits, labels, dtype = batch
    p = ts.softmax(logits)
    cumulated, ranks = APSConformityScore().get_true_label_cumsum_proba(labels, p, np.arange(K))[:2]
    np.testing.assert_allclose(ours(batch, "aps", 1.0), np.ravel(cumulated), rtol=0, atol=TOLERANCE[dtype])
    np.testing.assert_array_equal(ts.ranks(logits, labels), np.ravel(ranks))


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("transposed", [False, True])
def test_torch_tensors(kind, transposed):
    rng = np.random.default_rng(3)
    tensor = torch.from_numpy(rng.normal(size=(60, 8))).to(getattr(torch, kind)).requires_grad_()
    if transposed:
        tensor = tensor.T.contiguous().T
    labels = torch.from_numpy(rng.integers(8, size=60))
    computing = tensor.detach().double().numpy().astype(np.float64 if kind == "float64" else np.float32)
    expected = ts.label_scores(computing, labels.numpy(), "aps")
    assert ts.label_scores(tensor, labels, "aps").tobytes() == expected.tobytes()


def test_torch_tensors_that_cannot_be_read():
    with pytest.raises(
        TypeError, match=r"logits must be on the CPU, got a tensor on meta: pass logits.cpu\(\)"
    ):
        ts.entropy(torch.zeros(3, 3, device="meta"))
    with pytest.raises(TypeError, match="logits must be dense"):
        ts.entropy(torch.eye(3).to_sparse())


@pytest.mark.parametrize("kind", ["bfloat16", "float16", "float32"])
def test_jax_arrays(kind):
    import jax.numpy as jnp

    rng = np.random.default_rng(4)
    array = jnp.asarray(rng.normal(size=(60, 8)), dtype=kind)
    labels = jnp.asarray(rng.integers(8, size=60))
    expected = ts.label_scores(np.asarray(array.astype("float32")), np.asarray(labels), "aps")
    assert ts.label_scores(array, labels, "aps").tobytes() == expected.tobytes()
