"""Every scenario has a seed; a failure says how to run it again with the same one (OR-07)."""

import os
import secrets
from collections.abc import Iterator

import pytest

_SEED = "HOOKWIRE_TEST_SEED"
_seed = pytest.StashKey[int]()


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """Of HOOKWIRE_TEST_SEED, else a new one."""
    number = int(os.environ.get(_SEED) or secrets.randbelow(1_000_000))
    request.node.stash[_seed] = number
    print(f"seed {number}")
    return number


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    if report.failed and "tmp_path" in item.funcargs:
        for log in sorted(item.funcargs["tmp_path"].glob("*.log")):
            report.sections.append((log.name, "\n".join(log.read_text(errors="replace").splitlines()[-40:])))
    if report.failed and _seed in item.stash:
        report.sections.append(("again", f"{_SEED}={item.stash[_seed]} python -m pytest '{item.nodeid}'"))
    return report
