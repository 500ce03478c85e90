"""The notebook runs from its first cell to its last, and ends with the alarm that it tells of."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

STORY = Path(__file__).parent.parent / "docs" / "story.ipynb"


@pytest.fixture
def executed(tmp_path, monkeypatch):
    # Kernels warn on standard error that loopback is not encrypted.
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    (tmp_path / "ipython" / "profile_default").mkdir(parents=True)
    (tmp_path / "ipython" / "profile_default" / "ipython_kernel_config.py").write_text(
        "c.IPKernelApp.log_level = 40\n"
    )
    notebook = nbformat.read(STORY, as_version=4)
    NotebookClient(notebook, timeout=110, resources={"metadata": {"path": str(tmp_path)}}).execute()
    return notebook


@pytest.mark.timeout(300)
@pytest.mark.filterwarnings(
    "default::DeprecationWarning", "default::RuntimeWarning"
)  # of the kernel's client
def test_story(executed):
    shown = [str(cell.outputs) for cell in executed.cells if cell.cell_type == "code"]
    assert "'covered': " in shown[-3]
    assert "'alarm': False" in shown[-3]
    assert "'alarm': True" in shown[-2]


def test_outputs_are_not_kept():
    """They are made when the site is built; kept, they would go stale and fill diffs."""
    cells = nbformat.read(STORY, as_version=4).cells
    assert all(
        not cell.outputs and cell.execution_count is None for cell in cells if cell.cell_type == "code"
    )
