"""The readers of raw files and the writer of data sets, which the training scripts in `experiments` share."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest

from dataset_files import write
from image_files import read_idx, read_images
from text_files import plain, read_ag_news, read_carer

STORY = "oil prices rose sharply on friday as traders feared for supplies from the gulf of mexico"


def write_idx(path, array):
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    path.write_bytes(gzip.compress(header + array.tobytes()))


def test_images(tmp_path):
    pixels = np.arange(2 * 28 * 28).reshape(2, 28, 28).astype(np.uint8)
    write_idx(tmp_path / "t10k-images-idx3-ubyte.gz", pixels)
    write_idx(tmp_path / "t10k-labels-idx1-ubyte.gz", np.array([7, 2], np.uint8))
    images, labels = read_images(tmp_path, "t10k")
    assert images.dtype == np.float32
    assert np.array_equal(images * 255, pixels.reshape(2, 784))
    assert labels.tolist() == [7, 2]


def test_another_format_is_refused(tmp_path):
    path = tmp_path / "floats.gz"
    path.write_bytes(gzip.compress(bytes([0, 0, 13, 1, 0, 0, 0, 1, 0, 0, 0, 0])))
    with pytest.raises(SystemExit, match=r"floats\.gz is not a file of unsigned bytes"):
        read_idx(path)


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("Haiti #39;s straits", "Haiti 's straits"),
        (r"a second\team", "a second team"),
        ("costs  #36;10 million", "costs $10 million"),
        ("one #151; two", "one \N{EM DASH} two"),
        ("&lt;b&gt;Bold&lt;/b&gt; words", "Bold words"),
    ],
)
def test_plain(raw, clean):
    assert plain(raw) == clean


@pytest.mark.parametrize("header", ["", "text;label_name\n"])
def test_carer(tmp_path, header):
    (tmp_path / "train.txt").write_text(f"{header}i feel fine; yes;joy\ni am afraid;fear\nI feel low!;joy\n")
    (tmp_path / "test.txt").write_text(f"{header}i feel low;sadness\n")
    (texts, labels), (test_texts, test_labels) = read_carer(tmp_path)
    assert texts == ["i feel fine; yes", "i am afraid"]
    assert labels.tolist() == [1, 4]
    assert (test_texts, test_labels.tolist()) == (["i feel low"], [0])


def test_ag_news_drops_test_stories_from_training(tmp_path):
    (tmp_path / "train-part1.tsv").write_text(
        f"sentence \t label\nlondon (reuters) - {STORY} . \t 2\na new phone . \t 3\n"
    )
    (tmp_path / "train-part2.tsv").write_text("sentence \t label\nshort text . \t 0\nA new phone . \t 3\n")
    (tmp_path / "train-part3.csv").write_text(f'"Oil Up {STORY}",2\n"Cup final won",1\n')
    (tmp_path / "test.csv").write_text(f'"3","Oil Jumps","{STORY.title()}."\n"1","A Title","Short text"\n')
    (texts, labels), (test_texts, test_labels) = read_ag_news(tmp_path)
    assert texts == ["a new phone .", "Cup final won"]
    assert labels.tolist() == [3, 1]
    assert test_texts[1] == "A Title Short text"
    assert test_labels.tolist() == [2, 0]


def test_write_gives_the_rows_in_the_order_that_the_card_says(tmp_path):
    logits = np.log(np.array([[0.5, 0.25, 0.25], [0.2, 0.7, 0.1], [0.1, 0.1, 0.8]], np.float32))
    labels = np.array([0, 1, 1])
    write(
        tmp_path,
        "toy",
        logits,
        labels,
        label_names=("a", "b", "c"),
        seed=3,
        card={"title": "Toy"},
        packages=("numpy",),
    )
    order = np.random.default_rng(3).permutation(3)
    card = json.loads((tmp_path / "cards" / "toy.json").read_text())
    with np.load(tmp_path / "toy.npz") as arrays:
        assert np.array_equal(arrays["logits"], logits[order])
        assert np.array_equal(arrays["labels"], labels[order])
    assert (card["n"], card["k"], card["seed"], card["title"]) == (3, 3, 3, "Toy")
    assert card["accuracy"] == pytest.approx(2 / 3, abs=1e-6)
    assert card["mean_confidence"] == pytest.approx((0.5 + 0.7 + 0.8) / 3, abs=1e-6)
    assert card["versions"]["numpy"] == np.__version__
