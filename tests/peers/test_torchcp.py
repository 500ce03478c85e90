"""Our scores inside TorchCP, whose tensors they take: its results where definitions agree."""

from __future__ import annotations

from importlib.metadata import version

import numpy as np
import pytest
import torch
from peer_cases import K, N

import tightset as ts

# Deprecations inside the peers are theirs.
pytestmark = pytest.mark.filterwarnings("ignore")


class TestTorchCP:
    @pytest.fixture(autouse=True)
    def double(self):
        """TorchCP multiplies its penalty by ranks in torch's default type."""
        torch.set_default_dtype(torch.float64)
        yield
        torch.set_default_dtype(torch.float32)

    @staticmethod
    def pairs():
        from torchcp.classification import score as theirs

        from tightset.integrations import torchcp as ours

        return {
            "thr": (theirs.LAC(), ours.THR()),
            "aps": (theirs.APS(randomized=False), ours.APS(randomized=False)),
            "raps": (
                theirs.RAPS(randomized=False, penalty=0.1, kreg=2),
                ours.RAPS(randomized=False, penalty=0.1, kreg=2),
            ),
        }

    @pytest.mark.parametrize("name", ["thr", "aps", "raps"])
    @pytest.mark.parametrize("kind", ["SplitPredictor", "ClassConditionalPredictor", "ClusteredPredictor"])
    def test_deterministic_sets_are_the_same(self, batch, name, kind):
        from torchcp.classification import predictor as predictors

        logits, labels = (torch.from_numpy(part) for part in batch)
        found = []
        for score in self.pairs()[name]:
            torch.manual_seed(0)
            predictor = getattr(predictors, kind)(score_function=score)
            predictor.calculate_threshold(logits[:N], labels[:N], 0.1)
            found.append((predictor.q_hat, predictor.predict_with_logits(logits[N:])))
        (their_q, theirs), (our_q, ours) = found
        torch.testing.assert_close(our_q, their_q, rtol=0, atol=1e-12, check_dtype=False)
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)

    @pytest.mark.parametrize("name", ["thr", "aps", "raps"])
    def test_probabilities(self, batch, name):
        from tightset.integrations import torchcp as ours

        logits, labels = (torch.from_numpy(part) for part in batch)
        kind = getattr(ours, name.upper())
        given = kind(score_type="identity")(torch.softmax(logits, dim=1), labels)
        options = {"penalty": 0.0, "kreg": 0} if name == "raps" else {}
        if name != "thr":
            options["randomized"] = False
            given = kind(score_type="identity", **options)(torch.softmax(logits, dim=1), labels)
        torch.testing.assert_close(given, kind(**options)(logits, labels), rtol=0, atol=1e-12)
        with pytest.raises(ValueError, match="score_type must be 'softmax' or"):
            kind(score_type="log")

    @pytest.mark.parametrize("kind", ["THR", "APS", "RAPS", "SAPS", "EntropyReweighted"])
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_labels_and_all_labels_have_the_same_scores(self, batch, kind, dtype):
        from tightset.integrations import torchcp as ours

        score = getattr(ours, kind)()
        logits, labels = torch.from_numpy(batch[0]).to(dtype), torch.from_numpy(batch[1])
        every = score(logits)
        assert every.shape == (2 * N, K)
        assert every.dtype == dtype
        assert torch.equal(every[torch.arange(2 * N), labels], score(logits, labels))
        assert torch.equal(score(logits[5]), every[5:6])

    @pytest.mark.parametrize("gamma", [0.0, 1.0])
    def test_entropy_reweighting_covers(self, batch, gamma):
        from torchcp.classification.predictor import SplitPredictor

        from tightset.integrations.torchcp import EntropyReweighted

        logits, labels = (torch.from_numpy(part) for part in batch)
        predictor = SplitPredictor(score_function=EntropyReweighted("aps", gamma=gamma, temperature=2.0))
        predictor.calculate_threshold(logits[:N], labels[:N], 0.1)
        mask = predictor.predict_with_logits(logits[N:]).bool()
        scoring = ts.Recipe(score="aps", reweight=ts.Entropy(gamma), temperature=2.0, selection=None)
        ours = ts.calibrate(batch[0][:N], batch[1][:N], 0.1, scoring).predict_set(batch[0][N:])
        np.testing.assert_array_equal(mask.numpy(), ours.mask)

    @pytest.mark.parametrize(("alpha", "temperature"), [(None, 0.5), (0.2, 0.5), (0.2, 1)])
    def test_batches_scored_as_they_come_give_the_same(self, batch, alpha, temperature):
        from torchcp.classification.predictor import SplitPredictor as Theirs

        from tightset.integrations.torchcp import APS, SplitPredictor

        torch.set_default_dtype(torch.float32)
        torch.manual_seed(0)
        rows, labels = torch.from_numpy(batch[0]).float(), torch.from_numpy(batch[1])
        model = torch.nn.Linear(K, K)
        loader = torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(rows[:N], labels[:N]), batch_size=70
        )
        kinds = (Theirs, SplitPredictor)
        found = [kind(APS(), model=model, temperature=temperature, alpha=0.1) for kind in kinds]
        for predictor in found:
            predictor.calibrate(loader, alpha)
        theirs, ours = found
        assert torch.equal(ours.cal_scores, theirs.cal_scores)
        assert ours.q_hat == theirs.q_hat
        assert torch.equal(ours.predict(rows[N:]), theirs.predict(rows[N:]))
        with pytest.raises(ValueError, match="model must be given"):
            SplitPredictor(APS()).calibrate(loader)

    def test_deterministic_saps_of_1_2_1_has_empty_sets_only(self):
        """TorchCP 1.2.1 scores a right top label 0 in calibration and p_max in prediction."""
        from torchcp.classification.predictor import SplitPredictor
        from torchcp.classification.score import SAPS as THEIRS

        from tightset.integrations.torchcp import SAPS

        assert version("torchcp") == "1.2.1"
        rng = np.random.default_rng(0)
        labels = rng.integers(10, size=4000)
        logits = rng.normal(size=(4000, 10)) + 5 * np.eye(10)[labels]
        assert (logits.argmax(axis=1) == labels).mean() > 0.95
        covered = {}
        for score in (THEIRS(randomized=False), SAPS(randomized=False)):
            predictor = SplitPredictor(score_function=score)
            predictor.calculate_threshold(
                torch.from_numpy(logits[:2000]), torch.from_numpy(labels[:2000]), 0.1
            )
            mask = predictor.predict_with_logits(torch.from_numpy(logits[2000:])).numpy().astype(bool)
            covered[type(score).__module__.partition(".")[0]] = mask[np.arange(2000), labels[2000:]].mean()
        assert covered["torchcp"] == 0.0
        assert 0.88 < covered["tightset"] < 0.92

    def test_tensors_elsewhere_are_refused(self):
        from tightset.integrations.torchcp import APS

        with pytest.raises(
            TypeError, match=r"logits must be on the CPU, got a tensor on meta: pass logits.cpu\(\)"
        ):
            APS()(torch.zeros(3, 4, device="meta"))


class TestTensors:
    """Tensors with more axes than two, in the types and layouts of torch."""

    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
    @pytest.mark.parametrize("memory", [torch.contiguous_format, torch.channels_last])
    def test_channels_first(self, dtype, memory):
        from tightset.integrations import dense

        generator = torch.Generator().manual_seed(0)
        labels = torch.randint(5, (4, 8, 6), generator=generator)
        logits = torch.randn(4, 5, 8, 6, generator=generator)
        logits = (logits + 3 * torch.nn.functional.one_hot(labels, 5).movedim(-1, 1)).to(dtype)
        logits = logits.contiguous(memory_format=memory).requires_grad_()
        labels[0, :4] = -100
        kept = labels.reshape(-1) != -100
        rows = logits.detach().movedim(1, -1).reshape(-1, 5)
        expected = ts.calibrate(rows[kept], labels.reshape(-1)[kept], 0.1)
        found = dense.calibrate(logits, labels, 0.1, channels="first", ignore_index=-100)
        assert found == expected
        sets = dense.predict_set(found, logits, channels="first")
        assert sets == expected.predict_set(rows)
        assert torch.equal(sets.to_torch(), torch.from_numpy(sets.mask))
        assert sets.to_torch().dtype == torch.bool
