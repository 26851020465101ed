"""Election: the port that decides who relays for a sink. Detection only; the fence is at the resource (RO-04).

``reign`` yields a term for as long as this process leads and raises :class:`Deposed` inside the block when it no
longer does. Adapters: :mod:`relay.lease` (PostgreSQL), :mod:`relay.memory` (tests).
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from relay.sink import Term

__all__ = ["Deposed", "Election"]


class Deposed(Exception):
    """This process no longer leads. Stop at once and stand again; never a crash."""


class Election(Protocol):
    """One seat: a (sink, partition group)."""

    async def campaign(self) -> Term:
        """Wait until elected; returns the new term. Raises ``db.errors.DatabaseError`` when it can't be asked."""
        ...

    def reign(self, term: Term) -> AbstractAsyncContextManager[None]:
        """Keep the seat while the block runs; :class:`Deposed` ends the block. Gives the seat up on a clean exit."""
        ...
