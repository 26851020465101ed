"""The log of ``hookwire work``: the reports of its worker, by the event's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import structlog

__all__ = ["report_of"]

_log = structlog.get_logger(__name__)
_NAMES: Final = {
    "receive_failed": ("message", "claim_failed"),
    "settle_refused": ("message", "settle_refused"),
    "settle_failed": ("message", "settle_failed"),
    "extend_failed": ("message", "extend_failed"),
    "task_finish_failed": ("task", "settle_failed"),
    "task_beat_failed": ("task", "extend_failed"),
}
"""Events that are not named by the sort of work and the report."""
_RETURNS: Final = {"job": "the maintainer returns the job", "message": "the reaper returns the message",
                   "task": "the cleaner recovers the task"}  # fmt: skip


def report_of(noun: str) -> Callable[[str, Any, str], None]:
    """Return the report of a worker of jobs, messages or tasks: the event, the work or None, and the reason."""
    names = {event: name for name, (of, event) in _NAMES.items() if of == noun}

    def report(event: str, work: Any, reason: str) -> None:
        about: dict[str, Any] = {noun: work.id} if work is not None else {}
        if event == "failed":
            if noun != "message":
                _log.info(f"{noun}_failed", **about, kind=work.kind, attempt=work.attempt, reason=reason[:200])
            return
        if event in ("handler_left", "outcome_lost"):
            about["hint"] = f"the lease ends by itself; {_RETURNS[noun]}"
        _log.warning(names.get(event, f"{noun}_{event}"), **about, error=reason or None)

    return report
