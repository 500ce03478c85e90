"""Prediction sets from gradient-boosted trees, with classes that have names, in and out of a data frame."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier

from tightset.integrations.sklearn import ConformalClassifier

REGIONS = np.array(["coast", "hills", "plain", "valley"])


def main() -> tuple[float, float]:
    """Print coverage and mean set size; return them."""
    features, regions = make_classification(
        3000, 12, n_informative=6, n_classes=4, class_sep=0.8, flip_y=0.05, random_state=0
    )
    frame = pd.DataFrame(features, columns=[f"feature {i}" for i in range(12)])
    truth = pd.Series(REGIONS[regions], name="region")

    trees = HistGradientBoostingClassifier(max_iter=40, random_state=0).fit(frame[:1000], truth[:1000])
    model = ConformalClassifier(trees, alpha=0.1, cv="prefit").conformalize(
        frame[1000:2000], truth[1000:2000]
    )
    sets = model.predict_set(frame[2000:])
    numbers = np.searchsorted(model.classes_, truth[2000:])
    covered, size = sets.coverage(numbers), float(sets.sizes.mean())
    print(f"coverage {covered:.3f}, mean size {size:.2f} of {len(REGIONS)}")
    print(sets[:5].to_pandas(index=frame.index[2000:2005]))
    return covered, size


if __name__ == "__main__":
    main()
