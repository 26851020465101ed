"""A TCP wire to one Kafka broker on which requests or answers can be held (IT-02, F20, F54, F56)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

PRODUCE, INIT_PRODUCER, ADD_PARTITIONS, ADD_GROUP, END_TRANSACTION, ADD_OFFSETS = 0, 22, 24, 25, 26, 28
"""API keys of the Kafka protocol."""


class Connection:
    """Both directions of one client's connection; held bytes travel on when they are released."""

    def __init__(self) -> None:
        self.requests = asyncio.Event()
        self.requests.set()
        self.answers = asyncio.Event()
        self.answers.set()


class Wire:
    """Forwards connections; what is held is chosen by the API key of a request.

    ``hold_request`` and ``lose_answer`` take effect once, at the next such request, and for the rest of the
    connection that it came on. ``caught`` is set then. Connections made later are not affected. ``asked``: the API keys
    of all requests, in order.
    """

    def __init__(self, upstream_port: int) -> None:
        self.hold_request: int | None = None
        self.lose_answer: int | None = None
        self.caught = asyncio.Event()
        self.asked: list[int] = []
        self._upstream_port = upstream_port
        self._connections: list[Connection] = []
        self._writers: list[asyncio.StreamWriter] = []

    def cut(self) -> None:
        """Close every connection."""
        for writer in self._writers:
            writer.close()

    def release(self) -> None:
        """Let everything that is held go on its way."""
        for connection in self._connections:
            connection.requests.set()
            connection.answers.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            broker_reader, broker_writer = await asyncio.open_connection("127.0.0.1", self._upstream_port)
        except OSError:
            writer.close()
            return
        connection = Connection()
        self._connections.append(connection)
        self._writers += [writer, broker_writer]
        await asyncio.gather(
            self._requests(connection, reader, broker_writer), _pump(connection.answers, broker_reader, writer)
        )

    async def _requests(
        self, connection: Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            while True:
                frame = await reader.readexactly(int.from_bytes(size := await reader.readexactly(4)))
                self._look_at(connection, int.from_bytes(frame[:2]))
                await connection.requests.wait()
                writer.write(size + frame)
        except (asyncio.IncompleteReadError, OSError):
            writer.close()

    def _look_at(self, connection: Connection, api_key: int) -> None:
        self.asked.append(api_key)
        if api_key == self.hold_request:
            self.hold_request = None
            connection.requests.clear()
            self.caught.set()
        if api_key == self.lose_answer:
            self.lose_answer = None
            connection.answers.clear()
            self.caught.set()


async def _pump(gate: asyncio.Event, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            await gate.wait()
            writer.write(data)
    except OSError:
        pass
    writer.close()


@asynccontextmanager
async def wire_to(listen_port: int, upstream_port: int) -> AsyncIterator[Wire]:
    wire = Wire(upstream_port)
    server = await asyncio.start_server(wire.serve, "127.0.0.1", listen_port)
    try:
        yield wire
    finally:
        wire.release()
        wire.cut()
        server.close()
