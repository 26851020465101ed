"""ZeroMQ sockets that never block, and the wait for several of them. No other module of the SDK imports pyzmq."""

from __future__ import annotations

import math
import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal

from hookwire.services.machine import Connect, Event, Frames, Leave, Step

try:
    import zmq
    import zmq.auth
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("hookwire.services needs pyzmq: pip install 'hookwire[zmq]'") from error

__all__ = ["Curve", "Kind", "Link", "Poll", "Socket", "SocketOptions", "curve_from", "open_socket"]

Kind = Literal["dealer", "router"]
_KINDS: Final[Mapping[str, int]] = {"dealer": zmq.DEALER, "router": zmq.ROUTER}
_NOT_SENT: Final[Mapping[int | None, str]] = {zmq.EAGAIN: "full", zmq.EHOSTUNREACH: "unreachable"}
_LAST_WORD_SECONDS: Final = 1.0

_CLOSED: Final = -1


@dataclass(frozen=True, slots=True)
class Curve:
    """The keys of an encrypted connection, as Z85 text: the server's public key and the own key pair."""

    server_key: bytes
    public_key: bytes
    secret_key: bytes


def curve_from(server_key_file: str | Path, secret_key_file: str | Path) -> Curve:
    """Return the keys of a client or worker from two certificate files. Raise OSError or ValueError."""
    server_key, _ = zmq.auth.load_certificate(str(server_key_file))
    public_key, secret_key = zmq.auth.load_certificate(str(secret_key_file))
    if secret_key is None:
        raise ValueError(f"{secret_key_file} holds no secret key; name the .key_secret file")
    return Curve(server_key, public_key, secret_key)


@dataclass(frozen=True, slots=True)
class SocketOptions:
    """Limits and keys of a socket. ``immediate``: send only over established connections (Freelance)."""

    high_water_messages: int = 1_000
    frame_bytes_max: int = 16 * 1024 * 1024
    identity: bytes | None = None
    immediate: bool = False
    curve: Curve | None = None


class Socket:
    """One ZeroMQ socket. No method blocks."""

    def __init__(self, opened: zmq.Socket[bytes], kind: Kind, options: SocketOptions) -> None:
        self.raw = opened
        opened.setsockopt(zmq.LINGER, 0)
        opened.set_hwm(options.high_water_messages)
        opened.setsockopt(zmq.MAXMSGSIZE, options.frame_bytes_max)
        if kind == "router":
            opened.setsockopt(zmq.ROUTER_MANDATORY, 1)
        if options.identity is not None:
            opened.setsockopt(zmq.IDENTITY, options.identity)
        if options.immediate:
            opened.setsockopt(zmq.IMMEDIATE, 1)
        if options.curve is not None:
            opened.setsockopt(zmq.CURVE_SERVERKEY, options.curve.server_key)
            opened.setsockopt(zmq.CURVE_PUBLICKEY, options.curve.public_key)
            opened.setsockopt(zmq.CURVE_SECRETKEY, options.curve.secret_key)

    def bind(self, endpoint: str) -> str:
        """Bind and return the real endpoint. Raise OSError."""
        self._choose_family(endpoint)
        try:
            self.raw.bind(endpoint)
        except zmq.ZMQError as error:
            raise OSError(f"cannot bind {endpoint}: {error}") from error
        return str(self.raw.getsockopt_string(zmq.LAST_ENDPOINT)).rstrip("\0")

    def connect(self, endpoint: str) -> None:
        """Connect in the background. Raise ValueError for an invalid endpoint."""
        self._choose_family(endpoint)
        try:
            self.raw.connect(endpoint)
        except zmq.ZMQError as error:
            raise ValueError(f"cannot connect to {endpoint}: {error}") from error

    def _choose_family(self, endpoint: str) -> None:
        # With IPV6 libzmq resolves a name to its IPv6 address first, and connects to no other.
        self.raw.setsockopt(zmq.IPV6, int("[" in endpoint or not _has_ipv4()))

    def receive(self) -> Frames | None:
        """Return the next message, or None."""
        try:
            return self.raw.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return None

    def send(self, frames: Frames) -> str | None:
        """Send a message. Return None on success, or the reason of the failure: "full" or "unreachable"."""
        try:
            self.raw.send_multipart(frames, zmq.NOBLOCK)
        except zmq.ZMQError as error:
            if error.errno not in _NOT_SENT:
                raise
            return _NOT_SENT[error.errno]
        return None

    def descriptor(self) -> int:
        """Return the descriptor that becomes readable when the socket's state changes. It is edge-triggered."""
        return self.raw.fileno()

    def close(self, linger_seconds: float = 0) -> None:
        """Close the socket. Queued messages are still sent within the linger time."""
        self.raw.close(linger=round(linger_seconds * 1000))


