"""The only module of this room that imports pyzmq: sockets that never block, and the wait for several of them.

A send that fails says why (ZL-09). Each ROUTER has ROUTER_MANDATORY, so that a message to an unknown peer fails
instead of vanishing (ZL-01, ZL-02). ROUTER_HANDOVER is on: of two peers with one explicit identity the newer one
stays, as after a restart on a half-open connection (MD-28).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from reqrep.frames import Frames

try:
    import zmq
    import zmq.auth
    import zmq.backend
    from zmq.utils import z85
except ModuleNotFoundError as error:  # the extra is optional
    raise ModuleNotFoundError("request-reply needs pyzmq: pip install 'hookwire-server[zmq]'") from error

__all__ = [
    "AddressRefused",
    "CurveServer",
    "Kind",
    "Poll",
    "Socket",
    "SocketOptions",
    "Transport",
    "make_keys",
    "raw_key",
    "secret_key_in",
]

Kind = Literal["router", "dealer", "rep", "pub", "sub"]
_KINDS: Final[Mapping[str, int]] = {
    "router": zmq.ROUTER, "dealer": zmq.DEALER, "rep": zmq.REP, "pub": zmq.PUB, "sub": zmq.SUB,
}  # fmt: skip
_NOT_SENT: Final[Mapping[int | None, str]] = {zmq.EAGAIN: "full", zmq.EHOSTUNREACH: "unreachable"}
_CLOSED: Final = -1
# The methods below pyzmq's convenience layer, and flags as plain numbers: a third of the time for each frame.
_receive: Final[Callable[..., Any]] = zmq.backend.Socket.recv
_send: Final[Callable[..., None]] = zmq.backend.Socket.send
_NOW: Final = int(zmq.NOBLOCK)
_NOW_AND_MORE: Final = int(zmq.NOBLOCK | zmq.SNDMORE)
_ZAP_ENDPOINT: Final = "inproc://zeromq.zap.01"


class AddressRefused(Exception):
    """An endpoint cannot be bound or connected; the text names it and the reason."""


@dataclass(frozen=True, slots=True)
class CurveServer:
    """The secret key of a server, as Z85 text. Clients are judged by the ZAP handler."""

    secret_key: bytes


@dataclass(frozen=True, slots=True)
class SocketOptions:
    """Limits of a socket. ``high_water_messages``: per peer and direction. ``identity``: explicit routing id."""

    high_water_messages: int = 1_000
    frame_bytes_max: int = 16 * 1024 * 1024
    frames_max: int = 64
    identity: bytes | None = None
    curve: CurveServer | None = None
    authenticates: bool = False


class Transport:
    """The sockets of one process: a ZeroMQ context and its open sockets."""

    def __init__(self) -> None:
        self._context = zmq.Context()

    def socket(self, kind: Kind, options: SocketOptions | None = None) -> Socket:
        """Open a socket; it is bound or connected by its methods."""
        return Socket(self._context.socket(_KINDS[kind]), kind, options or SocketOptions())

    def zap_socket(self) -> Socket:
        """Open the socket at which libzmq asks who may connect."""
        socket = self.socket("router")
        socket.bind(_ZAP_ENDPOINT)
        return socket

    def close(self) -> None:
        """Close the sockets that are still open and end the context."""
        self._context.destroy(linger=0)


class Socket:
    """One ZeroMQ socket. Nothing here blocks."""

    def __init__(self, socket: zmq.Socket[bytes], kind: Kind, options: SocketOptions) -> None:
        self.raw = socket
        self._frames_max = options.frames_max
        self._knows_users = options.curve is not None or options.authenticates
        socket.setsockopt(zmq.LINGER, 0)
        socket.set_hwm(options.high_water_messages)
        socket.setsockopt(zmq.MAXMSGSIZE, options.frame_bytes_max)
        if options.identity is not None:
            socket.setsockopt(zmq.IDENTITY, options.identity)
        if kind == "router":
            socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
            socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
        if kind == "sub":
            socket.setsockopt(zmq.SUBSCRIBE, b"")
        if options.curve is not None:
            socket.setsockopt(zmq.CURVE_SERVER, 1)
            socket.setsockopt(zmq.CURVE_SECRETKEY, options.curve.secret_key)
        if self._knows_users:
            socket.setsockopt(zmq.ZAP_DOMAIN, b"hookwire")

    def bind(self, endpoint: str) -> str:
        """Bind and return the real endpoint; port ``*`` means a free port. Raise :class:`AddressRefused`."""
        try:
            self.raw.bind(endpoint)
        except zmq.ZMQError as error:
            raise AddressRefused(f"cannot bind {endpoint}: {error}") from error
        return str(self.raw.getsockopt_string(zmq.LAST_ENDPOINT)).rstrip("\0")

    def connect(self, endpoint: str) -> None:
        """Connect in the background. Raise :class:`AddressRefused` for an invalid endpoint."""
        try:
            self.raw.connect(endpoint)
        except zmq.ZMQError as error:
            raise AddressRefused(f"cannot connect to {endpoint}: {error}") from error

    def receive(self) -> Frames | None:
        """Return the next message, or None. At most one frame above the limit is kept; the count shows it."""
        message = self.receive_with_user()
        return None if message is None else message[0]

    def receive_with_user(self) -> tuple[Frames, str] | None:
        """Return the next message and its authenticated sender, or None; the sender is empty without keys."""
        raw = self.raw
        try:
            part = _receive(raw, _NOW, False)
        except zmq.Again:
            return None
        user = str(part.get("User-Id") or "") if self._knows_users else ""
        frames: Frames = [part.bytes]
        while part.more:
            part = _receive(raw, _NOW, False)
            if len(frames) <= self._frames_max:
                frames.append(part.bytes)
        return frames, user

    def send(self, frames: Frames) -> str | None:
        """Send a message; return None, or "full" or "unreachable" when it was not taken."""
        try:
            for frame in frames[:-1]:
                _send(self.raw, frame, _NOW_AND_MORE)
            _send(self.raw, frames[-1], _NOW)
        except zmq.ZMQError as error:
            if error.errno not in _NOT_SENT:
                raise
            return _NOT_SENT[error.errno]
        return None

    def close(self, linger_seconds: float = 0) -> None:
        """Close; messages that wait are sent within the linger time (ZL-07)."""
        self.raw.close(linger=round(linger_seconds * 1000))


class Poll:
    """The wait for several sockets, which another thread or a signal handler can end."""

    def __init__(self) -> None:
        self._poller = zmq.Poller()
        self._sockets: dict[zmq.Socket[bytes], Socket] = {}
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._poller.register(self._wake_read, zmq.POLLIN)

    def add(self, socket: Socket) -> None:
        """Wait for this socket too."""
        self._sockets[socket.raw] = socket
        self._poller.register(socket.raw, zmq.POLLIN)

    def remove(self, socket: Socket) -> None:
        """Wait for this socket no longer."""
        if self._sockets.pop(socket.raw, None) is not None:
            self._poller.unregister(socket.raw)

    def wait(self, timeout_seconds: float | None) -> list[Socket]:
        """Return the sockets that can be read, after at most the time; None waits without end."""
        timeout = None if timeout_seconds is None else max(0, math.ceil(timeout_seconds * 1000))
        ready = []
        for found, _ in self._poller.poll(timeout):
            if isinstance(found, zmq.Socket):
                ready.append(self._sockets[found])
            else:
                self._clear()
        return ready

    def wake(self) -> None:
        """End the present wait, or the next one. Safe in signal handlers and other threads."""
        try:
            os.write(self._wake_write, b".")
        except OSError:  # full: it is awake already; closed: nobody waits
            return

    def _clear(self) -> None:
        try:
            os.read(self._wake_read, 4096)
        except BlockingIOError:
            return

    def close(self) -> None:
        """Free the descriptors; a later :meth:`wake` does nothing."""
        if self._wake_read == _CLOSED:
            return
        for descriptor in (self._wake_read, self._wake_write):
            os.close(descriptor)
        self._wake_read = self._wake_write = _CLOSED


def raw_key(text: str) -> bytes:
    """Return the 32 bytes of a key in Z85 text. Raise ValueError."""
    return z85.decode(text)


def secret_key_in(file: Path) -> bytes:
    """Return the secret key in a certificate file, as Z85 text. Raise OSError or ValueError."""
    _, secret = zmq.auth.load_certificate(str(file))
    if secret is None:
        raise ValueError(f"{file} holds no secret key; name the .key_secret file")
    return secret


def make_keys(folder: Path, name: str) -> tuple[Path, Path]:
    """Write a new key pair ``name.key`` and ``name.key_secret``; return the two paths. The secret is mode 0600."""
    folder.mkdir(parents=True, exist_ok=True)
    public, secret = zmq.auth.create_certificates(str(folder), name)
    Path(secret).chmod(0o600)
    return Path(public), Path(secret)
