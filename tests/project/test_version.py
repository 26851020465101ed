"""The version is the same wherever it stands; docs/how-to/release.md says how it is raised (HO-10)."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import yaml

from app.web.api.contract import VERSION

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


def read_toml(path: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / path).read_text("utf-8"))
