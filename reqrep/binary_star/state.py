"""The Binary Star state machine without I/O: two servers, of which one is active. Times are monotonic seconds.

own state   peer 1     peer 2     peer 3         peer 4          client, peer fresh   client, peer expired
---------   -------    -------    -----------    ------------    ------------------   --------------------
PRIMARY 1   stay       ACTIVE     PASSIVE        stay            reject               ACTIVE, serve
BACKUP 2    stay       stay       PASSIVE        stay            reject               reject
ACTIVE 3    stay       stay       dual active    stay            serve                serve
PASSIVE 4   ACTIVE     ACTIVE     stay           dual passive    reject               ACTIVE, serve
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Literal, NamedTuple

from reqrep.frames import Event, Frames, Step

__all__ = ["BinaryStar", "BinaryStarOptions", "PeerState", "Role", "Vote"]

Role = Literal["primary", "backup"]

_TELL_SECONDS = 60.0


class PeerState(IntEnum):
    """The state of a server; peers send its number. PRIMARY and BACKUP mean that the server has just started."""

    PRIMARY = 1
    BACKUP = 2
    ACTIVE = 3
    PASSIVE = 4


@dataclass(frozen=True, slots=True)
class BinaryStarOptions:
    """Options of a pair, in seconds; both servers must use the same values.

    The peer counts as gone after ``silent_intervals`` without a state message (2 s by default). ``on_dual``
    applies when both are active or both passive. "survive" leaves the configured primary active; "stop" ends this
    server, as in the guide.
    """

    heartbeat_seconds: float = 1.0
    silent_intervals: int = 2
    on_dual: Literal["survive", "stop"] = "survive"

    @property
    def expiry_seconds(self) -> float:
        """Seconds of silence after which the peer counts as gone: the fail-over time."""
        return self.heartbeat_seconds * self.silent_intervals


class Vote(NamedTuple):
    """Whether to serve a client's request, and the events that the request caused."""

    serve: bool
    events: list[Event]


_STATES: Final = {b"%d" % state: state for state in PeerState}
_PENDING: Final = {PeerState.PRIMARY, PeerState.BACKUP}


class BinaryStar:
    """One side of a pair. ``role`` is configured and fixed; ``state`` changes."""

    def __init__(self, role: Role, now: float, options: BinaryStarOptions | None = None) -> None:
        self.role: Role = role
        self.options = options or BinaryStarOptions()
        self.state = PeerState.PRIMARY if role == "primary" else PeerState.BACKUP
        self.peer_state: PeerState | None = None
        self.peer_heard_at: float | None = None
        self._tell_at = 0.0
        self.transitions = 0
        self.must_stop = False
        self._peer_expires_at = now + self.options.expiry_seconds
        self._publish_at = now
        self._published_at = now
        self._seen_at = now
        self._deaf_until = now
        self._events: list[Event] = []

    def tick(self, now: float) -> Step:
        """Publish the own state once per interval, and at once when it changes.

        It is repeated because PUB may lose messages.
        """
        self._notice_pause(now)
        frames: list[Frames] = []
        if now >= self._publish_at:
            self._publish_at, self._published_at = now + self.options.heartbeat_seconds, now
            frames = [[b"%d" % self.state]]
        return frames, self._take_events()

    def peer(self, now: float, frames: Frames) -> Step:
        """Handle a state message. A malformed message is dropped and is no sign of life."""
        self._notice_pause(now)
        heard = _STATES.get(frames[0]) if len(frames) == 1 else None
        if heard is None:
            self._events.append(Event("dropped", detail="malformed state"))
        elif now >= self._deaf_until:
            self._peer_expires_at = now + self.options.expiry_seconds
            self.peer_state, self.peer_heard_at = heard, now
            self._follow(now, heard)
        return [], self._take_events()

    def client(self, now: float) -> Vote:
        """Handle a client's vote: fail over if the peer is silent, and return whether to serve."""
        self._notice_pause(now)
        if self.state in {PeerState.PRIMARY, PeerState.PASSIVE} and now >= self._peer_expires_at:
            self._become(PeerState.ACTIVE, "the peer is silent and a client asks")
        return Vote(self.state is PeerState.ACTIVE, self._take_events())

    def promote(self, now: float) -> list[Event]:
        """Become active on the operator's order. A backup that never saw its primary has no other way."""
        self._notice_pause(now)
        if self.state is not PeerState.ACTIVE:
            self._become(PeerState.ACTIVE, "ordered by the operator")
        return self._take_events()

    def deadline(self) -> float:
        """Return when :meth:`tick` has work to do."""
        return self._publish_at

    def status(self, now: float) -> dict[str, object]:
        """Return the role, both states, the age of the peer's last message and the number of transitions."""
        age = None if self.peer_heard_at is None else round(now - self.peer_heard_at, 3)
        return {
            "role": self.role,
            "state": self.state.name.lower(),
            "peer_state": None if self.peer_state is None else self.peer_state.name.lower(),
            "peer_age_seconds": age,
            "transitions": self.transitions,
        }

    def _follow(self, now: float, peer: PeerState) -> None:
        if self.state in _PENDING and peer is self.state:
            self._tell_mistake(now)
        elif self.state is PeerState.PRIMARY and peer is PeerState.BACKUP:
            self._become(PeerState.ACTIVE, "the backup is there")
        elif self.state in _PENDING and peer is PeerState.ACTIVE:
            self._become(PeerState.PASSIVE, "the peer is active")
        elif self.state is PeerState.PASSIVE and peer in _PENDING:
            self._become(PeerState.ACTIVE, "the peer started again")
        elif self.state is peer and peer in {PeerState.ACTIVE, PeerState.PASSIVE}:
            self._settle_dual(peer)

    def _settle_dual(self, both: PeerState) -> None:
        """Leave only the configured primary active, or stop this server, as ``on_dual`` says."""
        self._events.append(Event(f"dual-{both.name.lower()}", detail="both servers are in this state"))
        if self.options.on_dual == "stop":
            self.must_stop = True
        elif both is PeerState.ACTIVE and self.role == "backup":
            self._become(PeerState.PASSIVE, "both were active")
        elif both is PeerState.PASSIVE and self.role == "primary":
            self._become(PeerState.ACTIVE, "both were passive")

    def _notice_pause(self, now: float) -> None:
        """Become passive after a stop in which the peer has heard nothing for a fail-over time: it may be active now.

        State messages that arrived during the stop are old, so messages are ignored for half an interval.
        """
        was_stopped = now - self._seen_at > self.options.heartbeat_seconds
        if was_stopped and now - self._published_at >= self.options.expiry_seconds:
            self._deaf_until = now + self.options.heartbeat_seconds / 2
            self._peer_expires_at = now + self.options.expiry_seconds
            if self.state is PeerState.ACTIVE:
                self._become(PeerState.PASSIVE, "this process was stopped for a while")
        self._seen_at = now

    def _tell_mistake(self, now: float) -> None:
        """Report once a minute that both sides have one role."""
        if now >= self._tell_at:
            self._tell_at = now + _TELL_SECONDS
            detail = f"two servers are configured as {self.role}; start one of them with the other --pair"
            self._events.append(Event("misconfigured", detail=detail))

    def _become(self, state: PeerState, reason: str) -> None:
        self.state = state
        self._publish_at = self._seen_at  # at once: a backup that has not heard of an active primary never serves
        self.transitions += 1
        self._events.append(Event(state.name.lower(), detail=reason))

    def _take_events(self) -> list[Event]:
        events, self._events = self._events, []
        return events
