"""Serve TCP connections on loopback while a block runs, and none afterwards: the base of the witness's sinks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from runtime.loopback import loopback

__all__ = ["listening"]

_LINE_BYTES_MAX = 64 * 1024


@asynccontextmanager
async def listening(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[int]:
    """Yield the port that was taken. A connection that ends or breaks the protocol does not affect the others."""
    serving: set[asyncio.Task[Any]] = set()

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        try:
            with suppress(OSError, EOFError, ValueError, TimeoutError, asyncio.LimitOverrunError):
                await serve(reader, writer)
        except asyncio.CancelledError:
            return  # the block has ended; asyncio would log a cancelled handler as an error
        finally:
            serving.discard(task)
            writer.transport.abort()

    server = await asyncio.start_server(accepted, loopback(), 0, limit=_LINE_BYTES_MAX, backlog=1024)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tuple(serving):
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
