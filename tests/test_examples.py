"""Each example runs, says what it found, and covers as it asks for."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
LEVELS = {"image_classifier": 0.9, "gradient_boosting": 0.9, "next_token": 0.9, "pixels": 0.95}


def loaded(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", LEVELS)
def test_example(name, capsys):
    covered, size = loaded(name).main()
    # Calibration and test rows number from 152 to 45,000, of which pixels of an image depend on each other.
    assert abs(covered - LEVELS[name]) < 0.06
    assert size > 0.5
    assert f"coverage {covered:.3f}" in capsys.readouterr().out


def test_no_example_is_left_out():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*LEVELS, "digits"}
