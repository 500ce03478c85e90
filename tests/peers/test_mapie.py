"""Our score inside MAPIE: its results where definitions agree, right ones where they do not."""

from __future__ import annotations

from importlib.metadata import version

import numpy as np
import pytest
from peer_cases import Given, N

import tightset as ts

# Deprecations inside the peers are theirs.
pytestmark = pytest.mark.filterwarnings("ignore")


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
