"""Every scenario has a seed; a failure says how to run it again with the same one (OR-07)."""

import os
import secrets
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import IO

import pytest

import app
from app.chaos.child import Child
from tests.faults.process_pool import ProcessPool

_SEED = "HOOKWIRE_TEST_SEED"
_seed = pytest.StashKey[int]()


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """Of HOOKWIRE_TEST_SEED, else a new one."""
    number = int(os.environ.get(_SEED) or secrets.randbelow(1_000_000))
    request.node.stash[_seed] = number
    print(f"seed {number}")
    return number


_POOL = ProcessPool()
_exec = Child._spawn


async def spawn(child: Child, environment: Mapping[str, str], log: IO[bytes]) -> object:
    """From the process pool, but for another version's code or with variables for the loader. Neither outlives us."""
    if not child.environment and child.tree == Path(app.__path__[0]).parent:
        return await _POOL.fork(child._seeded_bug, child._command, child._folder, environment, log)
    return await _exec(child, environment, log)


@pytest.fixture(autouse=True)
def spawned_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """Children come as :func:`spawn` says."""
    monkeypatch.setattr(Child, "_spawn", spawn)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Function) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    folder = item.funcargs.get("tmp_path")
    if report.failed and isinstance(folder, Path):
        for log in sorted(folder.glob("*.log")):
            report.sections.append((log.name, "\n".join(log.read_text(errors="replace").splitlines()[-40:])))
    if report.failed and _seed in item.stash:
        report.sections.append(("again", f"{_SEED}={item.stash[_seed]} python -m pytest '{item.nodeid}'"))
    return report
