"""Messages between a broker and a service of its own process, such as Titanic."""

from __future__ import annotations

from typing import NamedTuple

from reqrep.frames import Frames

__all__ = ["CallAnswered", "CallMade", "ReplyGiven", "RequestTaken"]


class RequestTaken(NamedTuple):
    """A client's request for a service of this process. ``ticket`` goes back with the reply."""

    ticket: int
    service: bytes
    body: Frames
    user: str


class ReplyGiven(NamedTuple):
    """The reply to a request, by its ticket."""

    ticket: int
    body: Frames


class CallMade(NamedTuple):
    """A call of a service by this process, with a number for its answer."""

    number: int
    service: bytes
    body: Frames
    user: str = ""


class CallAnswered(NamedTuple):
    """The answer to a call: 200 and the frames of the reply, or another status of ``mmi.call`` and the reason."""

    number: int
    status: bytes
    body: Frames
