from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# HYPOTHESIS_PROFILE=deep for long runs; examples are the same every time in the others.
settings.register_profile("fast", max_examples=60, deadline=None, derandomize=True)
settings.register_profile(
    "deep", max_examples=5000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))

# Plots are drawn, not shown.
os.environ["MPLBACKEND"] = "Agg"

# Four rows of three labels and their truth, for calls that are to be refused.
Z = np.array([[1.0, 0.0, -1.0], [0.0, 2.0, 0.5], [0.3, 0.1, 0.2], [1.0, 1.0, 0.0]])
Y = np.array([0, 1, 2, 0])

SCORES = ("thr", "aps", "raps", "saps", "rank", "mixed")


@pytest.fixture
def rng():
    return np.random.default_rng(20241107)


def synthetic(rng, n, k, strength=3.0, dtype=np.float64):
    """Logits whose scale differs from row to row, and labels that follow them."""
    labels = rng.integers(k, size=n)
    logits = rng.normal(size=(n, k)) + strength * np.eye(k)[labels]
    logits *= rng.gamma(2.0, 1.0, size=(n, 1))
    return logits.astype(dtype), labels


BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as running:
        own = running.chromium.executable_path
        path = next(filter(None, map(shutil.which, BROWSERS)), own if Path(own).exists() else None)
        if path is None:
            hint = "no Chromium here: install it, or run `playwright install --with-deps chromium`"
            if os.environ.get("TIGHTSET_BROWSER") == "required":
                pytest.fail(hint)
            pytest.skip(hint)
        # Chromium refuses its sandbox to root, as whom containers run tests.
        args = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
        found = running.chromium.launch(executable_path=path, args=args)
        yield found
        found.close()


def rgb(colour):
    """Return a hexadecimal colour as browsers tell it."""
    return "rgb({}, {}, {})".format(*(int(colour[i : i + 2], 16) for i in (1, 3, 5)))
