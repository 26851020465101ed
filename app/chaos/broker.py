"""Our own small AMQP broker: one exchange, one queue behind it, and a witness's arrival log.

It replaces RabbitMQ where none is installed, and does everything that the relay's promises depend on. It confirms only
logged messages, and returns messages that no queue takes (``bound`` False). It gives an exclusive queue to one
connection at a time. It drops a connection that was silent for ``silence_seconds``, with its exclusive queues. Nothing
can be consumed: the queue *is* the log.

::

    client --- Start, Tune, Open ---> open --- Channel.Open, Confirm.Select ---> publishing
                                       |   Queue.Declare exclusive: held by another  --> Channel.Close 405
                                       |   Basic.Publish: bound                      --> log line, then Ack
                                       '                  not bound, mandatory       --> Return 312, then Ack
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from app.chaos.amqp_wire import (
    BODY,
    FRAME_BYTES_MAX,
    HEADER,
    HEARTBEAT,
    METHOD,
    Frame,
    Method,
    Properties,
    Reader,
    frame,
    method,
    properties_of,
    read_frame,
    table,
)
from app.chaos.arrivals import ArrivalWriter
from app.chaos.listening import listening
from app.chaos.log import LineLog
from app.chaos.mark import Mark
from runtime.loopback import at_loopback

__all__ = ["ChaosBroker", "open_broker"]

START, START_OK, TUNE, TUNE_OK = Method(10, 10), Method(10, 11), Method(10, 30), Method(10, 31)
OPEN, OPEN_OK, CLOSE, CLOSE_OK = Method(10, 40), Method(10, 41), Method(10, 50), Method(10, 51)
CHANNEL_OPEN, CHANNEL_OPEN_OK = Method(20, 10), Method(20, 11)
CHANNEL_CLOSE, CHANNEL_CLOSE_OK = Method(20, 40), Method(20, 41)
EXCHANGE_DECLARE, EXCHANGE_DECLARE_OK = Method(40, 10), Method(40, 11)
QUEUE_DECLARE, QUEUE_DECLARE_OK = Method(50, 10), Method(50, 11)
PUBLISH, RETURN, ACK = Method(60, 40), Method(60, 50), Method(60, 80)
CONFIRM_SELECT, CONFIRM_SELECT_OK = Method(85, 10), Method(85, 11)
_ANSWERED = {
    OPEN: (OPEN_OK, b"\0"),
    CHANNEL_OPEN: (CHANNEL_OPEN_OK, struct.pack(">I", 0)),
    CHANNEL_CLOSE: (CHANNEL_CLOSE_OK, b""),
    EXCHANGE_DECLARE: (EXCHANGE_DECLARE_OK, b""),
    CONFIRM_SELECT: (CONFIRM_SELECT_OK, b""),
}
_CAPABILITIES = ("publisher_confirms", "basic.nack", "connection.blocked", "authentication_failure_close")
_EXCLUSIVE = 1 << 2
_HEARTBEAT_SECONDS = 1.0


@dataclass(slots=True)
class _Message:
    """A message whose frames are still coming in."""

    exchange: str
    routing_key: str
    header: bytes = b""
    properties: Properties | None = None
    body: bytes = b""

    @property
    def is_whole(self) -> bool:
        return self.properties is not None and len(self.body) >= self.properties.body_bytes


class ChaosBroker:
    """The broker. ``bound``: whether a queue takes messages. ``arrived`` counts the logged messages."""

    def __init__(self, log: LineLog, silence_seconds: float) -> None:
        self.port = 0
        self.bound = True
        self.arrived = 0
        self.exclusive: dict[str, ChaosConnection] = {}
        self.silence_seconds = silence_seconds
        self._writer = ArrivalWriter(log, "amqp")
        self._connections: set[ChaosConnection] = set()

    @property
    def url(self) -> str:
        """Return the value for HOOKWIRE_AMQP_URL."""
        return f"amqp://guest:guest@{at_loopback(self.port)}/"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection, to its end."""
        connection = ChaosConnection(self, reader, writer)
        self._connections.add(connection)
        try:
            await connection.run()
        finally:
            self._connections.discard(connection)
            self.exclusive = {name: owner for name, owner in self.exclusive.items() if owner is not connection}

    def keep(self, body: bytes, properties: Properties) -> None:
        """Log a message; only then may it be confirmed."""
        term, sequence = properties.headers.get("hookwire-term"), properties.headers.get("hookwire-sequence")
        self._writer.record(
            Mark.from_payload(body),
            event_id=properties.message_id,
            sequence=sequence if isinstance(sequence, int) else None,
            term=term if isinstance(term, int) else None,
            stream="queue",
        )
        self.arrived += 1

    def cut(self) -> None:
        """Reset every connection, as a crash of the broker would."""
        for connection in tuple(self._connections):
            connection.abort()


