"""Source: where a leasing worker gets its work, and how that work is settled.

The worker reports events: ``failed``, ``claim_failed``, ``settle_failed``, ``settle_refused``,
``settled_late``, ``outcome_lost``, ``extend_failed``, ``handler_over`` or ``handler_left``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from hookwire.slots import WARNINGS

__all__ = ["Report", "Source", "log_of"]

W = TypeVar("W")
Report: TypeAlias = Callable[[str, Any, str], None]
"""Called with the name of an event, the work or None, and the reason of a failure."""
_TEXTS: Final = {
    **WARNINGS,
    "settle_refused": "%s cannot be settled; its claim ends with its lease",
    "outcome_lost": "%s could not be settled in time; its claim ends with its lease",
}
_LOG = logging.getLogger("hookwire.jobs")


class Source(Protocol[W]):
    """Work that is leased. Errors of the connection are retried by the worker (:mod:`hookwire.jobs.failure`)."""

    async def claim(self, most: int) -> list[W]:
        """Claim and return at most ``most`` pieces of work."""
        ...

    async def succeed(self, done: Sequence[tuple[W, Any]]) -> list[W]:
        """Settle work whose handlers returned, with the results. Return the work that was not held any more."""
        ...

    async def fail(self, work: W, error: BaseException) -> bool:
        """Settle work whose handler raised. Return whether it was still held."""
        ...

    async def release(self, held: Sequence[W]) -> None:
        """Return work without costing an attempt."""
        ...

    async def extend(self, held: Sequence[W]) -> list[W]:
        """Extend leases. Return the work whose handlers must be cancelled, such as work that is not held any more."""
        ...

    async def listen(self, wake: Callable[[], None]) -> None:
        """Call ``wake`` when there may be work, until cancelled. Return if nothing tells of work."""
        ...


def log_of(name_of: Callable[[Any], str]) -> Report:
    """Return a report to the logger ``hookwire.jobs``: warnings about single pieces of work."""

    def report(event: str, work: Any, reason: str) -> None:
        if event in _TEXTS:
            _LOG.warning(_TEXTS[event] + (": %s" if reason else "%s"), name_of(work), reason)

    return report
