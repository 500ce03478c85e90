"""Calibrate a small real classifier and print what several recipes give.

A logistic regression learns scikit-learn's handwritten digits from a hundred of them, with noise. The
rest is split again and again into calibration and test rows; the table shows the mean over the splits.
"""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import tightset as ts

ALPHAS = (0.1, 0.05, 0.01)
RECIPES = ("thr", "aps", "raps", "saps", "rank", "paper", "released", "er-aps")
SPLITS = 20


def logits_of_a_classifier(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Train on 100 noisy digits; return logits and labels of all others."""
    images, labels = load_digits(return_X_y=True)
    images = images / 16 + 0.25 * rng.normal(size=images.shape)
    order = rng.permutation(len(labels))
    train, rest = order[:100], order[100:]
    model = LogisticRegression(C=10.0, max_iter=1000).fit(images[train], labels[train])
    logits = model.decision_function(images[rest])
    accuracy = (logits.argmax(axis=1) == labels[rest]).mean()
    print(f"logistic regression on digits: {len(rest)} held-out rows, accuracy {accuracy:.3f}\n")
    return logits, labels[rest]


def main() -> None:
    """Print coverage and mean set size of several recipes at each level."""
    rng = np.random.default_rng(0)
    logits, labels = logits_of_a_classifier(rng)
    half = len(labels) // 2
    results = {}
    for split in range(SPLITS):
        order = rng.permutation(len(labels))
        calibration, test = order[:half], order[half:]
        for recipe in RECIPES:
            predictors = ts.calibrate(logits[calibration], labels[calibration], ALPHAS, recipe, seed=split)
            for predictor in predictors:
                sets = predictor.predict_set(logits[test])
                entry = (sets.coverage(labels[test]), sets.sizes.mean())
                results.setdefault((recipe, predictor.alpha), []).append(entry)

    print(f"{'':10}" + "".join(f"{f'coverage {1 - alpha:.2f}':>18}" for alpha in ALPHAS))
    print(f"{'recipe':10}" + "".join(f"{'covered':>10}{'size':>8}" for _ in ALPHAS))
    for recipe in RECIPES:
        cells = (np.mean(results[recipe, alpha], axis=0) for alpha in ALPHAS)
        print(f"{recipe:10}" + "".join(f"{covered:10.3f}{size:8.2f}" for covered, size in cells))
    print(f"\nmean over {SPLITS} splits, {half} calibration rows each")


if __name__ == "__main__":
    warnings.simplefilter("error")
    main()
