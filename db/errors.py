"""Errors of the database, in hookwire's own terms. asyncpg's exceptions end in ``db.pool``.

::

    DatabaseError
    ├── Unavailable        no connection, or none in time: nothing was done
    │   ├── TooManyConnections   its server runs and has none left for us
    │   ├── CannotServe          its server answers, and is a standby, read-only, or the primary of the past
    │   ├── PrimaryChanged       another server has taken over; the next try goes there
    │   ├── ServerTrouble        the server cannot run it now: rolled back, may be repeated
    │   └── HeldBack             the statement ran, but a required standby lacks its rows: they may not leave
    ├── OutcomeUnknown     the connection or the deadline went while a statement ran: it may have committed
    ├── Busy               a lock time-out, deadlock or serialisation failure: rolled back, may be repeated
    │   └── Overdue              it ran longer than statements may
    └── Refused            the statement's data was refused: rolled back, and a repetition would fail too

Only bad data is the caller's fault: SQLSTATE class 22, our check and NOT NULL constraints, and errors that our
own SQL raises. Every other error of the server is :class:`ServerTrouble`: a full disk, a read-only server, an I/O
error.
"""

from __future__ import annotations

__all__ = [
    "Busy",
    "CannotServe",
    "DatabaseError",
    "HeldBack",
    "OutcomeUnknown",
    "Overdue",
    "PrimaryChanged",
    "Refused",
    "ServerTrouble",
    "TooManyConnections",
    "Unavailable",
]


class DatabaseError(Exception):
    """Base of the tree above."""


class Unavailable(DatabaseError):
    """The database could not be reached, so the statement certainly did not run."""


class TooManyConnections(Unavailable):
    """The server accepts no more connections: its own limit, or that of our role or database, is reached (53300)."""


class CannotServe(Unavailable):
    """The server takes no writes from us: a standby, a read-only server or database, or the primary of the past."""


class PrimaryChanged(Unavailable):
    """Another server has taken over. Nothing was asked of it, so that owners of locks and leases step down first."""


class ServerTrouble(Unavailable):
    """The server answered that it cannot run the statement now; it was rolled back.

    ``sqlstate`` is PostgreSQL's five-character code, ``message`` its primary message, for operators only.
    """

    def __init__(self, sqlstate: str, message: str) -> None:
        super().__init__(f"{message} (SQLSTATE {sqlstate})")
        self.sqlstate = sqlstate
        self.message = message


class HeldBack(Unavailable):
    """The statement ran. What it read or wrote may not leave, because a failover could still take it back."""


class OutcomeUnknown(DatabaseError):
    """The statement was sent and no answer came: it may or may not have taken effect."""


class Busy(DatabaseError):
    """Another session holds a lock that the statement needs; the statement was rolled back."""


class Overdue(Busy):
    """The statement ran until its time-out, or another session cancelled it; it was rolled back (57014)."""


class Refused(DatabaseError):
    """The server refused the statement's data; it was rolled back.

    ``sqlstate`` is PostgreSQL's five-character code, ``message`` its primary message. ``is_ours``: our own SQL raised
    it, so the caller may see the message.
    """

    def __init__(self, sqlstate: str, message: str, *, is_ours: bool = False) -> None:
        super().__init__(f"{message} (SQLSTATE {sqlstate})")
        self.sqlstate = sqlstate
        self.message = message
        self.is_ours = is_ours
