"""tests/storeys.py: `-m unit` finds the tests that need no server by their fixtures and modules (HO-09)."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.storeys import LONG, PLANS

ROOT = Path(__file__).parents[2]

_CONFTEST = """
import pytest

@pytest.fixture
def table(database_url):
    return database_url

@pytest.fixture(params=["tiny", "large"])
def size(request):
    return request.param

def ask(request):
    return request.getfixturevalue("kafka")

@pytest.fixture
def any_server(request):
    return ask(request)
"""
_SUITE = """
import pytest

def test_pure(): ...

def test_with_a_parameter(size): ...

async def test_on_a_loop(tmp_path): ...

def test_with_a_server(kafka): ...

def test_with_a_server_below_a_fixture(table): ...

def test_with_a_server_that_is_asked_for_by_name(any_server): ...

@pytest.mark.slow
def test_slow(): ...
"""
_PROGRAMS = """
import subprocess

def test_a_program(): ...
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A small suite with a room, and a folder that mirrors none."""
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text(), encoding="utf-8")
    for folder in ("tests/relay", "tests/acceptance"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "conftest.py").write_text(_CONFTEST, encoding="utf-8")
        (tmp_path / folder / "test_planted.py").write_text(_SUITE, encoding="utf-8")
    (tmp_path / "tests/relay/test_programs.py").write_text(_PROGRAMS, encoding="utf-8")
    return tmp_path


def test_a_unit_test_is_one_that_can_reach_no_server(suite: Path) -> None:
    """Each planted test that needs a server, starts a program, is slow or mirrors no room is left out."""
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider"]
    found = subprocess.run(
        [*command, "-q", "--collect-only", "-m", "unit", "tests"],
        cwd=suite, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip

    assert re.findall(r"^(\S+)::(\w+\S*)", found.stdout, re.MULTILINE) == [
        ("tests/relay/test_planted.py", "test_pure"),
        ("tests/relay/test_planted.py", "test_with_a_parameter[tiny]"),
        ("tests/relay/test_planted.py", "test_with_a_parameter[large]"),
        ("tests/relay/test_planted.py", "test_on_a_loop"),
    ], found.stdout + found.stderr


def test_each_long_test_is_there() -> None:
    """HO-09: a name that is gone would say that somebody runs it."""
    missing = []
    for test in sorted(LONG):
        file, name, *_ = test.partition("[")[0].split("::")
        if not re.search(rf"\b(?:def|class) {name}\b", (ROOT / file).read_text(encoding="utf-8")):
            missing.append(test)
    assert (missing, [file for file in PLANS if not (ROOT / file).exists()]) == ([], [])
