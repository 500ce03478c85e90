"""Our scores inside TorchCP, MAPIE, crepes and puncc: their results where definitions agree, right ones where
they do not.

Run by `make test-peers`; docs/differences.md lists what differs.
"""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator, ClassifierMixin

import tightset as ts

# Deprecations inside the peers are theirs.
pytestmark = pytest.mark.filterwarnings("ignore")

K, N = 12, 600


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(3)
    labels = rng.integers(K, size=2 * N)
    logits = 2 * rng.normal(size=(2 * N, K)) + 3 * np.eye(K)[labels]
    return logits, labels


class Given(ClassifierMixin, BaseEstimator):
    """A classifier whose features are its probabilities."""

    def __init__(self, n_classes=K):
        self.n_classes = n_classes

    def fit(self, *_):
        self.classes_ = np.arange(self.n_classes)
        return self

    def predict_proba(self, probabilities):
        return probabilities

    def predict(self, probabilities):
        return probabilities.argmax(axis=1)


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


class TestMapie:
    def fitted(self, batch, score, n, **options):
        from mapie.classification import SplitConformalClassifier

        p = ts.softmax(batch[0])
        model = SplitConformalClassifier(Given().fit(), conformity_score=score, random_state=0, **options)
        return model.conformalize(p[:n], batch[1][:n]), p[N:]

    @pytest.mark.parametrize("n", [100, 150, 600])
    def test_lac_is_the_same_where_the_rank_is(self, batch, n):
        from tightset.integrations.mapie import ConformityScore

        levels = [0.9, 0.8]
        theirs, p = self.fitted(batch, "lac", n, confidence_level=levels)
        ours, _ = self.fitted(batch, ConformityScore("thr"), n, confidence_level=levels)
        np.testing.assert_array_equal(ours.predict_set(p)[1], theirs.predict_set(p)[1])
        np.testing.assert_array_equal(ours.predict(p), theirs.predict(p))

    def test_the_rank_of_1_6_0_rounds_up_where_it_must_not(self, batch):
        """ceil(100 * 0.55) is 55; MAPIE 1.6.0 computes it in floats and takes the 56th smallest score."""
        from tightset.integrations.mapie import ConformityScore

        assert version("mapie") == "1.6.0"
        score = ConformityScore("thr")
        theirs, p = self.fitted(batch, "lac", 99, confidence_level=0.55)
        ours, _ = self.fitted(batch, score, 99, confidence_level=0.55)
        their_sets, our_sets = theirs.predict_set(p)[1], ours.predict_set(p)[1]
        their_scores, our_scores = (np.sort(np.ravel(model.conformity_scores)) for model in (theirs, ours))
        assert theirs._conformity_score.quantiles_ == their_scores[56 - 1]
        assert score.quantiles_ == our_scores[55 - 1]
        assert (our_sets <= their_sets).all()
        assert our_sets.sum() < their_sets.sum()

    @pytest.mark.parametrize("score", ["thr", "aps", "raps", "saps", "rank"])
    @pytest.mark.parametrize("reweight", [None, "entropy"])
    def test_sets_are_those_of_tightset(self, batch, score, reweight):
        from tightset.integrations.mapie import ConformityScore

        model, p = self.fitted(batch, ConformityScore(score, reweight), N, confidence_level=[0.9, 0.95])
        mask = model.predict_set(p)[1]
        recipe = ts.Recipe(score=score, reweight=reweight, temperature=1.0, selection=None)
        calibrated = ts.softmax(batch[0])[:N]
        for level, alpha in enumerate([0.1, 0.05]):
            mine = ts.calibrate(calibrated, batch[1][:N], alpha, recipe, probabilities=True).predict_set(p)
            np.testing.assert_array_equal(mask[:, :, level], mine.mask)


