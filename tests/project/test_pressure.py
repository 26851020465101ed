"""tests/pressure.py: the order that a seed gives, and the list of what failed, on a small suite of its own."""

import re
import subprocess
import sys
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.pressure import shuffled
from tests.shares import share

ROOT = Path(__file__).parents[2]

_SUITE = """
import asyncio
import pytest

def test_right(): ...

def test_wrong():
    assert 1 == 2

async def test_late():
    async with asyncio.timeout(0.01):
        await asyncio.Event().wait()

@pytest.fixture
def server():
    raise TimeoutError("it does not answer")

def test_server(server): ...
"""

FILES = ("tests/hub/test_a.py", "tests/hub/test_b.py", "tests/pipeline/test_c.py", "tests/relay/test_d.py",
         "tests/pipeline/test_e.py")  # fmt: skip
NAMES = [f"{file}::test_{number}" for file in FILES for number in range(8)]


def order(seed: int) -> list[str]:
    return [item.nodeid for item in shuffled([SimpleNamespace(nodeid=name) for name in NAMES], seed)]


def test_a_seed_is_one_order_of_all_tests() -> None:
    """GU-20."""
    orders = [order(seed) for seed in (1, 2, 1)]
    assert (orders[0] == orders[2], orders[0] == orders[1], sorted(orders[0]), sorted(orders[1])) == (
        True, False, sorted(NAMES), sorted(NAMES),
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
def test_what_goes_to_one_process_stays_together(seed: int) -> None:
    """GU-20: the pipeline's files, and the tests of a file, in an order by seed."""
    found = order(seed)
    shares = [name for name, _ in groupby(found, key=share)]
    files = [name for name, _ in groupby(found, key=lambda name: name.partition("::")[0])]
    assert (sorted(shares), sorted(files)) == (sorted({share(name) for name in NAMES}), sorted(FILES))


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What pytest prints of that suite in two processes, which have to agree on a seed that nobody gave."""
    suite = tmp_path_factory.mktemp("suite") / "test_suite.py"
    suite.write_text(_SUITE, encoding="utf-8")
    options = ["-c", ROOT / "pyproject.toml", "--rootdir", ROOT, "-p", "tests.conftest", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, "-p", "tests.pressure", "-n", "2", suite]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=240).stdout


def test_what_failed_is_listed_by_its_kind(report: str) -> None:
    """GU-20."""
    section = report.rpartition("= pressure: ")[2].partition("short test summary")[0]
    lines = re.findall(r"^(wrong result|overdue wait)  \S*::(\w+): (.*)$", section, re.MULTILINE)
    assert lines == [
        ("wrong result", "test_wrong", "assert 1 == 2"),
        ("overdue wait", "test_server", "TimeoutError: it does not answer"),
        ("overdue wait", "test_late", "TimeoutError"),
    ], report


def test_what_failed_is_printed_at_once(report: str) -> None:
    """The list is at the end of the run."""
    before = report.partition("= FAILURES")[0].partition("= ERRORS")[0]
    lines = re.findall(r"^failed: (wrong result|overdue wait)  \S*::(\w+): ", before, re.MULTILINE)
    assert sorted(lines) == [
        ("overdue wait", "test_late"), ("overdue wait", "test_server"), ("wrong result", "test_wrong"),
    ], report  # fmt: skip


def test_the_seed_is_printed_at_the_start_and_at_the_end(report: str) -> None:
    """GU-20."""
    seeds = re.findall(r"SEED=(\d+)", report)
    assert (len(seeds), len(set(seeds))) == (2, 1), report
