"""What each protocol machine of this package takes and returns: ``(now, frames) -> (frames, events)``.

A machine knows neither sockets nor clocks. Times are monotonic seconds and come from the caller.
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
    """Close the present socket, open a new one and connect it to the endpoint, before anything is sent."""

    endpoint: str


@dataclass(frozen=True, slots=True)
class Leave:
    """Close the present socket; nothing that arrives at it later may be delivered. ``last`` is sent before."""

    last: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Answered:
    """The reply to the call with this number. ``source``: the server that sent it, where the protocol tells."""

    number: int
    body: Frames
    source: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the reply; more follow (18/MDP)."""

    number: int
    body: Frames


@dataclass(frozen=True, slots=True)
class GaveUp:
    """The call with this number ends without a reply."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class Run:
    """Run the handler. ``ticket`` belongs to this request and goes back with the reply."""

    ticket: int
    body: Frames


@dataclass(frozen=True, slots=True)
class Stray:
    """A message was dropped, for this reason."""

    reason: str


Event = Connect | Leave | Answered | Part | GaveUp | Run | Stray


class Step(NamedTuple):
    """Result of one step. Events come first: a :class:`Connect` opens the socket that the frames go to."""

    frames: list[Frames]
    events: list[Event]


class Machine(Protocol):
    """A machine with one connection."""

    def receive(self, now: float, frames: Frames) -> Step:
        """Take a message."""

    def tick(self, now: float) -> Step:
        """Do what is due."""

    def deadline(self) -> float | None:
        """Return when :meth:`tick` has work to do, or None."""


class ServingMachine(Machine, Protocol):
    """A machine of a worker: it gets requests and sends replies."""

    @property
    def is_busy(self) -> bool:
        """Whether a request is in progress."""

    def start(self, now: float) -> Step:
        """Connect and register."""

    def reply(self, now: float, ticket: int, body: Frames) -> Step:
        """Send the reply of a request."""

    def partial(self, now: float, ticket: int, body: Frames) -> Step:
        """Send a part of the reply. Raise ValueError where the protocol has none."""

    def abandon(self, now: float, ticket: int) -> Step:
        """End a request without a reply."""

    def stop(self) -> Step:
        """Leave."""


@dataclass(slots=True)
class Outbox:
    """Frames and events of the step in progress."""

    frames: list[Frames] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def take(self) -> Step:
        """Return the step and start the next one."""
        step = Step(self.frames, self.events)
        self.frames, self.events = [], []
        return step
