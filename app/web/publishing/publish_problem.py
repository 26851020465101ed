"""PublishProblem: the answer to a publish whose topic, or which the database, or the wait for it, has refused."""

from __future__ import annotations

from app.web.problem import Problem
from db.errors import OutcomeUnknown, Unavailable
from db.names import TooManyNames
from hub.publish import IdempotencyConflict, IdempotencyInFlight, KeyBusy, Overloaded, PublishRefused
from hub.topics import Topics, UnknownTopic

__all__ = ["PUBLISH_ERRORS", "admit_topic", "problem_of_publish"]

PUBLISH_ERRORS = (
    IdempotencyConflict, IdempotencyInFlight, KeyBusy, Overloaded, PublishRefused, OutcomeUnknown, Unavailable,
)  # fmt: skip
"""What :meth:`hub.publish.Publisher.publish` raises."""


async def admit_topic(topics: Topics, topic: str, key_id: str | None = None) -> None:
    """Make sure that a topic exists. Raises ``Problem``: too-many-names, unknown-topic; and ``DatabaseError``.

    ``key_id`` is the publisher's API key.
    """
    try:
        await topics.admit(topic, key_id)
    except TooManyNames as error:
        raise Problem("too-many-names", str(error)) from None
    except UnknownTopic:
        raise Problem("unknown-topic", f"There is no topic {topic}, and creating topics is turned off.") from None


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
