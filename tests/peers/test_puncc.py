"""Our functions inside puncc: its results where definitions agree, right ones where they do not."""

from __future__ import annotations

from importlib.metadata import version

import numpy as np
import pytest
from peer_cases import N

import tightset as ts

# Deprecations inside the peers are theirs.
pytestmark = pytest.mark.filterwarnings("ignore")


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
