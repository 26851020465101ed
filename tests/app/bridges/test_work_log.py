"""The log of `hookwire work`: its events keep their names."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from app.bridges.work_log import report_of

WORK = SimpleNamespace(id=7, kind="k", attempt=2)


@pytest.mark.parametrize(
    ("noun", "event", "name"),
    [
        ("job", "claim_failed", "job_claim_failed"),
        ("job", "failed", "job_failed"),
        ("job", "settled_late", "job_settled_late"),
        ("message", "claim_failed", "receive_failed"),
        ("message", "settle_refused", "settle_refused"),
        ("message", "outcome_lost", "message_outcome_lost"),
        ("task", "failed", "task_failed"),
        ("task", "settle_failed", "task_finish_failed"),
        ("task", "extend_failed", "task_beat_failed"),
    ],
)
def test_an_event_is_named_by_its_work_and_what_happened(noun: str, event: str, name: str) -> None:
    assert [(line["event"], line[noun]) for line in logged(noun, event)] == [(name, 7)]


def test_a_message_that_is_rejected_is_not_logged() -> None:
    assert logged("message", "failed") == []


def logged(noun: str, event: str) -> list[Any]:
    with capture_logs() as lines:
        report_of(noun)(event, WORK, "why")
    return [*lines]
