"""A Majordomo worker's connection to one broker, without I/O.

The states::

              start                    REQUEST                 reply
    (none) ----------> idle ------------------------> busy ----------> idle
                        |  no message for 3 intervals   |
                        |  or DISCONNECT                | DISCONNECT: the reply is dropped later
                        v                               v
                     waiting -- reconnect_seconds --> new socket, READY: idle
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hookwire.services.machine import Connect, Frames, Leave, Outbox, Run, Step, Stray
from hookwire.services.mdp import MDP_01, Dialect
from hookwire.services.presence import HeartbeatOptions, Presence

__all__ = ["WorkerMachine", "WorkerOptions"]


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """Heartbeats, and the shortest time between two connections. ``mmi.heartbeat`` returns the broker's interval."""

    heartbeat: HeartbeatOptions = field(default_factory=HeartbeatOptions)
    reconnect_seconds: float = 2.5


class WorkerMachine:
    """One service at one broker. At most one request is in progress."""

    def __init__(
        self, endpoint: str, service: bytes, dialect: Dialect = MDP_01, options: WorkerOptions | None = None
    ) -> None:
        self._endpoint = endpoint
        self._service = service
        self._dialect = dialect
        self._options = options or WorkerOptions()
        self._presence: Presence | None = None
        self._connected_at = 0.0
        self._reconnect_at: float | None = None
        self._ticket = 0
        self._client: bytes | None = None
        self._outbox = Outbox()

    @property
    def is_busy(self) -> bool:
        """Return whether a request is in progress."""
        return self._client is not None

    @property
    def has_parts(self) -> bool:
        """Return whether the protocol has partial replies: 18/MDP only."""
        return bool(self._dialect.worker_partial)

    def start(self, now: float) -> Step:
        """Connect and register."""
        self._connect(now)
        return self._outbox.take()

    def receive(self, now: float, frames: Frames) -> Step:
        """Handle a message of the broker."""
        command = self._dialect.read_command(frames)
        if self._presence is None:
            self._outbox.events.append(Stray("not-connected"))
        elif command is None:
            self._outbox.events.append(Stray("malformed"))
        elif command.command == "disconnect":
            self._lose(max(now, self._connected_at + self._options.reconnect_seconds))
        else:
            self._presence.heard(now)
            if command.command == "request":
                self._take(now, command.client, command.body)
        return self._outbox.take()

    def tick(self, now: float) -> Step:
        """Send a due heartbeat, disconnect from a silent broker, or reconnect after the pause."""
        if self._reconnect_at is not None:
            if now >= self._reconnect_at:
                self._connect(now)
        elif self._presence is not None:
            if now >= self._presence.gone_at and not self.is_busy:
                self._lose(now + self._options.reconnect_seconds)
            elif now >= self._presence.beat_at:
                self._outbox.frames.append(self._dialect.bare("heartbeat"))
                self._presence.beaten(now)
        return self._outbox.take()

    def deadline(self) -> float | None:
        """Return when :meth:`tick` has work to do, or None."""
        if self._reconnect_at is not None or self._presence is None:
            return self._reconnect_at
        return self._presence.beat_at if self.is_busy else min(self._presence.beat_at, self._presence.gone_at)

    def reply(self, now: float, ticket: int, body: Frames) -> Step:
        """Send the reply of a request, or drop it if the request's connection is gone."""
        if self._is_present(ticket):
            assert self._client is not None
            client, self._client = self._client, None
            self._heard(now)
            self._send(now, self._dialect.reply(client, body))
        return self._outbox.take()

    def partial(self, now: float, ticket: int, body: Frames) -> Step:
        """Send a part of the reply (18/MDP only). Raise ValueError in 0.1."""
        if self._is_present(ticket):
            assert self._client is not None
            self._outbox.frames.append(self._dialect.partial(self._client, body))
            if self._presence is not None:
                self._presence.sent_part(now)
        return self._outbox.take()

    def abandon(self, now: float, ticket: int) -> Step:
        """Disconnect without a reply, because the handler failed. The broker treats the request as lost."""
        if self._is_present(ticket):
            self._lose(now, tuple(self._dialect.bare("disconnect")))
        return self._outbox.take()

    def stop(self) -> Step:
        """Send DISCONNECT, so that the broker sends no more requests."""
        if self._presence is not None:
            self._outbox.events.append(Leave(tuple(self._dialect.bare("disconnect"))))
        self._presence, self._client, self._reconnect_at = None, None, None
        return self._outbox.take()

    def _take(self, now: float, client: bytes, body: Frames) -> None:
        """Start the request. If it takes longer, early heartbeats show the broker that this worker sends them."""
        if self._client is not None:
            self._outbox.events.append(Stray("second-request"))
            return
        self._client = client
        self._ticket += 1
        if self._presence is not None:
            self._presence.beat_soon(now)
        self._outbox.events.append(Run(self._ticket, body))

    def _is_present(self, ticket: int) -> bool:
        if self._client is not None and ticket == self._ticket:
            return True
        self._outbox.events.append(Stray("late-reply"))
        return False

    def _connect(self, now: float) -> None:
        self._outbox.events.append(Connect(self._endpoint))
        self._outbox.frames.append(self._dialect.ready(self._service))
        self._presence = Presence(self._options.heartbeat, now)
        self._connected_at, self._reconnect_at = now, None

    def _lose(self, reconnect_at: float, last: tuple[bytes, ...] = ()) -> None:
        self._presence, self._client = None, None
        self._reconnect_at = reconnect_at
        self._outbox.events.append(Leave(last))

    def _send(self, now: float, frames: Frames) -> None:
        self._outbox.frames.append(frames)
        if self._presence is not None:
            self._presence.sent(now)

    def _heard(self, now: float) -> None:
        if self._presence is not None:
            self._presence.heard(now)
