"""Reader of MNIST's format, which Fashion-MNIST shares."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np


def read_idx(path: Path) -> np.ndarray:
    """Read bytes of any shape: two zeros, the type, the number of axes, their lengths, the values."""
    with gzip.open(path) as file:
        content = file.read()
    n_axes = content[3]
    if content[:3] != b"\x00\x00\x08" or not n_axes:
        message = f"{path} is not a file of unsigned bytes in the idx format"
        raise SystemExit(message)
    shape = np.frombuffer(content, ">u4", count=n_axes, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * n_axes).reshape(shape)


def read_images(folder: Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Pixels in [0, 1] as float32 (n, 784) and labels of the part `train` or `t10k`."""
    pixels = read_idx(folder / f"{part}-images-idx3-ubyte.gz")
    labels = read_idx(folder / f"{part}-labels-idx1-ubyte.gz")
    return pixels.reshape(len(pixels), -1).astype(np.float32) / 255, labels.astype(np.int64)
