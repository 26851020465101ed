"""runtime/trouble.py: what a log has of trouble that lasts."""

from __future__ import annotations

import pytest
from structlog.testing import CapturingLogger

from runtime.trouble import Trouble


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> CapturingLogger:
    found = CapturingLogger()
    monkeypatch.setattr("runtime.trouble._log", found)
    return found


def told(log: CapturingLogger) -> list[tuple[str, str, object]]:
    """Level, event and error of each line."""
    return [(call.method_name, call.args[0], call.kwargs.get("error")) for call in log.calls]


def test_trouble_is_told_when_it_begins_when_its_cause_changes_and_when_it_is_over(log: CapturingLogger) -> None:
    trouble = Trouble("relay_backs_off", "relay_goes_on")
    trouble.over(sink="kafka")
    for error in ("no answer", "no answer", "access denied", "no answer"):
        trouble.tell(OSError(error), sink="kafka")
    trouble.over(sink="kafka")
    trouble.over(sink="kafka")
    trouble.tell(OSError("no answer"), sink="kafka")
    again = ("debug", "relay_backs_off", "no answer")
    assert told(log) == [
        ("warning", "relay_backs_off", "no answer"), again, ("warning", "relay_backs_off", "access denied"), again,
        ("info", "relay_goes_on", None), ("warning", "relay_backs_off", "no answer"),
    ]  # fmt: skip


def test_errors_that_differ_each_time_do_not_fill_the_log(log: CapturingLogger) -> None:
    trouble = Trouble("relay_backs_off", "relay_goes_on")
    for number in range(100):
        trouble.tell(OSError(f"no answer to request {number}"), sink="kafka")
    assert len([level for level, _, _ in told(log) if level == "warning"]) == 8


def test_trouble_that_lasts_is_told_again_with_the_reason_that_it_has_by_then(
    log: CapturingLogger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight reasons are enough for a while, but the ninth may be the one that only a person can resolve."""
    trouble = Trouble("relay_backs_off", "relay_goes_on")
    for number in range(9):
        trouble.tell(OSError(f"no answer to request {number}"), sink="kafka")
    monkeypatch.setattr("runtime.trouble._TELL_AGAIN_SECONDS", 0.0)
    trouble._told_until = 0.0
    for _ in "12":
        trouble.tell(OSError("restored or cloned"), sink="kafka")
    assert [level for level, _, _ in told(log)] == ["warning"] * 8 + ["debug"] + ["warning"] * 2
