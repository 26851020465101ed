"""The interface of the state machines: ``(now, frames) -> (frames, events)``.

A machine uses neither sockets nor clocks. The caller passes the time, in monotonic seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

__all__ = [
    "Answered",
    "Connect",
    "Event",
    "Frames",
    "GaveUp",
    "Leave",
    "Machine",
    "Outbox",
    "Part",
    "Run",
    "ServingMachine",
    "Step",
    "Stray",
]

Frames = list[bytes]


@dataclass(frozen=True, slots=True)
class Connect:
    """Before sending, close the present socket and connect a new socket to the endpoint."""

    endpoint: str


@dataclass(frozen=True, slots=True)
class Leave:
    """Send ``last``, if it is set, then close the present socket. Messages that arrive later must be dropped."""

    last: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Answered:
    """The reply to the call with this number. ``source``: the server that sent it, if the protocol says so."""

    number: int
    body: Frames
    source: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the reply, which is not the last (18/MDP)."""

    number: int
    body: Frames


@dataclass(frozen=True, slots=True)
class GaveUp:
    """The call with this number ended without a reply."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class Run:
    """Run the handler. Its reply must carry the same ``ticket``."""

    ticket: int
    body: Frames


@dataclass(frozen=True, slots=True)
class Stray:
    """A message was dropped for this reason."""

    reason: str


Event = Connect | Leave | Answered | Part | GaveUp | Run | Stray


class Step(NamedTuple):
    """The result of one step. Handle events first: a :class:`Connect` opens the socket for the frames."""

    frames: list[Frames]
    events: list[Event]


class Machine(Protocol):
    """A state machine with one connection."""

    def receive(self, now: float, frames: Frames) -> Step:
        """Handle a message."""

    def tick(self, now: float) -> Step:
        """Do the work whose deadline has passed."""

    def deadline(self) -> float | None:
        """Return when :meth:`tick` has work to do, or None."""


class ServingMachine(Machine, Protocol):
    """The state machine of a worker, which gets requests and sends replies."""

    @property
    def is_busy(self) -> bool:
        """Return whether a request is in progress."""

    @property
    def has_parts(self) -> bool:
        """Return whether the protocol has partial replies."""

    def start(self, now: float) -> Step:
        """Connect and register."""

    def reply(self, now: float, ticket: int, body: Frames) -> Step:
        """Send the reply of a request."""

    def partial(self, now: float, ticket: int, body: Frames) -> Step:
        """Send a part of the reply. Raise ValueError if the protocol has no partial replies."""

    def abandon(self, now: float, ticket: int) -> Step:
        """End a request without a reply."""

    def stop(self) -> Step:
        """Leave the broker or queue."""


@dataclass(slots=True)
class Outbox:
    """The frames and events of the present step."""

    frames: list[Frames] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def take(self) -> Step:
        """Return the present step and start the next step."""
        step = Step(self.frames, self.events)
        self.frames, self.events = [], []
        return step
