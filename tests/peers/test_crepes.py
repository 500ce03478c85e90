"""Our scores and p-values inside crepes: its results, to the bit."""

from __future__ import annotations

import numpy as np
import pytest
from peer_cases import Given, K, N

import tightset as ts

# Deprecations inside the peers are theirs.
pytestmark = pytest.mark.filterwarnings("ignore")


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
