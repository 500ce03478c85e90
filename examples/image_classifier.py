"""Prediction sets from an image classifier of scikit-learn, in a pipeline.

A small network learns handwritten digits from 360 noisy images. The other 540 rows given to `fit` are set
aside for calibration; the sets of images that it never saw should contain the digit nine times in ten.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tightset.integrations.sklearn import ConformalClassifier, coverage


def main() -> tuple[float, float]:
    """Print coverage and mean set size; return them."""
    rng = np.random.default_rng(0)
    images, digits = load_digits(return_X_y=True)
    # Digits of one writer come together in the file; the guarantee is for rows in any order.
    order = rng.permutation(len(digits))
    images, digits = images[order] + 5 * rng.normal(size=images.shape), digits[order]
    network = MLPClassifier((32,), max_iter=500, tol=0.01, random_state=0)
    model = ConformalClassifier(make_pipeline(StandardScaler(), network), alpha=0.1, recipe="thr", cv=0.6)
    model.fit(images[:900], digits[:900])
    covered = coverage(model, images[900:], digits[900:])
    size = model.predict_set(images[900:]).sizes.mean()
    accuracy = model.score(images[900:], digits[900:])
    print(f"accuracy {accuracy:.3f}, coverage {covered:.3f}, mean size {size:.2f}")
    print(model.predict_set(images[900:905], as_frame=True))
    return covered, float(size)


if __name__ == "__main__":
    main()