class TestCrepes:
    @pytest.mark.parametrize("smoothing", [False, True])
    @pytest.mark.parametrize("shape", [(40,), (40, 7)])
    @pytest.mark.parametrize("mondrian", [False, True])
    @pytest.mark.parametrize("ties", [False, True])
    def test_p_values_are_the_same_bits(self, smoothing, shape, mondrian, ties):
        from crepes.base import p_values_batch

        from tightset.integrations.crepes import p_values

        rng = np.random.default_rng(0)
        calibration, test = rng.normal(size=300), rng.normal(size=shape)
        if ties:
            calibration, test = calibration.round(1), test.round(1)
            calibration[:5], test.flat[:3] = np.inf, [np.inf, -np.inf, np.nan]
        bins = (rng.integers(4, size=300), rng.integers(5, size=40)) if mondrian else (None, None)
        theirs = p_values_batch(calibration, test, *bins, smoothing, 7)
        assert p_values(calibration, test, *bins, smoothing=smoothing, seed=7).tobytes() == theirs.tobytes()
        np.random.seed(11)  # noqa: NPY002 - what crepes draws from
        theirs = p_values_batch(calibration, test, *bins, smoothing, None)
        np.random.seed(11)  # noqa: NPY002 - what crepes draws from
        assert p_values(calibration, test, *bins, smoothing=smoothing).tobytes() == theirs.tobytes()

    def test_nan_is_refused(self):
        from tightset.integrations.crepes import p_values

        with pytest.raises(ValueError, match="alphas_cal must not be NaN: found one at row 1"):
            p_values([0.1, np.nan], [0.2])

    @pytest.mark.parametrize("class_cond", [False, True])
    @pytest.mark.parametrize("smoothing", [False, True])
    @pytest.mark.parametrize("names", [np.arange(K), np.array([f"class {k:02}" for k in range(K)])])
    def test_wrapped_classifiers_give_the_same(self, batch, class_cond, smoothing, names):
        import crepes
        from crepes.extras import hinge

        from tightset.integrations.crepes import WrapClassifier

        p = ts.softmax(batch[0])
        truth = names[batch[1]]
        found = []
        for kind in (crepes.WrapClassifier, WrapClassifier):
            learner = Given().fit()
            learner.classes_ = names
            model = kind(learner)
            model.calibrate(p[:N], truth[:N], class_cond=class_cond, nc=hinge, seed=3)
            found.append(
                (
                    model.predict_p(p[N : N + 50], smoothing=smoothing, seed=5),
                    model.predict_p(
                        p[N : N + 50], truth[N : N + 50], all_classes=False, smoothing=smoothing, seed=5
                    ),
                    model.predict_set(p[N : N + 50], confidence=0.9, smoothing=smoothing, seed=5),
                    model.evaluate(
                        p[N : N + 50], truth[N : N + 50], confidence=0.9, smoothing=smoothing, seed=5
                    ),
                )
            )
        (their_p, their_own, their_sets, their_figures), (p_all, p_own, sets, figures) = found
        assert p_all.tobytes() == their_p.tobytes()
        assert p_own.tobytes() == their_own.tobytes()
        assert sets == their_sets
        for name in set(their_figures) - {"time_fit", "time_evaluate"}:
            assert figures[name] == their_figures[name], name

    def test_thr_orders_as_hinge(self, batch):
        from crepes.extras import hinge

        from tightset.integrations.crepes import Nonconformity, p_values

        p, names = ts.softmax(batch[0]), np.arange(K)
        nc = Nonconformity("thr")
        theirs = p_values(hinge(p[:N], names, batch[1][:N]), hinge(p[N:]), smoothing=False)
        ours = p_values(nc(p[:N], names, batch[1][:N]), nc(p[N:]), smoothing=False)
        np.testing.assert_array_equal(ours, theirs)

    @pytest.mark.parametrize("reweight", [None, "entropy"])
    def test_scores_of_crepes_give_the_p_values_of_tightset(self, batch, reweight):
        from tightset.integrations.crepes import Nonconformity, WrapClassifier

        p = ts.softmax(batch[0])
        model = WrapClassifier(Given().fit())
        model.calibrate(p[:N], batch[1][:N], nc=Nonconformity("aps", reweight))
        recipe = ts.Recipe(score="aps", reweight=reweight, temperature=1.0, selection=None)
        mine = ts.calibrate(p[:N], batch[1][:N], 0.1, recipe, probabilities=True)
        np.testing.assert_array_equal(model.predict_p(p[N:], smoothing=False), mine.predict_p(p[N:]))

    def test_unknown_classes_are_refused(self):
        from tightset.integrations.crepes import Nonconformity

        with pytest.raises(ValueError, match=r"y must hold values of classes: found .*'c'.* at row 1"):
            Nonconformity()([[0.5, 0.5], [0.1, 0.9]], ["b", "a"], ["b", "c"])


