"""PassedOver: a Kafka topic that fits a pattern and that the pattern does not read, with the reason."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

from runtime.counted import counted

__all__ = ["PASSED_OVER_MAX", "PassedOver", "PassedOverKind", "told_first", "unread_text"]

PassedOverKind = Literal["limit", "name", "own", "other"]

PASSED_OVER_MAX: Final = 20
"""As many are noted with their names; all are counted."""
_UNREAD: Final = ("limit", "name")
_TOLD_MAX: Final = 3


class PassedOver(NamedTuple):
    """The kinds are ``limit`` where enough topics fit already, and ``name`` where its name makes no topic of the hub. A
    topic of the hub itself has ``own``, and one that another source reads ``other``.
    """

    topic: str
    kind: PassedOverKind
    reason: str

    @property
    def is_unread(self) -> bool:
        """Return whether nobody reads it, although its records are wanted."""
        return self.kind in _UNREAD


def told_first(found: Iterable[PassedOver]) -> list[PassedOver]:
    """Return the first of them, those that nobody reads before the others."""
    return sorted(found, key=lambda one: (not one.is_unread, one.topic))[:PASSED_OVER_MAX]


def unread_text(found: Iterable[PassedOver]) -> str:
    """Return which topics nobody reads, in one line; '' if there is none."""
    unread = sorted(one for one in found if one.is_unread)
    if not unread:
        return ""
    named = [f"{one.topic}: {one.reason}" for one in unread[:_TOLD_MAX]]
    more = [f"and {len(unread) - _TOLD_MAX} more"] if len(unread) > _TOLD_MAX else []
    fit_and_are = "fits is" if len(unread) == 1 else "fit are"
    return f"{counted(len(unread), 'Kafka topic')} that {fit_and_are} not read: {'; '.join(named + more)}"
