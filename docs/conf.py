"""The documentation site: `make docs` builds it, with every warning an error."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

from pygments.lexers.rust import RustLexer

import tightset

project = "tightset"
version = release = tightset.__version__
copyright = "the tightset developers"

extensions = [
    "myst_nb",  # pages in Markdown, and cells that run while the site is built
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "mathml",
]

html_theme = "furo"
html_title = "tightset"
html_static_path = ["_static"]
html_css_files = ["site.css"]
exclude_patterns = ["_ext", "_templates"]

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
suppress_warnings = [
    "mystnb.unknown_mime_type",
    "ref.python",  # attributes such as coverage, which several classes have, are linked from types by name
]

# Kernels warn on standard error that loopback is not encrypted; a warning here should mean something.
os.environ["IPYTHONDIR"] = tempfile.mkdtemp(prefix="tightset-docs-")
_profile = Path(os.environ["IPYTHONDIR"], "profile_default")
_profile.mkdir()
(_profile / "ipython_kernel_config.py").write_text("c.IPKernelApp.log_level = 40\n", encoding="utf-8")

# A cell that fails or warns on standard error fails the build.
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True

templates_path = ["_templates"]
autosummary_generate = True
autodoc_typehints = "none"  # the NumPy sections say what is taken, in words
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_rtype = False
# Not installed where the site is built; their classes are only named.
autodoc_mock_imports = ["torch", "torchcp", "mapie", "crepes", "deel"]
napoleon_use_ivar = True


def setup(app: object) -> None:
    """Leave out what scikit-learn adds to every estimator; colour blocks of Rust that are only compiled."""
    app.add_lexer("rust,no_run", RustLexer)
    app.connect("autodoc-skip-member", lambda *event: True if event[2].endswith("_request") else None)
