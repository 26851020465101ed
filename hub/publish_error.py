"""The errors of :meth:`hub.publish.Publisher.publish`: the hub did not store a request's events."""

from __future__ import annotations

__all__ = ["IdempotencyConflict", "IdempotencyInFlight", "KeyBusy", "Overloaded", "PublishRefused"]


class PublishRefused(Exception):
    """The database refused the unit's data; nothing of it was stored. The text is safe to show."""


class IdempotencyConflict(Exception):
    """An idempotency key was used before on its topic with other contents; nothing of the unit was stored."""


class IdempotencyInFlight(Exception):
    """The transaction of the first unit with an idempotency key is still open; nothing of this unit was stored."""


class KeyBusy(Exception):
    """Another transaction holds an ordering key of the unit for longer than the limit; nothing was stored."""


class Overloaded(Exception):
    """More units wait than the limit allows; nothing was stored."""
