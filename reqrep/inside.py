"""Messages between a broker and a service of its own process, such as Titanic."""

from __future__ import annotations

from typing import Final, NamedTuple

from reqrep.frames import Frames

__all__ = ["CallAnswered", "CallMade", "ReplyGiven", "RequestTaken", "split_number"]

_NUMBER_MARK: Final = b"\x00hookwire-number:"


def split_number(body: Frames) -> tuple[Frames, Frames]:
    """Split off the number of a pipelined request. Return a list of at most one frame, and the rest."""
    return (body[:1], body[1:]) if body and body[0].startswith(_NUMBER_MARK) else ([], body)


class RequestTaken(NamedTuple):
    """A client's request for a service of this process. The reply carries the same ``ticket``."""

    ticket: int
    service: bytes
    body: Frames
    user: str


class ReplyGiven(NamedTuple):
    """The reply to the request with this ticket."""

    ticket: int
    body: Frames


class CallMade(NamedTuple):
    """A call of a service by this process. The answer carries the same ``number``."""

    number: int
    service: bytes
    body: Frames
    user: str = ""


class CallAnswered(NamedTuple):
    """The answer to a call: status 200 and the reply's frames, or another status of ``mmi.call`` and the reason."""

    number: int
    status: bytes
    body: Frames
