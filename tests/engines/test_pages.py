"""What docs/scale.md shows of Ray Data and Spark, run with them; `make test-engines`."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import tightset as ts

PAGE = Path(__file__).parents[2] / "docs" / "scale.md"

# What the engines and the libraries below them warn of is theirs.
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(900)]


def blocks(kind):
    return re.findall(rf"```{kind}\n(.*?)```", PAGE.read_text(), re.DOTALL)


def session_of(engine):
    """Run the page's first block, which makes the rows, and what it says of an engine."""
    session = {}
    for block in (blocks("python")[0], *blocks(f"python {engine}")):
        exec(compile(block, PAGE.name, "exec"), session)
    return session


def check(session):
    logits, labels = session["logits"], session["labels"]
    ids = np.arange(len(labels))
    assert session["predictor"] == ts.calibrate(logits, labels, alpha=0.1, row_ids=ids)


def test_ray(tmp_path, monkeypatch):
    ray = pytest.importorskip("ray")
    monkeypatch.chdir(tmp_path)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        check(session_of("ray"))
    finally:
        ray.shutdown()


@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
def test_spark(tmp_path, monkeypatch):
    sql = pytest.importorskip("pyspark.sql")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    spark = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        check(session_of("spark"))
    finally:
        spark.stop()
