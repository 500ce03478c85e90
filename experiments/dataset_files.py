"""The files that the package ships for a data set: held-out logits with labels, and a card."""

from __future__ import annotations

import json
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np


def write(
    out: Path,
    name: str,
    logits: np.ndarray,
    labels: np.ndarray,
    *,
    label_names: tuple[str, ...],
    seed: int,
    card: dict[str, Any],
    packages: tuple[str, ...],
) -> None:
    """Write `NAME.npz` and `cards/NAME.json` under `out` and print what was measured.

    Rows are shuffled, since some test files are in an order that matters (the second half of MNIST's was
    written by other people than the first): any slice of the rows may then serve as a sample.
    """
    order = np.random.default_rng(seed).permutation(len(labels))
    logits, labels = logits[order], labels[order]
    shifted = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    measured = {
        "n": len(labels),
        "k": len(label_names),
        "accuracy": round(float((logits.argmax(axis=1) == labels).mean()), 6),
        "mean_confidence": round(float((1 / shifted.sum(axis=1)).mean()), 6),
    }
    made = {
        "seed": seed,
        "order": f"numpy.random.default_rng({seed}).permutation(n) of the rows of the test file",
        "date": datetime.now(UTC).date().isoformat(),
        "versions": {"python": platform.python_version()} | {p: version(p) for p in packages},
    }
    out.joinpath("cards").mkdir(parents=True, exist_ok=True)
    # One byte holds a label here; the package gives int64.
    np.savez_compressed(out / f"{name}.npz", logits=logits, labels=labels.astype(np.uint8))
    text = json.dumps({"name": name} | card | measured | made | {"label_names": label_names}, indent=2)
    (out / "cards" / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    print(f"{name}: {measured}")