class TestPuncc:
    def conformal(self, batch, functions):
        from deel.puncc.api.conformalization import SplitConformalPredictor
        from deel.puncc.api.prediction import BasePredictor

        class Rows(BasePredictor):
            def predict(self, X, **_):  # noqa: N803
                return X

        p = ts.softmax(batch[0])
        predictor = SplitConformalPredictor(
            predictor=Rows(None, is_trained=True),
            nonconf_score_func=functions[0],
            pred_set_func=functions[1],
            train=False,
        )
        predictor.fit(X_calib=p[:N], y_calib=batch[1][:N])
        return predictor, p[N:]

    def test_lac_sets_are_the_same(self, batch):
        from deel.puncc.api.nonconformity_scores import lac_score
        from deel.puncc.api.prediction_sets import lac_set

        from tightset.integrations.puncc import Functions

        ours = Functions("thr")
        theirs, p = self.conformal(batch, (lac_score, lac_set))
        mine, _ = self.conformal(batch, (ours.score, ours.sets))
        found = mine.predict(p, alpha=0.1)[1]
        expected = theirs.predict(p, alpha=0.1)[1]
        assert [sorted(labels) for labels in found] == expected

    def test_the_crossing_label_of_0_9_3_comes_on_top(self, batch):
        """Without randomisation puncc 0.9.3 keeps the label that crosses the quantile."""
        from deel.puncc.api.nonconformity_scores import raps_score_builder
        from deel.puncc.api.prediction_sets import raps_set_builder

        from tightset.integrations.puncc import Functions

        assert version("puncc") == "0.9.3"
        settings = {"lambd": 0.05, "k_reg": 2, "rand": False}
        ours = Functions(ts.RAPS(0.05, 2), randomized=False)
        theirs, p = self.conformal(batch, (raps_score_builder(**settings), raps_set_builder(**settings)))
        mine, _ = self.conformal(batch, (ours.score, ours.sets))
        found = mine.predict(p, alpha=0.1)[1]
        expected = theirs.predict(p, alpha=0.1)[1]
        assert all(len(a) + 1 >= len(b) >= len(a) for a, b in zip(found, expected, strict=True))
        assert [list(map(int, b[: len(a)])) for a, b in zip(found, expected, strict=True)] == found

    def test_one_row_at_a_time(self, batch):
        """puncc 0.9.3 cuts a set at the number of rows: alone, a row gets one label at most."""
        from deel.puncc.classification import RAPS

        from tightset.integrations.puncc import Functions

        assert version("puncc") == "0.9.3"
        ours = Functions(ts.RAPS(0.01, 2))
        mine, p = self.conformal(batch, (ours.score, ours.sets))
        rows, truth = p[:200], batch[1][N : N + 200]
        together = mine.predict(rows, alpha=0.02)[1]
        alone = [mine.predict(rows[i : i + 1], alpha=0.02)[1][0] for i in range(200)]
        assert alone == together
        assert np.mean([label in found for label, found in zip(truth, alone, strict=True)]) > 0.94

        theirs = RAPS(mine.predictor, train=False, lambd=0.01, k_reg=2)
        theirs.fit(X_calib=ts.softmax(batch[0])[:N], y_calib=batch[1][:N])
        alone = [theirs.predict(rows[i : i + 1], alpha=0.02)[1][0] for i in range(200)]
        assert max(map(len, alone)) == 1
        assert np.mean([label in found for label, found in zip(truth, alone, strict=True)]) < 0.9


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


@pytest.mark.parametrize("peer", ["crepes", "mapie", "torchcp"])
def test_docstrings(peer):
    import doctest
    import importlib

    result = doctest.testmod(importlib.import_module(f"tightset.integrations.{peer}"))
    assert result.attempted
    assert not result.failed


@pytest.mark.parametrize("page", ["integrations", "torch"])
def test_pages(page):
    text = (Path(__file__).parents[2] / "docs" / f"{page}.md").read_text()
    blocks = re.findall(r"```python peers\n(.*?)```", text, re.DOTALL)
    assert blocks
    session = {}
    for block in blocks:
        exec(compile(block, page, "exec"), session)


def test_what_the_adapters_cannot_do_is_refused():
    from tightset.integrations.mapie import ConformityScore
    from tightset.integrations.score_rule import ScoreRule

    p = np.array([[0.7, 0.2, 0.1]])
    with pytest.raises(ValueError, match="agg_scores must be 'mean' with this score, got 'crossval'"):
        ConformityScore().get_predictions(None, np.array([0.1]), p, None, agg_scores="crossval")
    with pytest.raises(ValueError, match="sets need a rule with ranked=True, got False"):
        ScoreRule("thr", ranked=False).sets(p, 0.5)
    assert repr(ScoreRule("thr")) == f"ScoreRule({ts.Scoring('thr', None, 1.0)})"
