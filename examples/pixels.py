"""A set of classes for every pixel: channel-first logits as a segmentation network gives them.

Images are synthetic: each has a disc and a square on a background, and logits that are unsure at the edges.
The border of width 2 has the label 255, unknown, and is left out.
"""

from __future__ import annotations

import numpy as np

from tightset.integrations import dense

IMAGES, SIZE, UNKNOWN = 40, 48, 255
CLASSES = ["background", "disc", "square"]


def masks(rng: np.random.Generator) -> np.ndarray:
    """Return the true class of each pixel, shape (n, H, W)."""
    y, x = np.mgrid[:SIZE, :SIZE]
    found = np.zeros((IMAGES, SIZE, SIZE), dtype=np.int64)
    for image in found:
        (cy, cx), (sy, sx) = rng.integers(10, SIZE - 10, size=(2, 2))
        image[(y - cy) ** 2 + (x - cx) ** 2 < 81] = 1
        image[(abs(y - sy) < 8) & (abs(x - sx) < 8)] = 2
    return found


def blurred(image: np.ndarray) -> np.ndarray:
    """Return an average over neighbours, by steps along both axes."""
    for axis in (-2, -1):
        for step in (1, 2):
            image = (np.roll(image, step, axis) + image + np.roll(image, -step, axis)) / 3
    return image


def main() -> tuple[float, float]:
    """Print coverage and mean set size; return them."""
    rng = np.random.default_rng(0)
    truth = masks(rng)
    one_hot = np.moveaxis(np.eye(3)[truth], -1, 1)
    logits = (6 * blurred(one_hot) + blurred(12 * rng.normal(size=one_hot.shape))).astype(np.float32)
    truth[:, :2] = truth[:, -2:] = truth[:, :, :2] = truth[:, :, -2:] = UNKNOWN

    half = IMAGES // 2
    predictor = dense.calibrate(logits[:half], truth[:half], 0.05, channels="first", ignore_index=UNKNOWN)
    sets = dense.predict_set(predictor, logits[half:], channels="first")
    labels = truth[half:].ravel()
    known = labels != UNKNOWN
    covered, size = sets[known].coverage(labels[known]), float(sets[known].sizes.mean())
    print(f"coverage {covered:.3f}, mean size {size:.2f} of {len(CLASSES)}")
    sizes = sets.sizes.reshape(truth[half:].shape)
    print("sizes of the sets in the first image, every third pixel:")
    for row in sizes[0, ::3, ::3]:
        print("".join(".123"[n] for n in row))
    return covered, size


if __name__ == "__main__":
    main()
