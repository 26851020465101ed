"""A webhook receiver that only answers 204 and counts; it runs in a process of its own.

Start it by ``python -m benchmarks.sink PORT``. GET /count returns the number of POSTs, and the first and the last
arrival. GET /latencies returns each latency in seconds. Three paths are not counted. A POST to /dead gets no answer. A
POST to /slow gets its answer after two seconds. A POST to /endless gets an endless answer.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import cast

import uvloop

_NO_CONTENT = b"HTTP/1.1 204 No Content\r\n\r\n"


class _Counter:
    count = 0
    first = 0.0
    last = 0.0
    latencies: list[float] = []  # noqa: RUF012 - one per process


class _Sink(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._buffer = b""

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer + data
        while True:
            end = buffer.find(b"\r\n\r\n")
            if end < 0:
                break
            head = buffer[:end]
            at = head.lower().find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(buffer) < end + 4 + length:
                break
            self._answer(head, buffer[end + 4 : end + 4 + length])
            buffer = buffer[end + 4 + length :]
        self._buffer = buffer

    def _answer(self, head: bytes, body: bytes) -> None:
        if head.startswith(b"GET /latencies"):
            listed = " ".join([str(one) for one in _Counter.latencies]).encode()
            self._transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(listed) + listed)
            return
        if head.startswith(b"GET"):
            latencies = sorted(_Counter.latencies) or [0.0]
            p50, p99 = latencies[len(latencies) // 2], latencies[int(len(latencies) * 0.99)]
            text = f"{_Counter.count} {_Counter.first} {_Counter.last} {p50} {p99}".encode()
            self._transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(text) + text)
            return
        if head.startswith(b"DELETE"):
            _Counter.count, _Counter.latencies = 0, []
            self._transport.write(_NO_CONTENT)
            return
        if head.startswith(b"POST /dead"):
            return
        if head.startswith(b"POST /slow"):
            asyncio.get_running_loop().call_later(2.0, self._transport.write, _NO_CONTENT)
            return
        if head.startswith(b"POST /endless"):
            self._transport.write(b"HTTP/1.1 200 OK\r\n\r\n" + bytes(1024 * 1024))
            return
        now = time.time()
        if _Counter.count == 0:
            _Counter.first = now
        _Counter.count += 1
        _Counter.last = now
        if body.startswith(b"t="):
            _Counter.latencies.append(now - float(body[2:20]))
        self._transport.write(_NO_CONTENT)


async def _main(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(_Sink, "0.0.0.0", port, backlog=4096)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_main(int(sys.argv[1])))
