"""Primary: the server that the sessions of a process follow, from one primary to the next.

::

    session --opens--> admit: a standby, a read-only or an older server is refused
                         |
                         +--> another server than before: every older session is over, and owners of locks step down
    session --fails--> hear: "read-only": every older session is over; a lost connection: those of the pool are

A session stays open where its server becomes a standby, or where the database's name now leads to another server. It
answers, and cannot serve. So each session has the *generation* in which it was opened, and one with an older generation
than the primary's is not lent again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol
from weakref import WeakSet

from db.address import ServerAddress
from db.bound import lost_its_server, takes_no_writes
from db.errors import CannotServe, DatabaseError, PrimaryChanged
from db.numbers import Numbers

__all__ = ["Primary", "SeparateSession", "ServerIdentity"]

_LOOK_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """A server's identity: its cluster's identifier, and the timeline that rises at each promotion."""

    system: int
    timeline: int

    def __str__(self) -> str:
        return f"system {self.system} timeline {self.timeline}"


class SeparateSession(Protocol):
    """A session outside of the pool, such as one that holds a lock."""

    generation: int

    def end(self) -> None:
        """Close it now; its owner notices."""
        ...


class Primary:
    """The primary of one process and database. ``address`` is where it answered last: sessions ask there first.

    ``numbers``, in a process that draws numbers, sets sequences forward before a session is lent.
    """

    def __init__(self) -> None:
        self.generation = 0
        self.numbers: Numbers | None = None
        self.address: tuple[ServerAddress | None, str | None] | None = None
        self._identity: ServerIdentity | None = None
        self._former: set[int] = set()
        self._sessions: WeakSet[SeparateSession] = WeakSet()
        self._on_change: list[Callable[[], None]] = []
        self._looked_at = time.monotonic()

    def on_change(self, step_down: Callable[[], None]) -> None:
        """Call this at once when another server has taken over, before anything is asked of it."""
        self._on_change.append(step_down)

    def attach(self, session: SeparateSession) -> None:
        """End this session, too, when its generation is over."""
        self._sessions.add(session)

    def hear(self, error: DatabaseError, generation: int) -> None:
        """Take an error of a session of this generation: it may show that its server is no primary any more.

        Where only the connection was lost, sessions outside of the pool stay: each learns it by its own socket.
        """
        if takes_no_writes(error):
            self._leave(generation)
        elif lost_its_server(error):
            self.generation = max(self.generation, generation + 1)

    def admit(self, found: ServerIdentity | None) -> None:
        """Take the server of a new session, None where it does not show its identity.

        Raise :class:`CannotServe` for a server of the past. Raise :class:`PrimaryChanged` once where another server
        has taken over, so that no statement runs before the owners of locks and leases have stepped down.
        """
        known = self._identity
        if found is None or found == known:
            return
        self._identity = found if known is None else self._later(known, found)
        if known is None:
            return
        self._leave(self.generation)
        for step_down in self._on_change:
            step_down()
        raise PrimaryChanged(f"another server has taken over as the primary (timeline {found.timeline})")

    def _later(self, known: ServerIdentity, found: ServerIdentity) -> ServerIdentity:
        """Return the server that was found; raise :class:`CannotServe` if it was the primary before."""
        if found.system in self._former or (found.system == known.system and found.timeline < known.timeline):
            raise CannotServe(
                f"the server is at timeline {found.timeline} of system {found.system}, and this process has seen "
                f"timeline {known.timeline} of system {known.system}: it was the primary before. If it was restored on "
                "purpose, restart hookwire"
            )
        if found.system != known.system:
            self._former.add(known.system)
        return found

    def wants_a_look(self) -> bool:
        """Return whether it is time to open a session anew, to see which server is the primary; True once each time.

        A Unix socket always leads to the same server.
        """
        now = time.monotonic()
        is_by_name = self.address is not None and self.address[1] is not None
        if not is_by_name or now - self._looked_at < _LOOK_SECONDS:
            return False
        self._looked_at = now
        return True

    def _leave(self, generation: int) -> None:
        """End everything that was opened up to this generation."""
        self.generation = max(self.generation, generation + 1)
        for session in [one for one in self._sessions if one.generation <= generation]:
            session.end()
