"""PublishProblem: the answer to a publish that the database, or the wait for it, has refused."""

from __future__ import annotations

from app.web.problem import Problem
from db.errors import OutcomeUnknown, Unavailable
from hub.publish import IdempotencyConflict, IdempotencyInFlight, KeyBusy, Overloaded, PublishRefused

__all__ = ["PUBLISH_ERRORS", "problem_of_publish"]

PUBLISH_ERRORS = (
    IdempotencyConflict, IdempotencyInFlight, KeyBusy, Overloaded, PublishRefused, OutcomeUnknown, Unavailable,
)  # fmt: skip
"""What :meth:`hub.publish.Publisher.publish` raises."""


def problem_of_publish(error: Exception) -> Problem:
    """Return the problem that tells a publisher of one of ``PUBLISH_ERRORS``."""
    if isinstance(error, IdempotencyConflict):
        return Problem("idempotency-key-reused")
    if isinstance(error, IdempotencyInFlight):
        return Problem("idempotency-key-in-flight")
    if isinstance(error, KeyBusy):
        return Problem("busy", "Another transaction holds this ordering key; nothing was stored.")
    if isinstance(error, Overloaded):
        return Problem("busy", "More events wait to be stored than this process accepts; nothing was stored.")
    if isinstance(error, PublishRefused):
        return Problem("bad-request", str(error), status=422)
    return Problem("outcome-unknown" if isinstance(error, OutcomeUnknown) else "database-unavailable")
