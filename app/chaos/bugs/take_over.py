"""Seeded bugs of take-over: a death without a proof, and a membership that is trusted too long."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from app.bridges import claim_record, members
from app.bridges.membership import DeliveryMembership
from app.chaos.bugs.replacing import replace

__all__ = ["TAKE_OVER_BUGS"]


def _death_by_pid() -> None:
    """In a new container the process has the number of the old one, so the number proves every other process dead."""

    def judge(descriptor: int) -> bool:
        return descriptor >= 0

    replace(claim_record, "_lock", "(descriptor)", lambda _: judge)


def _free_lock_as_death() -> None:
    """After a reconnect all locks may be free, and their holders live."""
    replace(members._Gone, "has_waited", "(self, now)", lambda _: lambda self, now: now >= self.since)


def _trust_past_limit() -> None:
    replace(DeliveryMembership, "holds", "(self)", lambda _: lambda self: self is not None)


TAKE_OVER_BUGS: Final[Mapping[str, Callable[[], None]]] = MappingProxyType(
    {
        "death-by-pid": _death_by_pid,
        "free-lock-as-death": _free_lock_as_death,
        "trust-past-limit": _trust_past_limit,
    }
)
