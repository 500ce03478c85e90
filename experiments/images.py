"""Train a multi-layer perceptron on MNIST or Fashion-MNIST and write the logits of the test set.

python experiments/images.py mnist --data DIR --out python/tightset/datasets
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from dataset_files import write
from image_files import read_images
from training import be_repeatable, fit, held_out_logits

EPOCHS = 25
RATE = 1e-3
WARM_UP = 0.02
BATCH = 128
PACKAGES = ("numpy", "torch")

DATA = {
    "mnist": {
        "title": "MNIST: handwritten digits",
        "source": "Y. LeCun, C. Cortes & C. J. C. Burges, 'The MNIST database of handwritten digits', 1998",
        "licence": "CC BY-SA 3.0 for the images, of which none is included",
    },
    "fashion-mnist": {
        "title": "Fashion-MNIST: articles of clothing",
        "source": "Xiao, Rasul & Vollgraf, 'Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine "
        "Learning Algorithms', 2017; github.com/zalandoresearch/fashion-mnist",
        "licence": "MIT for the images, of which none is included",
    },
}
LABEL_NAMES = {
    "mnist": tuple("0123456789"),
    "fashion-mnist": (
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    ),
}


def perceptron() -> nn.Module:
    """Two hidden layers."""
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))


def batches_of(order: np.ndarray, size: int) -> list[np.ndarray]:
    """Cut rows into batches."""
    return np.split(order, range(size, len(order), size))


def rows_of(pixels: np.ndarray) -> Callable[[np.ndarray], tuple[Tensor]]:
    """Give the model's argument for the rows of a batch."""
    return lambda rows: (torch.from_numpy(pixels[rows]),)


def main() -> None:
    """Read the arguments, train, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=DATA)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds the folder NAME")
    parser.add_argument("--out", type=Path, required=True, help="folder for NAME.npz and cards/NAME.json")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2, help="part of what the last bits depend on")
    arguments = parser.parse_args()
    be_repeatable(arguments.seed, arguments.threads)
    rng = np.random.default_rng(arguments.seed)

    train, train_labels = read_images(arguments.data / arguments.name, "train")
    test, test_labels = read_images(arguments.data / arguments.name, "t10k")
    model = perceptron()
    batches = [b for _ in range(EPOCHS) for b in batches_of(rng.permutation(len(train)), BATCH)]
    fit(model, rows_of(train), train_labels, batches, rate=RATE, warm_up=WARM_UP, weight_decay=0.0)
    logits = held_out_logits(model, rows_of(test), batches_of(np.arange(len(test)), 1000), len(test))
    write(
        arguments.out,
        arguments.name,
        logits,
        test_labels,
        label_names=LABEL_NAMES[arguments.name],
        seed=arguments.seed,
        packages=PACKAGES,
        card=DATA[arguments.name]
        | {
            "model": "multi-layer perceptron 784-512-256-10 with ReLU",
            "training": f"{len(train)} images, {EPOCHS} epochs, Adam, batches of {BATCH}, rate {RATE:g} "
            f"after a warm-up of {WARM_UP:.0%} falling linearly to 0, no regularisation",
            "command": f"python experiments/images.py {arguments.name} --data DIR "
            f"--out python/tightset/datasets --seed {arguments.seed} --threads {arguments.threads}",
        },
    )


if __name__ == "__main__":
    main()
