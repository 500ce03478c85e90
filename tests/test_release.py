"""What a release says of itself is the same everywhere."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import tightset as ts

ROOT = Path(__file__).parent.parent


def read(name):
    return (ROOT / name).read_text()


def test_one_version():
    version = tomllib.loads(read("Cargo.toml"))["package"]["version"]
    project = tomllib.loads(read("pyproject.toml"))["project"]
    assert "version" in project["dynamic"]
    assert "version" not in project
    locked = [p["version"] for p in tomllib.loads(read("Cargo.lock"))["package"] if p["name"] == "tightset"]
    assert locked == [version]
    assert ts.__version__ == version
    assert re.findall(r"^version: (.+)$", read("CITATION.cff"), re.MULTILINE) == [version]


def test_changelog_has_the_version_and_its_date():
    releases = re.findall(r"^## (.+)$", read("CHANGELOG.md"), re.MULTILINE)
    date = re.search(r'^date-released: "(.+)"$', read("CITATION.cff"), re.MULTILINE).group(1)
    assert releases[0] == "Unreleased"
    assert releases[1] == f"{ts.__version__} - {date}"


def test_licences_are_named_and_there():
    project = tomllib.loads(read("pyproject.toml"))["project"]
    assert project["license"] == tomllib.loads(read("Cargo.toml"))["package"]["license"]
    for name in project["license-files"]:
        assert len(read(name)) > 1000
