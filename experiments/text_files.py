"""Readers of AG News and CARER as they are distributed."""

from __future__ import annotations

import csv
import html
import re
from pathlib import Path

import numpy as np

Texts = tuple[list[str], np.ndarray]

AG_NEWS_LABELS = ("World", "Sports", "Business", "Sci/Tech")
CARER_LABELS = ("sadness", "joy", "love", "anger", "fear", "surprise")


def read_ag_news(folder: Path) -> tuple[Texts, Texts]:
    """Training and test texts, with labels 0 to 3, of the parts of AG News in `folder`."""
    train: list[tuple[str, int]] = []
    for name in ("train-part1.tsv", "train-part2.tsv"):
        lines = (folder / name).read_text(encoding="utf-8").splitlines()
        for line in lines[1:]:
            text, label = line.rsplit("\t", 1)
            train.append((plain(text), int(label)))
    with (folder / "train-part3.csv").open(encoding="utf-8", newline="") as file:
        train.extend((plain(text), int(label)) for text, label in csv.reader(file))
    with (folder / "test.csv").open(encoding="utf-8", newline="") as file:
        rows = [(int(label) - 1, plain(title), plain(text)) for label, title, text in csv.reader(file)]
    test = [(f"{title} {text}", label) for label, title, text in rows]
    # Parts of the training set have a title before the text and parts have not.
    seen = {ending(text) for _, _, text in rows} | {ending(text) for text, _ in test}
    return as_texts(unseen(train, seen)), as_texts(test)


def read_carer(folder: Path) -> tuple[Texts, Texts]:
    """Training and test texts, with labels 0 to 5, of CARER in `folder`."""
    train, test = (carer_rows(folder / name) for name in ("train.txt", "test.txt"))
    return as_texts(unseen(train, {ending(text) for text, _ in test})), as_texts(test)


def carer_rows(path: Path) -> list[tuple[str, int]]:
    """Texts and labels of one file, whose first line is a header in some copies and a row in others."""
    pairs = [line.rsplit(";", 1) for line in path.read_text(encoding="utf-8").splitlines()]
    if pairs[0][1] not in CARER_LABELS:
        del pairs[0]
    return [(text, CARER_LABELS.index(label)) for text, label in pairs]


def plain(text: str) -> str:
    r"""Undo what the crawl left in AG News: `#39;` for an apostrophe, tags, `\` for a line break."""
    text = re.sub(r"&?#(\d+);", lambda code: html.unescape(f"&#{code[1]};"), text)
    text = re.sub(r"<[^>]*>", " ", html.unescape(text))
    return " ".join(text.replace("\\", " ").split())


def ending(text: str) -> str:
    """Last letters and digits of a text, alike in copies of a story with another title or agency."""
    return re.sub(r"[\W_]+", "", text.lower())[-60:]


def unseen(train: list[tuple[str, int]], test_endings: set[str]) -> list[tuple[str, int]]:
    """Training texts that are not test texts, the first of each; those that are would flatter the model."""
    kept: dict[str, tuple[str, int]] = {}
    for text, label in train:
        if (letters := ending(text)) not in test_endings:
            kept.setdefault(letters, (text, label))
    return list(kept.values())


def as_texts(rows: list[tuple[str, int]]) -> Texts:
    """Texts in a list, labels in an array."""
    return [text for text, _ in rows], np.array([label for _, label in rows], dtype=np.int64)
