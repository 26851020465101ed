"""A peer that does not answer PING, as some libraries: a raw connection that speaks ZMTP 3.0 (HB-11)."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from reqrep.majordomo.options import BrokerOptions
from tests.reqrep.running import WAIT_SECONDS, running_broker

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + b"\0" + bytes(31)
READY = b"\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER"
COMMAND, LAST, MORE = 4, 0, 1


class DeafPeer:
    """A client that answers no PING."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._stream = connection.makefile("rb")
        connection.sendall(GREETING)
        self._stream.read(64)
        self._put(COMMAND, READY)

    def _put(self, flags: int, body: bytes) -> None:
        self._connection.sendall(bytes([flags, len(body)]) + body)

    def ask(self, service: bytes, body: bytes) -> None:
        for flags, frame in ((MORE, b""), (MORE, b"MDPC01"), (MORE, service), (LAST, body)):
            self._put(flags, frame)

    def frame(self) -> tuple[int, bytes] | None:
        """Return the next frame and its flags, or None at the end of the connection."""
        head = self._stream.read(2)
        return (head[0], self._stream.read(head[1])) if len(head) == 2 else None


@contextmanager
def deaf_peer(endpoint: str) -> Iterator[DeafPeer]:
    address = ("127.0.0.1", int(endpoint.rpartition(":")[2]))
    with socket.create_connection(address, WAIT_SECONDS) as connection:
        yield DeafPeer(connection)


def frames_until(peer: DeafPeer, last: bytes) -> list[tuple[int, bytes]]:
    """The frames up to one with this body, or up to the end of the connection."""
    found = []
    while (frame := peer.frame()) is not None:
        found.append(frame)
        if frame == (LAST, last):
            break
    return found


@pytest.mark.parametrize("is_on", [True, False], ids=["on", "off"])
def test_a_peer_that_answers_no_ping_needs_them_switched_off(is_on: bool) -> None:
    """GM-01: switched on, the broker closes its connection after a while; switched off, there is no PING."""
    options = BrokerOptions(heartbeat_seconds=0.1, zmtp_heartbeats=is_on)
    with running_broker(options=options) as broker, deaf_peer(broker.endpoints[0]) as peer:
        if not is_on:
            peer.ask(b"mmi.service", b"echo")
        frames = frames_until(peer, b"404")
    pings = [flags for flags, body in frames if flags == COMMAND and body.startswith(b"\x04PING")]
    assert (bool(pings), (LAST, b"404") in frames) == (is_on, not is_on)
