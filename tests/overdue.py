"""Which failures are noise: waits that ran past their deadline, and nothing else (docs/adr/0025-repeated-waits.md).

On a machine that others load, a wait may end by its deadline although nothing is wrong; such a test may run once more,
and the report names it. A wrong result, seen even once, is a finding: it is never repeated.
"""

import subprocess

import httpx
import psutil
import pytest

_OVERDUE = (TimeoutError, subprocess.TimeoutExpired, psutil.TimeoutExpired, httpx.TimeoutException)


def is_overdue(error: BaseException | None) -> bool:
    """Returns whether a test was ended by nothing but deadlines of its own; in a group of errors, by deadlines all of
    them. What pytest-timeout ended is none: its clock does not run for the repetition, so a hang would hang the run.
    """
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_overdue, error.exceptions))
    return isinstance(error, _OVERDUE)


MAY_RUN_AGAIN = pytest.mark.flaky(reruns=1, condition=is_overdue, rerun_except=AssertionError)
"""For every test of a run with `--reruns`: once more after an overdue wait, never after a wrong result."""


def reason(report: pytest.TestReport) -> str:
    """Return one line: the test, and the first line of what ended it."""
    crash = getattr(report.longrepr, "reprcrash", None)
    return f"{report.nodeid}: {crash.message.splitlines()[0] if crash else 'no details'}"