@cache
def _has_ipv4() -> bool:
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as candidate:
            candidate.bind(("127.0.0.1", 0))
    except OSError:
        return False
    return True


def open_socket(kind: Kind, options: SocketOptions | None = None) -> Socket:
    """Open a socket in the process's ZeroMQ context."""
    return Socket(zmq.Context.instance().socket(_KINDS[kind]), kind, options or SocketOptions())


class Link:
    """The connection of a machine. It opens and closes its socket on the machine's events.

    ``opened`` and ``closing`` get each socket, to add it to a poll or an event loop and to remove it. ``drops`` counts
    messages that could not be sent.
    """

    def __init__(
        self,
        opened: Callable[[Socket], None],
        closing: Callable[[Socket], None],
        options: SocketOptions | None = None,
        trace: Callable[[str, Frames], None] | None = None,
    ) -> None:
        self.socket: Socket | None = None
        self.drops = 0
        self._opened = opened
        self._closing = closing
        self._options = options
        self._trace = trace

    def carry_out(self, step: Step) -> list[Event]:
        """Carry out a step on the socket. Return the events that do not concern the socket."""
        rest: list[Event] = []
        for event in step.events:
            if isinstance(event, Connect):
                self.close()
                self._connect(event.endpoint)
            elif isinstance(event, Leave):
                self._leave(event)
            else:
                rest.append(event)
        for frames in step.frames:
            self._send(frames)
        return rest

    def receive(self) -> Frames | None:
        """Return the next message of the present socket, or None."""
        frames = self.socket.receive() if self.socket is not None else None
        if frames is not None and self._trace is not None:
            self._trace("<", frames)
        return frames

    def close(self, linger_seconds: float = 0) -> None:
        """Close the present socket."""
        if self.socket is not None:
            self._closing(self.socket)
            self.socket.close(linger_seconds)
            self.socket = None

    def _connect(self, endpoint: str) -> None:
        self.socket = open_socket("dealer", self._options)
        self.socket.connect(endpoint)
        self._opened(self.socket)

    def _leave(self, event: Leave) -> None:
        if event.last:
            self._send(list(event.last))
        self.close(_LAST_WORD_SECONDS if event.last else 0)

    def _send(self, frames: Frames) -> None:
        if self._trace is not None:
            self._trace(">", frames)
        if self.socket is None or self.socket.send(frames) is not None:
            self.drops += 1


class Poll:
    """A wait for several sockets that another thread can end."""

    def __init__(self) -> None:
        self._poller = zmq.Poller()
        self._sockets: dict[zmq.Socket[bytes], Socket] = {}
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._poller.register(self._wake_read, zmq.POLLIN)

    def add(self, socket: Socket) -> None:
        """Include a socket in the wait."""
        self._sockets[socket.raw] = socket
        self._poller.register(socket.raw, zmq.POLLIN)

    def remove(self, socket: Socket) -> None:
        """Exclude a socket from the wait."""
        if self._sockets.pop(socket.raw, None) is not None:
            self._poller.unregister(socket.raw)

    def wait(self, timeout_seconds: float | None) -> list[Socket]:
        """Wait for at most the time and return the ready sockets. None waits without a limit."""
        timeout = None if timeout_seconds is None else max(0, math.ceil(timeout_seconds * 1000))
        ready = []
        for found, _ in self._poller.poll(timeout):
            if isinstance(found, zmq.Socket):
                ready.append(self._sockets[found])
            else:
                self._clear()
        return ready

    def wake(self) -> None:
        """End the present wait, or the next one. Safe in other threads."""
        try:
            os.write(self._wake_write, b".")
        except OSError:  # The pipe is full (a wake-up is pending already) or closed (no wait is left).
            return

    def close(self) -> None:
        """Close the descriptors. A later :meth:`wake` does nothing."""
        if self._wake_read == _CLOSED:
            return
        for descriptor in (self._wake_read, self._wake_write):
            os.close(descriptor)
        self._wake_read = self._wake_write = _CLOSED

    def _clear(self) -> None:
        try:
            os.read(self._wake_read, 4096)
        except BlockingIOError:
            return
