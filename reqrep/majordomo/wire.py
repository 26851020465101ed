"""The messages of 7/MDP (0.1) and 18/MDP (0.2) on a ROUTER, where the first frame is the peer's routing id.

The second frame decides the dialect: an empty frame means 0.1; ``MDPC02`` or ``MDPW02`` means 0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from reqrep.frames import Frames

__all__ = ["MDP_01", "MDP_02", "Command", "Dialect", "MessageKind", "parse"]

_EMPTY: Final = b""
_new: Final = tuple.__new__  # makes a Command in half the time of its class


class MessageKind(IntEnum):
    """The command of a message. INVALID: malformed. UNEXPECTED: well-formed, but only brokers may send it."""

    REQUEST = 0
    READY = 1
    PARTIAL = 2
    REPLY = 3
    HEARTBEAT = 4
    DISCONNECT = 5
    INVALID = 6
    UNEXPECTED = 7


# A look-up of a member in its class takes as long as the whole check of a frame in Python 3.11. Names here do not.
_REQUEST: Final = MessageKind.REQUEST
_READY: Final = MessageKind.READY
_PARTIAL: Final = MessageKind.PARTIAL
_REPLY: Final = MessageKind.REPLY
_INVALID: Final = MessageKind.INVALID
_UNEXPECTED: Final = MessageKind.UNEXPECTED


@dataclass(frozen=True, slots=True, eq=False)
class Dialect:
    """The bytes of one version of the protocol. ``lead`` precedes each header; 0.1 has no commands of clients."""

    name: str
    lead: tuple[bytes, ...]
    client_header: bytes
    worker_header: bytes
    worker_kinds: dict[bytes, MessageKind]
    request: bytes
    heartbeat: bytes
    disconnect: bytes
    client_request: tuple[bytes, ...] = ()
    client_partial: tuple[bytes, ...] = ()
    client_final: tuple[bytes, ...] = ()

    def to_client(self, client: bytes, service: bytes, body: Frames) -> Frames:
        """Build the (last) REPLY to a client."""
        return [client, *self.lead, self.client_header, *self.client_final, service, *body]

    def partial_to_client(self, client: bytes, service: bytes, body: Frames) -> Frames:
        """Build a PARTIAL to a client (0.2 only)."""
        return [client, *self.lead, self.client_header, *self.client_partial, service, *body]

    def to_worker(self, worker: bytes, client: bytes, body: Frames) -> Frames:
        """Build the REQUEST to a worker."""
        return [worker, *self.lead, self.worker_header, self.request, client, _EMPTY, *body]

    def heartbeat_to(self, worker: bytes) -> Frames:
        """Build a HEARTBEAT."""
        return [worker, *self.lead, self.worker_header, self.heartbeat]

    def disconnect_to(self, worker: bytes) -> Frames:
        """Build a DISCONNECT."""
        return [worker, *self.lead, self.worker_header, self.disconnect]


MDP_01: Final = Dialect(
    name="0.1", lead=(_EMPTY,), client_header=b"MDPC01", worker_header=b"MDPW01",
    worker_kinds={
        b"\x01": MessageKind.READY, b"\x02": MessageKind.UNEXPECTED, b"\x03": MessageKind.REPLY,
        b"\x04": MessageKind.HEARTBEAT,
        b"\x05": MessageKind.DISCONNECT,
    },
    request=b"\x02", heartbeat=b"\x04", disconnect=b"\x05",
)  # fmt: skip
MDP_02: Final = Dialect(
    name="0.2", lead=(), client_header=b"MDPC02", worker_header=b"MDPW02",
    worker_kinds={
        b"\x01": MessageKind.READY, b"\x02": MessageKind.UNEXPECTED, b"\x03": MessageKind.PARTIAL,
        b"\x04": MessageKind.REPLY,
        b"\x05": MessageKind.HEARTBEAT, b"\x06": MessageKind.DISCONNECT,
    },
    request=b"\x02", heartbeat=b"\x05", disconnect=b"\x06",
    client_request=(b"\x01",), client_partial=(b"\x02",), client_final=(b"\x03",),
)  # fmt: skip


class Command(NamedTuple):
    """One message of a peer. ``name`` is the service of a REQUEST or READY, or the client of a PARTIAL or REPLY."""

    kind: MessageKind
    sender: bytes
    dialect: Dialect
    name: bytes = b""
    body: Frames = []  # noqa: RUF012 - never changed
    problem: str = ""


def parse(frames: Frames) -> Command:
    """Return the command in a message from a ROUTER. A malformed message gives the kind INVALID."""
    if len(frames) < 2:
        return _invalid(frames, MDP_01, "too-few-frames")
    if frames[1] == _EMPTY:
        dialect, header = MDP_01, 2
    else:
        dialect, header = MDP_02, 1
    if len(frames) <= header:
        return _invalid(frames, dialect, "too-few-frames")
    if frames[header] == dialect.client_header:
        return _from_client(frames, dialect, header + 1)
    if frames[header] == dialect.worker_header:
        return _from_worker(frames, dialect, header + 1)
    return _invalid(frames, dialect, "unknown-header")


def _from_client(frames: Frames, dialect: Dialect, start: int) -> Command:
    if dialect.client_request:
        if frames[start : start + 1] != [*dialect.client_request]:
            return _invalid(frames, dialect, "unknown-command")
        start += 1
    if len(frames) < start + 2:
        return Command(_INVALID, frames[0], dialect, b"".join(frames[start:]), problem="no-body")
    return _new(Command, (_REQUEST, frames[0], dialect, frames[start], frames[start + 1 :], ""))


def _from_worker(frames: Frames, dialect: Dialect, start: int) -> Command:
    kind = dialect.worker_kinds.get(frames[start], _INVALID) if len(frames) > start else _INVALID
    if kind is _REPLY or kind is _PARTIAL:
        if len(frames) < start + 4 or frames[start + 2] != _EMPTY:
            return _invalid(frames, dialect, "bad-envelope")
        return _new(Command, (kind, frames[0], dialect, frames[start + 1], frames[start + 3 :], ""))
    if kind is _INVALID:
        return _invalid(frames, dialect, "unknown-command")
    arguments = len(frames) - start - 1
    if kind is not _UNEXPECTED and arguments != (kind is _READY):
        return _invalid(frames, dialect, "wrong-frame-count")
    return Command(kind, frames[0], dialect, frames[start + 1] if kind is _READY else b"")


def _invalid(frames: Frames, dialect: Dialect, problem: str) -> Command:
    return Command(_INVALID, frames[0] if frames else b"", dialect, problem=problem)
