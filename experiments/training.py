"""The training loop and the held-out logits, the same for images and texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from tqdm import tqdm

# Gives the model's arguments for the rows of a batch.
Inputs = Callable[[np.ndarray], tuple[Tensor, ...]]


def be_repeatable(seed: int, threads: int) -> None:
    """Fix what random numbers and sums depend on: the seed and the number of threads."""
    torch.manual_seed(seed)
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(mode=True)


def fit(
    model: nn.Module,
    inputs: Inputs,
    labels: np.ndarray,
    batches: Sequence[np.ndarray],
    *,
    rate: float,
    warm_up: float,
    weight_decay: float,
) -> None:
    """Train with AdamW on the batches in turn.

    The rate rises over the first `warm_up` of the steps and then falls to zero, both linearly.
    """
    trained = [p for p in model.parameters() if p.requires_grad]
    optimiser = torch.optim.AdamW(trained, lr=rate, weight_decay=weight_decay)
    rising = max(1, round(warm_up * len(batches)))

    def share(step: int) -> float:
        return min((step + 1) / rising, (len(batches) - step) / max(1, len(batches) - rising))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, share)
    model.train()
    smooth = None
    progress = tqdm(batches, desc="training", unit="batch", mininterval=1)
    for rows in progress:
        loss = cross_entropy(model(*inputs(rows)), torch.from_numpy(labels[rows]))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        smooth = loss.item() if smooth is None else 0.98 * smooth + 0.02 * loss.item()
        progress.set_postfix(loss=f"{smooth:.4f}", refresh=False)


def held_out_logits(
    model: nn.Module, inputs: Inputs, batches: Iterable[np.ndarray], n_rows: int
) -> np.ndarray:
    """Logits of all rows, float32, in the order of the rows whatever the order of the batches."""
    model.eval()
    parts = []
    order = []
    with torch.inference_mode():
        for rows in tqdm(batches, desc="held-out logits", unit="batch", mininterval=1):
            parts.append(model(*inputs(rows)).numpy())
            order.append(rows)
    stacked = np.concatenate(parts)
    logits = np.empty((n_rows, stacked.shape[1]), dtype=np.float32)
    logits[np.concatenate(order)] = stacked
    return logits
