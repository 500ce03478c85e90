"""The colours of plots can be told apart, by every eye and from the paper."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from tightset.plot.theme import THEMES

# Machado, Oliveira & Fernandes (2009), severity 1.
VISIONS = {
    "usual": np.eye(3),
    "protan": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deutan": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.01182, 0.04294, 0.968881],
    ],
    "tritan": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.3039],
    ],
}


def linear(colour):
    c = np.array(to_rgb(colour))
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def oklab(rgb):
    """Ottosson (2020)."""
    lms = np.array(
        [
            [0.4122214708, 0.5363325363, 0.0514459929],
            [0.2119034982, 0.6806995451, 0.1073969566],
            [0.0883024619, 0.2817188376, 0.6299787005],
        ]
    )
    lab = np.array(
        [
            [0.2104542553, 0.7936177850, -0.0040720468],
            [1.9779984951, -2.4285922050, 0.4505937099],
            [0.0259040371, 0.7827717662, -0.8086757660],
        ]
    )
    return lab @ np.cbrt(lms @ rgb)


@pytest.mark.parametrize("theme", THEMES.values(), ids=THEMES)
@pytest.mark.parametrize("vision", VISIONS)
def test_colours_differ_for_every_eye(theme, vision):
    seen = [oklab(np.clip(VISIONS[vision] @ linear(c), 0, 1)) for c in (*theme.series, theme.ink)]
    assert min(np.linalg.norm(a - b) for a, b in combinations(seen, 2)) > 0.06


@pytest.mark.parametrize("theme", THEMES.values(), ids=THEMES)
def test_colours_stand_out_from_the_paper(theme):
    def contrast(colour):
        low, high = sorted(linear(c) @ [0.2126, 0.7152, 0.0722] for c in (colour, theme.paper))
        return (high + 0.05) / (low + 0.05)

    assert min(map(contrast, theme.series)) >= 3.0  # WCAG 2.2, graphics
    assert min(contrast(theme.ink), contrast(theme.muted)) >= 4.5  # and text
