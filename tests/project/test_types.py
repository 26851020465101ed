"""mypy checks the tests too: names, attributes, numbers of arguments and assignments (HO-09)."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLANTED = '''"""Four wrong lines."""

from typing import NamedTuple


class Pair(NamedTuple):
    one: int
    two: int


undefined_name
Pair(1, 2).three
Pair(1)
number: int = "text"
'''


def settings() -> dict[str, object]:
    found: dict[str, object] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["mypy"]
    return found


def test_mypy_checks_each_folder_with_python() -> None:
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert folders | {"tests", "hookwire"} == set(settings()["packages"]) | {"examples"}  # type: ignore[call-overload]


def test_a_planted_error_in_a_test_is_found(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "__init__.py").touch()
    (tmp_path / "tests" / "test_planted.py").write_text(PLANTED, "utf-8")
    options = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(tmp_path / "cache")]
    found = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "tests/test_planted.py"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert re.findall(r"^tests/test_planted.py:(\d+): .*\[([\w-]+)\]$", found.stdout, re.MULTILINE) == [
        ("11", "name-defined"),
        ("12", "attr-defined"),
        ("13", "call-arg"),
        ("14", "assignment"),
    ], found.stdout + found.stderr
