"""The version is the same wherever it stands; docs/how-to/release.md says how it is raised (HO-10)."""

import json
import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.web.api.contract import VERSION
from scripts.version import PLACES, main, version_in

ROOT = Path(__file__).parents[2]


def test_one_version_stands_in_every_place() -> None:
    """`pyproject.toml` decides."""
    project = read_toml("pyproject.toml")["project"]["version"]

    assert {
        "app/web/api/contract.py": VERSION,
        "sdk/pyproject.toml": read_toml("sdk/pyproject.toml")["project"]["version"],
        "openapi/openapi.json": json.loads((ROOT / "openapi/openapi.json").read_text("utf-8"))["info"]["version"],
        "openapi/asyncapi.yaml": yaml.safe_load((ROOT / "openapi/asyncapi.yaml").read_text("utf-8"))["info"]["version"],
    } == dict.fromkeys(
        ("app/web/api/contract.py", "sdk/pyproject.toml", "openapi/openapi.json", "openapi/asyncapi.yaml"), project
    )


def test_the_changelog_s_newest_release_is_this_version() -> None:
    """HO-10: the section *Unreleased* stands above it."""
    sections = re.findall(r"^## \[([^\]]+)\]", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)

    assert sections[:2] == ["Unreleased", read_toml("pyproject.toml")["project"]["version"]]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The files that hold the version."""
    for place in PLACES:
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / place, tmp_path / place)
    return tmp_path


@pytest.mark.parametrize("arguments", [["9.8.7"], []], ids=["named", "edited in pyproject.toml"])
def test_one_command_writes_the_version_to_every_place(checkout: Path, arguments: list[str]) -> None:
    """HO-10: `pyproject.toml` is the one place that a person edits."""
    project = checkout / "pyproject.toml"
    if not arguments:
        project.write_text(project.read_text("utf-8").replace(f'version = "{VERSION}"', 'version = "9.8.7"'), "utf-8")

    assert (main(arguments, checkout), {version_in(checkout, place) for place in PLACES}) == (0, {"9.8.7"})


@pytest.mark.parametrize("arguments", [["v1"], ["1.0"], ["1.0.0", "1.0.1"]])
def test_what_is_no_version_changes_nothing(checkout: Path, arguments: list[str]) -> None:
    assert (main(arguments, checkout), {version_in(checkout, place) for place in PLACES}) == (2, {VERSION})


def read_toml(path: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / path).read_text("utf-8"))
