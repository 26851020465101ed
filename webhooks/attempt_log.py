"""One wide log line for each attempt of the sample; docs/reference/log-lines.md names its fields."""

from __future__ import annotations

import structlog

from event.timestamp import format_timestamp
from runtime.sample import EventSample
from webhooks.result import Result

__all__ = ["AttemptLog"]

_log = structlog.get_logger(__name__)


class AttemptLog:
    """Writes the lines. ``sample`` chooses by the event, so that all attempts of an event are logged or none."""

    def __init__(self, sample: EventSample) -> None:
        self._sample = sample

    def write(self, result: Result) -> None:
        """Log an attempt whose result is stored. A delivery that ended without an attempt has no line."""
        if result.attempt is None or not self._sample.takes(result.event_id):
            return
        outcome, decision = result.outcome, result.decision
        _log.info(
            "attempt_ended",
            **result.log_fields(),
            outcome=outcome.kind,
            status=outcome.status,
            detail=outcome.detail,
            action=decision.action,
            retry_seconds=_rounded(decision.retry_seconds) if decision.action == "retry" else None,
            address=outcome.address,
            started_at=format_timestamp(result.started_at),
            connect_seconds=_rounded(outcome.connect_seconds),
            first_byte_seconds=_rounded(outcome.first_byte_seconds),
            total_seconds=_rounded(outcome.total_seconds),
        )


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)
