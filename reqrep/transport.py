"""ZeroMQ sockets that never block, and the wait for several of them. No other module of ``reqrep`` imports pyzmq.

A send that fails returns the reason. Each ROUTER sets ROUTER_MANDATORY, so that a message to an unknown peer
fails instead of vanishing. It also sets ROUTER_HANDOVER: of two connections with the same explicit
identity, the newer replaces the older. This lets a restarted peer replace its half-open connection.
"""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from reqrep.frames import Frames
from reqrep.origin import NOWHERE, Origin
from runtime.loopback import loopback

try:
    import zmq
    import zmq.auth
    import zmq.backend
    from zmq.utils import z85
except ModuleNotFoundError as error:
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
_LIBRARY: Final = ctypes.CDLL(None)
_CLOSED: Final = -1
_CONNECTION: Final = int(zmq.SRCFD)
_PORT_MAX: Final = 65_535
# Calling the backend's methods with integer flags takes a third of the time of pyzmq's convenience methods.
_receive: Final[Callable[..., Any]] = zmq.backend.Socket.recv
_send: Final[Callable[..., None]] = zmq.backend.Socket.send
_NOW: Final = int(zmq.NOBLOCK)
_NOW_AND_MORE: Final = int(zmq.NOBLOCK | zmq.SNDMORE)
_ZAP_ENDPOINT: Final = "inproc://zeromq.zap.01"


class AddressRefused(Exception):
    """An endpoint cannot be bound or connected; the message names it and the reason."""


@dataclass(frozen=True, slots=True)
class CurveServer:
    """The secret key of a CURVE server, as Z85 text. The ZAP handler decides which clients may connect."""

    secret_key: bytes


@dataclass(frozen=True, slots=True)
class SocketOptions:
    """Limits and security of a socket.

    ``high_water_messages`` holds per peer and direction. ``identity`` is an explicit routing id. ``authenticates``: ask
    the ZAP handler about each connection, even without CURVE. ``takes_over``: on a ROUTER, the newer of two connections
    with one identity gets its messages, else the older. ``ping_seconds``: ZeroMQ sends a PING (ZMTP 3.1) after this
    time, and closes a connection that sends nothing for as long after it; 0 means never.
    """

    high_water_messages: int = 1_000
    frame_bytes_max: int = 16 * 1024 * 1024
    frames_max: int = 64
    identity: bytes | None = None
    curve: CurveServer | None = None
    takes_over: bool = True
    authenticates: bool = False
    ping_seconds: float = 0.0


class Transport:
    """The sockets of one process: a ZeroMQ context and its open sockets."""

    def __init__(self) -> None:
        # libzmq counts the identities that it makes from a number of rand(), which nobody else has seeded.
        _LIBRARY.srand(int.from_bytes(os.urandom(4)))
        self._context = zmq.Context()

    def socket(self, kind: Kind, options: SocketOptions | None = None) -> Socket:
        """Open a socket that is neither bound nor connected yet."""
        return Socket(self._context.socket(_KINDS[kind]), kind, options or SocketOptions())

    def zap_socket(self) -> Socket:
        """Open the socket on which libzmq asks whether a peer may connect (27/ZAP)."""
        socket = self.socket("router")
        socket.bind(_ZAP_ENDPOINT)
        return socket

    def close(self) -> None:
        """Close the sockets that are still open and end the context."""
        self._context.destroy(linger=0)