class ChaosConnection:
    """One client."""

    def __init__(self, broker: ChaosBroker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._broker = broker
        self._reader = reader
        self._writer = writer
        self._messages: dict[int, _Message] = {}
        self._tags: dict[int, int] = {}

    def abort(self) -> None:
        """Reset it."""
        self._writer.transport.abort()

    async def run(self) -> None:
        """Greet, then answer frame by frame; a heartbeat goes out once a second."""
        if await self._reader.readexactly(8) != b"AMQP\0\0\x09\x01":
            raise ValueError("not AMQP 0-9-1")
        properties = table({"product": "hookwire witness", "capabilities": dict.fromkeys(_CAPABILITIES, True)})
        self._send(method(0, START, b"\0\x09", properties, _long("PLAIN"), _long("en_US")))
        beat = asyncio.ensure_future(self._beat())
        try:
            while await self._step():
                pass
        finally:
            beat.cancel()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(_HEARTBEAT_SECONDS)
            self._send(frame(HEARTBEAT, 0, b""))

    async def _step(self) -> bool:
        """Handle one frame; return False after a close."""
        async with asyncio.timeout(self._broker.silence_seconds):
            got = await read_frame(self._reader)
        if got.kind == METHOD:
            return self._method(got)
        message = self._messages.get(got.channel)
        if message is not None and got.kind in (HEADER, BODY):
            if got.kind == HEADER:
                message.header, message.properties = got.payload, properties_of(got.payload)
            else:
                message.body += got.payload
            if message.is_whole:
                del self._messages[got.channel]
                self._published(got.channel, message)
        return True

    def _method(self, got: Frame) -> bool:
        reader = Reader(got.payload)
        which = Method(reader.number(">H"), reader.number(">H"))
        if which in _ANSWERED:
            answer, arguments = _ANSWERED[which]
            self._send(method(got.channel, answer, arguments))
        if which == START_OK:
            self._send(method(0, TUNE, 2047, struct.pack(">I", FRAME_BYTES_MAX), int(_HEARTBEAT_SECONDS)))
        elif which == QUEUE_DECLARE:
            self._declare(got.channel, reader)
        elif which == PUBLISH:
            reader.number(">H")
            self._messages[got.channel] = _Message(reader.short_text(), reader.short_text())
        elif which == CLOSE:
            self._send(method(0, CLOSE_OK))
            return False
        elif which == CHANNEL_OPEN:
            self._tags[got.channel] = 0
        return True

    def _declare(self, channel: int, reader: Reader) -> None:
        reader.number(">H")
        name, bits = reader.short_text(), reader.number(">B")
        if bits & _EXCLUSIVE:
            owner = self._broker.exclusive.setdefault(name, self)
            if owner is not self:
                text = f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{name}'"
                self._send(method(channel, CHANNEL_CLOSE, 405, text, *QUEUE_DECLARE))
                return
        self._send(method(channel, QUEUE_DECLARE_OK, name, struct.pack(">II", 0, 0)))

    def _published(self, channel: int, message: _Message) -> None:
        assert message.properties is not None
        self._tags[channel] += 1
        if message.exchange and self._broker.bound:
            self._broker.keep(message.body, message.properties)
        elif message.exchange:
            self._send(method(channel, RETURN, 312, "NO_ROUTE", message.exchange, message.routing_key))
            self._send(frame(HEADER, channel, message.header))
            for start in range(0, len(message.body), FRAME_BYTES_MAX - 8):
                self._send(frame(BODY, channel, message.body[start : start + FRAME_BYTES_MAX - 8]))
        self._send(method(channel, ACK, struct.pack(">QB", self._tags[channel], 0)))

    def _send(self, data: bytes) -> None:
        if not self._writer.is_closing():
            self._writer.write(data)


def _long(text: str) -> bytes:
    return struct.pack(">I", len(text)) + text.encode()


@asynccontextmanager
async def open_broker(folder: Path, silence_seconds: float = 3.0) -> AsyncIterator[ChaosBroker]:
    """Listen on a free loopback port while the block runs; the log is ``folder/arrivals-amqp.jsonl``."""
    with LineLog(folder / "arrivals-amqp.jsonl") as log:
        broker = ChaosBroker(log, silence_seconds)
        async with listening(broker.serve) as broker.port:
            yield broker
