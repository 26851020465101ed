"""Simple and Paranoid Pirate workers without I/O (6/PPP)."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Final

from hookwire.services.machine import Connect, Frames, Leave, Outbox, Run, Step, Stray
from hookwire.services.presence import HeartbeatOptions, Presence

__all__ = ["ParanoidWorker", "PirateOptions", "SimpleWorker", "printable_identity"]

_HEARTBEAT: Final = {b"\x02", b"HEARTBEAT"}


def printable_identity() -> bytes:
    """Return a random identity of printable characters."""
    return f"{secrets.token_hex(2)}-{secrets.token_hex(2)}".upper().encode()


@dataclass(frozen=True, slots=True)
class PirateOptions:
    """Heartbeats, and the pause before a reconnection, which doubles each time; any message resets it.

    ``sends_text``: send READY and HEARTBEAT as words, as the guide's Lua examples do.
    """

    heartbeat: HeartbeatOptions = field(default_factory=lambda: HeartbeatOptions(interval_seconds=1.0))
    pause_seconds_first: float = 1.0
    pause_seconds_max: float = 32.0
    sends_text: bool = False


class PirateMachine:
    """Base of both workers: at most one request is in progress."""

    def __init__(self, endpoint: str, options: PirateOptions | None = None) -> None:
        self._endpoint = endpoint
        self._options = options or PirateOptions()
        self._client: bytes | None = None
        self._ticket = 0
        self._outbox = Outbox()

    @property
    def is_busy(self) -> bool:
        """Return whether a request is in progress."""
        return self._client is not None

    @property
    def has_parts(self) -> bool:
        """Return False: a Pirate has no partial replies."""
        return False

    def partial(self, now: float, ticket: int, body: Frames) -> Step:
        """Raise ValueError: a Pirate has no partial replies."""
        raise ValueError("Pirate workers have no partial replies; use a Majordomo worker of version 0.2")


class SimpleWorker(PirateMachine):
    """A Simple Pirate worker: it sends the frames of a REQ on a DEALER. It cannot detect that its queue restarted."""

    def start(self, now: float) -> Step:
        """Connect and say READY."""
        self._outbox.events.append(Connect(self._endpoint))
        self._outbox.frames.append([b"", b"READY" if self._options.sends_text else b"\x01"])
        return self._outbox.take()

    def receive(self, now: float, frames: Frames) -> Step:
        """Handle a request ``[empty][client][empty][body...]``."""
        if len(frames) < 4 or frames[0] != b"" or frames[2] != b"":
            self._outbox.events.append(Stray("malformed"))
        elif self._client is not None:
            self._outbox.events.append(Stray("second-request"))
        else:
            self._client = frames[1]
            self._ticket += 1
            self._outbox.events.append(Run(self._ticket, frames[3:]))
        return self._outbox.take()

    def tick(self, now: float) -> Step:
        """Return an empty step: this protocol has no deadlines."""
        return self._outbox.take()

    def deadline(self) -> float | None:
        """Return None."""
        return None

    def reply(self, now: float, ticket: int, body: Frames) -> Step:
        """Send the reply, which also makes this worker ready again."""
        if self._client is None or ticket != self._ticket:
            self._outbox.events.append(Stray("late-reply"))
        else:
            self._outbox.frames.append([b"", self._client, b"", *body])
            self._client = None
        return self._outbox.take()

    def abandon(self, now: float, ticket: int) -> Step:
        """Start again on a new socket, because the handler failed; the client repeats its request."""
        self._client = None
        self._outbox.events.append(Leave())
        return self.start(now)

    def stop(self) -> Step:
        """Close the socket."""
        self._client = None
        self._outbox.events.append(Leave())
        return self._outbox.take()


class ParanoidWorker(PirateMachine):
    """A Paranoid Pirate worker, with heartbeats and a pause before a reconnection that doubles."""

    def __init__(self, endpoint: str, options: PirateOptions | None = None) -> None:
        super().__init__(endpoint, options)
        self._pause = self._options.pause_seconds_first
        self._presence: Presence | None = None
        self._reconnect_at: float | None = None

    def start(self, now: float) -> Step:
        """Connect and say READY."""
        self._connect(now)
        return self._outbox.take()

    def receive(self, now: float, frames: Frames) -> Step:
        """Handle a heartbeat or a request ``[client][empty][body...]``; bodies may have several frames."""
        if self._presence is None:
            self._outbox.events.append(Stray("not-connected"))
            return self._outbox.take()
        if len(frames) == 1 and frames[0] in _HEARTBEAT:
            self._heard(now)
        elif len(frames) < 3 or frames[1] != b"":
            self._outbox.events.append(Stray("malformed"))
        elif self._client is not None:
            self._outbox.events.append(Stray("second-request"))
        else:
            self._heard(now)
            self._client = frames[0]
            self._ticket += 1
            self._outbox.events.append(Run(self._ticket, frames[2:]))
        return self._outbox.take()

    def tick(self, now: float) -> Step:
        """Send a due heartbeat, disconnect from a silent queue, or reconnect after the pause."""
        if self._reconnect_at is not None:
            if now >= self._reconnect_at:
                self._connect(now)
        elif self._presence is not None:
            if now >= self._presence.gone_at and not self.is_busy:
                self._lose(now)
            elif now >= self._presence.beat_at:
                self._outbox.frames.append([b"HEARTBEAT" if self._options.sends_text else b"\x02"])
                self._presence.sent(now)
        return self._outbox.take()

    def deadline(self) -> float | None:
        """Return when :meth:`tick` has work to do."""
        if self._reconnect_at is not None or self._presence is None:
            return self._reconnect_at
        return self._presence.beat_at if self.is_busy else min(self._presence.beat_at, self._presence.gone_at)

    def reply(self, now: float, ticket: int, body: Frames) -> Step:
        """Send the reply of a request, or drop it if the request's connection is gone."""
        if self._client is None or ticket != self._ticket or self._presence is None:
            self._outbox.events.append(Stray("late-reply"))
        else:
            self._outbox.frames.append([self._client, b"", *body])
            self._client = None
            self._presence.sent(now)
            self._presence.heard(now)
        return self._outbox.take()

    def abandon(self, now: float, ticket: int) -> Step:
        """Start again on a new socket, because the handler failed; the client repeats its request."""
        self._client = None
        self._outbox.events.append(Leave())
        self._connect(now)
        return self._outbox.take()

    def stop(self) -> Step:
        """Close the socket. The queue removes this worker when its heartbeats stop."""
        self._presence, self._client, self._reconnect_at = None, None, None
        self._outbox.events.append(Leave())
        return self._outbox.take()

    def _connect(self, now: float) -> None:
        self._outbox.events.append(Connect(self._endpoint))
        self._outbox.frames.append([b"READY" if self._options.sends_text else b"\x01"])
        self._presence = Presence(self._options.heartbeat, now)
        self._reconnect_at = None

    def _heard(self, now: float) -> None:
        assert self._presence is not None
        self._presence.heard(now)
        self._pause = self._options.pause_seconds_first

    def _lose(self, now: float) -> None:
        self._presence, self._client = None, None
        self._reconnect_at = now + self._pause
        self._pause = min(self._pause * 2, self._options.pause_seconds_max)
        self._outbox.events.append(Leave())