class Socket:
    """One ZeroMQ socket. No method blocks."""

    def __init__(self, socket: zmq.Socket[bytes], kind: Kind, options: SocketOptions) -> None:
        self.raw = socket
        self._frames_max = options.frames_max
        self._last: Any = None
        self._knows_users = options.curve is not None or options.authenticates
        socket.setsockopt(zmq.LINGER, 0)
        socket.set_hwm(options.high_water_messages)
        socket.setsockopt(zmq.MAXMSGSIZE, options.frame_bytes_max)
        if options.identity is not None:
            socket.setsockopt(zmq.IDENTITY, options.identity)
        if kind == "router":
            socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
            self.take_over(options.takes_over)
        if kind == "sub":
            socket.setsockopt(zmq.SUBSCRIBE, b"")
        socket.setsockopt(zmq.HEARTBEAT_IVL, round(options.ping_seconds * 1000))
        if options.curve is not None:
            socket.setsockopt(zmq.CURVE_SERVER, 1)
            socket.setsockopt(zmq.CURVE_SECRETKEY, options.curve.secret_key)
        if self._knows_users:
            socket.setsockopt(zmq.ZAP_DOMAIN, b"hookwire")

    def bind(self, endpoint: str) -> str:
        """Bind and return the real endpoint; port ``*`` binds a free port. Raise :class:`AddressRefused`."""
        self._choose_family(endpoint)
        _check_port(endpoint)
        try:
            self.raw.bind(endpoint)
        except zmq.ZMQError as error:
            raise AddressRefused(f"cannot bind {endpoint}: {error}") from error
        return str(self.raw.getsockopt_string(zmq.LAST_ENDPOINT)).rstrip("\0")

    def connect(self, endpoint: str) -> None:
        """Connect in the background. Raise :class:`AddressRefused` for an invalid endpoint."""
        self._choose_family(endpoint)
        _check_port(endpoint)
        try:
            self.raw.connect(endpoint)
        except zmq.ZMQError as error:
            raise AddressRefused(f"cannot connect to {endpoint}: {error}") from error

    def _choose_family(self, endpoint: str) -> None:
        # With IPV6 libzmq resolves a name to its IPv6 address first, and connects to no other.
        self.raw.setsockopt(zmq.IPV6, int("[" in endpoint or ":" in loopback()))

    def receive(self) -> Frames | None:
        """Return the next message, or None. Of a message with too many frames, keep one frame above the limit."""
        message = self.receive_with_user()
        return None if message is None else message[0]

    def receive_with_user(self) -> tuple[Frames, str] | None:
        """Return the next message and its sender's user name, or None. Without authentication the name is empty."""
        raw, frames_max = self.raw, self._frames_max
        try:
            part = _receive(raw, _NOW, False)
        except zmq.Again:
            return None
        user = str(part.get("User-Id") or "") if self._knows_users else ""
        frames: Frames = [part.bytes]
        while part.more:
            part = _receive(raw, _NOW, False)
            if len(frames) <= frames_max:
                frames.append(part.bytes)
        self._last = part
        return frames, user

    def connection(self) -> int:
        """Return the descriptor of the connection of the last message that was received. It belongs to ZeroMQ."""
        return NOWHERE.connection if self._last is None else int(self._last.get(_CONNECTION))

    def origin(self) -> Origin:
        """Return the connection of the last message that was received."""
        if self._last is None:
            return NOWHERE
        return Origin.of(self.connection(), str(self._last.get("Peer-Address")))

    def take_over(self, is_on: bool) -> None:
        """Give an identity to the newer of two connections of a ROUTER, or leave it with the older."""
        self.raw.setsockopt(zmq.ROUTER_HANDOVER, int(is_on))

    def send(self, frames: Frames) -> str | None:
        """Send a message. Return None on success, or the reason of the failure: "full" or "unreachable"."""
        raw = self.raw
        try:
            for frame in frames[:-1]:
                _send(raw, frame, _NOW_AND_MORE)
            _send(raw, frames[-1], _NOW)
        except zmq.ZMQError as error:
            if error.errno not in _NOT_SENT:
                raise
            return _NOT_SENT[error.errno]
        return None

    def close(self, linger_seconds: float = 0) -> None:
        """Close the socket. Queued messages are still sent within the linger time."""
        self.raw.close(linger=round(linger_seconds * 1000))


class Poll:
    """A wait for several sockets that another thread or a signal handler can end."""

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
        """Wait for at most the time and return the readable sockets. None waits without a limit."""
        timeout = None if timeout_seconds is None else max(0, math.ceil(timeout_seconds * 1000))
        ready = []
        for found, _ in zmq.backend.zmq_poll(self._poller.sockets, -1 if timeout is None else timeout):
            if isinstance(found, zmq.Socket):
                ready.append(self._sockets[found])
            else:
                self._clear()
        return ready

    def wake(self) -> None:
        """End the present wait, or the next one. Safe in signal handlers and other threads."""
        try:
            os.write(self._wake_write, b".")
        except OSError:  # The pipe is full (a wake-up is pending already) or closed (no wait is left).
            return

    def _clear(self) -> None:
        try:
            os.read(self._wake_read, 4096)
        except BlockingIOError:
            return

    def close(self) -> None:
        """Close the descriptors. A later :meth:`wake` does nothing."""
        if self._wake_read == _CLOSED:
            return
        for descriptor in (self._wake_read, self._wake_write):
            os.close(descriptor)
        self._wake_read = self._wake_write = _CLOSED


def raw_key(text: str) -> bytes:
    """Return the 32 bytes of a key in Z85 text. Raise ValueError for other text."""
    return z85.decode(text)


def secret_key_in(file: Path) -> bytes:
    """Return the secret key in a certificate file, as Z85 text. Raise OSError or ValueError."""
    _, secret = zmq.auth.load_certificate(str(file))
    if secret is None:
        raise ValueError(f"{file} holds no secret key; name the .key_secret file")
    return secret


def make_keys(folder: Path, name: str) -> tuple[Path, Path]:
    """Write a new key pair, ``name.key`` and ``name.key_secret`` (mode 0600), and return both paths."""
    folder.mkdir(parents=True, exist_ok=True)
    public, secret = zmq.auth.create_certificates(str(folder), name)
    Path(secret).chmod(0o600)
    return Path(public), Path(secret)


def _check_port(endpoint: str) -> None:
    """Raise :class:`AddressRefused` for a TCP port above 65535. libzmq takes the rest of a division by 65536."""
    port = endpoint.rpartition(":")[2]
    if endpoint.startswith("tcp://") and port.isascii() and port.isdigit() and int(port) > _PORT_MAX:
        raise AddressRefused(f"{endpoint}: a port is at most {_PORT_MAX}")
