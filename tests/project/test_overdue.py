"""tests/overdue.py and the report of the root conftest.py, on a small suite of its own, in a process of xdist."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Each test fails in its own way when it runs for the first time, and passes when it runs again.
_SUITE = """
import asyncio, pathlib, subprocess
import pytest

@pytest.fixture
def first(request):
    mark = pathlib.Path(__file__).with_name(request.node.name)
    ran, _ = mark.exists(), mark.touch()
    return not ran

def late():
    raise TimeoutError("it never came")

def test_wait(first):
    if first: late()

async def test_waits(first):
    async with asyncio.TaskGroup() as tasks:
        if first:
            tasks.create_task(asyncio.wait_for(asyncio.Event().wait(), 0.01))

def test_program(first):
    subprocess.run(["sleep", "30" if first else "0"], timeout=2)

@pytest.mark.timeout(0.3)
def test_hang(first):
    subprocess.run(["sleep", "30" if first else "0"])

def test_value(first):
    assert not first

def test_value_after_a_wait(first):
    try:
        if first: late()
    except TimeoutError:
        assert "nothing" == "something"

async def test_wait_beside_a_value(first):
    async def wrong():
        assert not first
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(wrong())
        await asyncio.sleep(0)
        if first: late()

@pytest.fixture
def checked(first):
    yield
    assert not first

def test_wait_with_a_wrong_end(checked, first):
    if first: late()
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What pytest prints of that suite with this repository's settings."""
    suite = tmp_path_factory.mktemp("suite") / "test_suite.py"
    suite.write_text(_SUITE, encoding="utf-8")
    options = ["-c", ROOT / "pyproject.toml", "--rootdir", ROOT, "-p", "tests.conftest", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, "-n", "1", "--reruns", "1", "-rpfER", suite]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120).stdout


def test_an_overdue_wait_is_repeated_and_a_wrong_result_never(report: str) -> None:
    """docs/adr/0025-repeated-waits.md"""
    words = ("RERUN", "PASSED", "FAILED")
    found = {word: set(re.findall(rf"^{word} \S*::(\w+)", report, re.MULTILINE)) for word in words}
    waits = {"test_wait", "test_waits", "test_program"}
    values = {"test_value", "test_value_after_a_wait", "test_wait_beside_a_value", "test_wait_with_a_wrong_end"}
    assert (found, "= 5 failed, 3 passed, 3 rerun in " in report.splitlines()[-1]) == (
        {"RERUN": waits, "PASSED": waits, "FAILED": {*values, "test_hang"}},
        True,
    ), report


def test_the_report_names_each_overdue_wait_with_its_reason(report: str) -> None:
    section = report.partition("overdue waits, each repeated once")[2]
    assert re.search(r"^\S*::test_wait: TimeoutError: it never came$", section, re.MULTILINE), report
