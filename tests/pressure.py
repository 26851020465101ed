"""`make pressure`: the suite in an order by seed, on two cores beside a busy loop; the list of what failed.

A plugin for `-p tests.pressure`. What is shuffled: the shares that go to one process (a file, or the pipeline's files
together), and the tests in each file. A file's tests stay together and in one process.
"""

import os
import random
import subprocess
import sys
from collections.abc import Collection, Generator, Iterable
from typing import Any, TypeVar

import pytest

from tests.overdue import is_overdue, reason
from tests.shares import share

_T = TypeVar("_T")
_CORES = 2
# It ends with the process that started it, however that ends.
_BUSY = "import os, sys\nwhile os.getppid() == int(sys.argv[1]): pass"

_loop = pytest.StashKey[subprocess.Popen[bytes]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, default=None, help="the order of the tests (default: one at random)")


def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed, and load the cores, which the processes of xdist inherit."""
    if workerinput := getattr(config, "workerinput", None):
        config.option.seed = workerinput["seed"]
        return
    if config.option.seed is None:
        config.option.seed = random.randrange(10**6)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:_CORES])
    config.stash[_loop] = subprocess.Popen([sys.executable, "-c", _BUSY, str(os.getpid())])
    config.pluginmanager.register(_AtOnce(config))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Hand the seed to a process of xdist; all of them need the same order."""
    node.workerinput["seed"] = node.config.option.seed


def pytest_unconfigure(config: pytest.Config) -> None:
    if loop := config.stash.get(_loop, None):
        loop.kill()
        loop.wait()


def pytest_report_header(config: pytest.Config) -> str:
    return f"pressure: SEED={config.option.seed}, on cores {sorted(os.sched_getaffinity(0))} beside a busy loop"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items[:] = shuffled(items, config.option.seed)


def shuffled(items: Iterable[pytest.Item], seed: int) -> list[pytest.Item]:
    """Return shares in an order by seed, the files of each in such an order, and the tests of each file."""
    chance = random.Random(seed)
    shares: dict[str, dict[str, list[pytest.Item]]] = {}
    for item in items:
        shares.setdefault(share(item.nodeid), {}).setdefault(item.nodeid.partition("::")[0], []).append(item)
    return [
        item
        for files in _shuffled(shares.values(), chance)
        for tests in _shuffled(files.values(), chance)
        for item in _shuffled(tests, chance)
    ]


def _shuffled(things: Collection[_T], chance: random.Random) -> list[_T]:
    return chance.sample(list(things), len(things))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Judge the error where it is at hand: the report that reaches the terminal holds its text only."""
    report = yield
    if call.excinfo is not None:
        report.user_properties.append(("overdue", is_overdue(call.excinfo.value)))
    return report


class _AtOnce:
    """Prints what failed when it has failed: the rest of the run takes most of an hour."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            terminal: Any = self._config.pluginmanager.get_plugin("terminalreporter")
            terminal.write_line(f"\nfailed: {_kind(report)}  {reason(report)}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """List what failed, a wrong result before an overdue wait."""
    failed = [report for kind in ("failed", "error") for report in terminalreporter.stats.get(kind, [])]
    lines = sorted((f"{_kind(report)}  {reason(report)}" for report in failed), reverse=True)
    terminalreporter.section(f"pressure: {len(lines)} failed in the order of SEED={config.option.seed}")
    for line in lines:
        terminalreporter.write_line(line)


def _kind(report: pytest.TestReport) -> str:
    """A file that cannot be read, and a process that crashed, have no such property."""
    return "overdue wait" if dict(getattr(report, "user_properties", ())).get("overdue") else "wrong result"
