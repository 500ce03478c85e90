"""Sets of next tokens from the logits of a language model, K = 128,000, in half precision.

The logits are synthetic, of shape (batch, length, K): a few likely tokens and a long tail. Padding has the
label -100 and is left out. Nothing is copied or converted as a whole.
"""

from __future__ import annotations

import numpy as np

import tightset as ts
from tightset.integrations import dense

BATCH, LENGTH, K, PADDING = 8, 48, 128_000, -100


def logits_and_tokens(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return logits in float16, and the tokens that came next."""
    logits = np.empty((BATCH, LENGTH, K), dtype=np.float16)
    tokens = np.empty((BATCH, LENGTH), dtype=np.int64)
    for sequence in range(BATCH):
        rows = rng.standard_normal((LENGTH, K), dtype=np.float32)
        likely = rng.integers(K, size=(LENGTH, 20))
        gains = 11 + 3 * rng.standard_normal((LENGTH, 20), dtype=np.float32)
        np.put_along_axis(rows, likely, gains, 1)
        # The next token is drawn from the model's own probabilities, a little flatter.
        p = np.exp(0.8 * (gains - gains.max(axis=1, keepdims=True)))
        chosen = (p.cumsum(axis=1) / p.sum(axis=1, keepdims=True) > rng.random((LENGTH, 1))).argmax(axis=1)
        tokens[sequence] = likely[np.arange(LENGTH), chosen]
        logits[sequence] = rows
    tokens[::2, -8:] = PADDING
    return logits, tokens


def main() -> tuple[float, float]:
    """Print coverage and mean set size; return them."""
    logits, tokens = logits_and_tokens(np.random.default_rng(0))
    recipe = ts.Recipe(score="aps", reweight=["entropy", None], temperature=[0.5, 1, 2], selection="held-out")
    half = BATCH // 2
    predictor = dense.calibrate(logits[:half], tokens[:half], 0.1, recipe, ignore_index=PADDING)
    sets = dense.predict_set(predictor, logits[half:])
    truth = tokens[half:].ravel()
    known = truth != PADDING
    covered, size = sets[known].coverage(truth[known]), float(sets.sizes.mean())
    print(f"{predictor.scoring}: coverage {covered:.3f}, mean size {size:.1f} of {K:,}")
    print("tokens that may come first in sequence 0:", sets[0].tolist())
    return covered, size


if __name__ == "__main__":
    main()
