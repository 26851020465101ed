"""relay/trouble.py: what a log has of a broker that is away for an hour."""

from __future__ import annotations

from structlog.testing import capture_logs

from relay.trouble import Trouble


def test_trouble_is_told_when_it_begins_when_its_cause_changes_and_when_it_is_over() -> None:
    trouble = Trouble()
    with capture_logs() as lines:
        trouble.over(sink="kafka")
        for error in ("no answer", "no answer", "access denied", "no answer"):
            trouble.tell(OSError(error), sink="kafka")
        trouble.over(sink="kafka")
        trouble.over(sink="kafka")
        trouble.tell(OSError("no answer"), sink="kafka")
    told = [(line["event"], line["log_level"], line.get("error")) for line in lines]
    again = ("relay_backs_off", "debug", "no answer")
    assert told == [
        ("relay_backs_off", "warning", "no answer"), again, ("relay_backs_off", "warning", "access denied"), again,
        ("relay_goes_on", "info", None), ("relay_backs_off", "warning", "no answer"),
    ]  # fmt: skip


def test_errors_that_differ_each_time_do_not_fill_the_log() -> None:
    trouble = Trouble()
    with capture_logs() as lines:
        for number in range(100):
            trouble.tell(OSError(f"no answer to request {number}"), sink="kafka")
    assert len([line for line in lines if line["log_level"] == "warning"]) == 8
