"""scripts/unit others: which Pythons run the tests without servers (HO-09)."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_PYTHON = """#!/bin/sh
case "$*" in
    *version_info*) echo {version} ;;
    *ensurepip*) exit {venv} ;;
    *"-m venv"*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
    *"-m pip"*) ;;
    *"-m pytest"*) echo "{version} ran pytest"; exit {code} ;;
    --version) echo "Python {version}" ;;
esac
"""


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def python(version: str, venv: int = 0, code: int = 0) -> str:
    return _PYTHON.format(version=version, venv=venv, code=code)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout on Python 3.11 in which nothing but `scripts/unit` is real; programs lie in `bin`."""
    put(tmp_path / "scripts" / "bootstrap", "#!/bin/sh\n")
    put(tmp_path / ".venv" / "bin" / "python", python("3.11"))
    put(tmp_path / "requirements" / "unit.txt", "a==1\n")
    shutil.copy(ROOT / "scripts" / "unit", tmp_path / "scripts")
    for tool in ("cat", "cp", "cut", "dirname", "mkdir", "rm", "sh", "sha256sum"):
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / tool).symlink_to(str(shutil.which(tool)))
    return tmp_path


def others(checkout: Path) -> tuple[int, list[str]]:
    """Run `scripts/unit others`; return the exit code and what it says of the Pythons."""
    ended = subprocess.run(
        [checkout / "scripts" / "unit", "others"],
        env={"PATH": str(checkout / "bin"), "HOME": os.environ.get("HOME", "/")},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    return ended.returncode, [line for line in ended.stdout.splitlines() if "ran pytest" in line or "Left" in line]


def test_each_other_python_that_starts_runs_the_tests(checkout: Path) -> None:
    for version in ("3.11", "3.12", "3.13"):
        put(checkout / "bin" / f"python{version}", python(version))
    assert others(checkout) == (0, ["3.12 ran pytest", "3.13 ran pytest"])


def test_a_python_that_is_missing_or_cannot_make_an_environment_is_named_and_breaks_nothing(checkout: Path) -> None:
    put(checkout / "bin" / "python3.13", python("3.13", venv=1))
    assert others(checkout) == (
        0,
        ["Left out: python3.12 does not start.", "Left out: python3.13 lacks the module venv."],
    )


def test_a_failure_on_another_python_is_a_failure(checkout: Path) -> None:
    put(checkout / "bin" / "python3.12", python("3.12", code=1))
    assert others(checkout) == (1, ["3.12 ran pytest"])
