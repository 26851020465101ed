"""The receiver of all products: it notes when each copy of each event came, and answers 204.

``python -m benchmarks.peers.sink PORT``. GET /BURST returns a line for each copy of that burst: the event's number and
the monotonic time. Then it forgets them. A POST without a mark is answered alike and noted nowhere.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import defaultdict
from typing import cast

import httptools
import uvloop

from benchmarks.peers.mark import MARK

__all__ = ["main"]

_NO_CONTENT = b"HTTP/1.1 204 No Content\r\n\r\n"
_arrived: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)


class _Receiver(asyncio.Protocol):
    """One connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._parser = httptools.HttpRequestParser(self)
        self._path, self._body = b"", b""

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._transport.close()

    def on_url(self, path: bytes) -> None:
        self._path, self._body = path, b""

    def on_body(self, part: bytes) -> None:
        self._body += part

    def on_message_complete(self) -> None:
        if self._parser.get_method() == b"GET":
            listed = _arrived.pop(self._path.decode().strip("/"), [])
            text = "".join([f"{number} {at:.6f}\n" for number, at in listed]).encode()
            self._transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(text) + text)
            return
        for burst, number in set(MARK.findall(self._body)):  # an envelope may name an event twice
            _arrived[burst.decode()].append((int(number), time.monotonic()))
        self._transport.write(_NO_CONTENT)


async def _main(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(_Receiver, "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


def main() -> None:
    """Run the command line."""
    uvloop.run(_main(int(sys.argv[1])))


if __name__ == "__main__":
    main()
