"""Standby fence: nothing leaves the hub that a failover could take back.

::

    mark --> rows are read --> look: their position --> look again --> rows leave
      |                                                  |
      |                                                  '-- until the required standbys have flushed it
      '-- another server, or another timeline since then: the rows are not handed out

A commit whose wait for the standby was cancelled is visible on the primary before a standby has it. So is one that
waits for none. A failover forgets it. Whoever was told of it would know an event that the new primary does not know.

The position is read after the rows. So it is not below the position of any commit that the rows come from. One look
serves all who wait.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from db.errors import DatabaseError, HeldBack

__all__ = ["FenceMark", "Required", "StandbyFence", "Standbys"]

_ANY: Final = re.compile(r"any:([1-9][0-9]?)")
_NAMES: Final = re.compile(r"names:([^,\s]{1,63}(?:,[^,\s]{1,63}){1,31})")
_TOLD_SECONDS: Final = 60.0
_GRANT: Final = "the role cannot see the standbys: GRANT pg_monitor to it"


class Standbys(NamedTuple):
    """What one look has found. ``flushed`` has the position of each connected standby, beside its name.

    ``server`` is the run of a server: its timeline, its start, and its last crash.
    """

    position: int
    flushed_here: int
    server: str
    own_name: str
    sees_all: bool
    names: tuple[str, ...]
    flushed: tuple[int, ...]
    is_managed: bool = False

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Standbys:
        """Return those of a row of ``standby_fence.look``."""
        positions = tuple(int(one) for one in row["flushed"])
        return cls(
            int(row["position"]), int(row["flushed_here"]), row["server"], row["own_name"], row["sees_all"],
            tuple(row["names"]), positions, row["is_managed"],
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Required:
    """The standbys that have to have a commit: all of ``names`` but the server itself, or any ``count``.

    A server's name is its ``cluster_name``, and a standby's is its ``application_name``. PostgreSQL takes the one for
    the other. So a list of the whole cluster is right on each server of it.
    """

    names: tuple[str, ...] = ()
    count: int = 0

    @classmethod
    def parse(cls, text: str) -> Required:
        """Return what ``any:2`` or ``names:a,b,c`` says; raise ValueError for any other text."""
        if found := _ANY.fullmatch(text):
            return cls(count=int(found[1]))
        if found := _NAMES.fullmatch(text):
            return cls(names=tuple(dict.fromkeys(found[1].split(","))))
        raise ValueError("any:1, or names:a,b with the cluster_name of each server of the cluster")

    def lacking(self, standbys: Standbys, position: int) -> str:
        """Return which standby lacks the position, in words; empty: none."""
        if not standbys.sees_all:
            return _GRANT
        have = [name for name, at in zip(standbys.names, standbys.flushed, strict=True) if at >= position]
        if not self.names:
            short = self.count - len(have)
            return f"{len(have)} of {self.count} standbys have the latest commits" if short > 0 else ""
        others = [name for name in self.names if name != standbys.own_name]
        if not others:
            return "no other server is named"
        for name in others:
            if name not in standbys.names:
                return f"the standby {name} is not connected"
            if have.count(name) < standbys.names.count(name):
                return f"the standby {name} lacks the latest commits"
        return ""


class FenceMark(NamedTuple):
    """The run of the server as it was before rows were read.

    A crash takes back what was visible and not yet flushed, and then positions come again. Sessions that are lost for
    another reason change nothing.
    """

    server: str


class _Session(Protocol):
    async def fetchrow(self, name: str, *args: object) -> Mapping[str, Any] | None: ...

    async def fetchval(self, name: str, *args: object) -> Any: ...


class StandbyFence:
    """The fence of one process and database. It waits ``wait_seconds``, with ``pause_seconds`` between looks."""

    def __init__(self, required: Required, wait_seconds: float = 3.0, pause_seconds: float = 0.02) -> None:
        self._required = required
        self._wait_seconds = wait_seconds
        self._pause_seconds = pause_seconds
        self._turn = asyncio.Lock()
        self._looks = 0
        self._latest: Standbys | None = None
        self._latest_number = 0
        self._lacks = ""
        self._lacked_at = 0.0

    @property
    def lacks(self) -> str:
        """Return which standby the last wait has waited for in vain, for a minute; empty: none.

        An idle process waits for nothing, so it would not learn that the standby is back.
        """
        return self._lacks if time.monotonic() < self._lacked_at + _TOLD_SECONDS else ""

    async def mark(self, session: _Session) -> FenceMark:
        """Return the mark to take before rows are read. The first one looks at the server."""
        latest = self._latest or await self._look(session, self._looks)
        return FenceMark(latest.server)

    async def wait(self, session: _Session, mark: FenceMark) -> None:
        """Wait until the required standbys have flushed what was visible before this call.

        Raise :class:`HeldBack` where they have not in time, or where another server has taken over since the mark.
        """
        until = time.monotonic() + self._wait_seconds
        try:
            standbys = await self._look(session, self._looks)
            position = standbys.position
            while reason := self._reason(standbys, position, mark):
                if time.monotonic() >= until:
                    self._lacks, self._lacked_at = reason, time.monotonic()
                    raise HeldBack(f"held back by the standby fence: {reason}")
                looks = self._looks
                await asyncio.sleep(self._pause_seconds)
                standbys = await self._look(session, looks, position)
        except HeldBack:
            raise
        except DatabaseError as error:
            raise HeldBack(f"held back by the standby fence, which cannot look: {error}") from error
        self._lacks = ""

    def _reason(self, standbys: Standbys, position: int, mark: FenceMark) -> str:
        if standbys.server != mark.server:
            raise HeldBack("held back by the standby fence: another server may have taken over as the primary")
        return self._required.lacking(standbys, position)

    async def _look(self, session: _Session, looks: int, position: int = 0) -> Standbys:
        """Return a look that began after the first ``looks``: ours, or that of another who waits.

        A look that fails has a number, too, and leaves nothing for others.
        """
        async with self._turn:
            if self._latest is not None and self._latest_number > looks:
                return self._latest
            if self._latest is not None and self._latest.flushed_here < position:
                await session.fetchval("standby_fence.flush")
            self._looks += 1
            number = self._looks
            row = await session.fetchrow("standby_fence.look")
            assert row is not None, "a row of scalars"
            self._latest, self._latest_number = Standbys.of(row), number
            return self._latest
