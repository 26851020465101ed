"""A receiver as an ASGI application, for any ASGI server and framework."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from hookwire.receive.receiver import ReceiverBase, Response, refused

__all__ = ["Receiver"]

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Receiver(ReceiverBase):
    """An ASGI application whose every path takes deliveries. Mount it, or let a server run it alone."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request; the lifespan of a server that runs it alone is confirmed."""
        if scope["type"] == "lifespan":
            await _live(receive, send)
            return
        if scope["type"] != "http":
            raise ValueError(f"a receiver takes HTTP, not {scope['type']}")
        await _write(send, await self._answer(scope, receive))

    async def _answer(self, scope: Scope, receive: Receive) -> Response:
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        body = await _read(receive, self.policy.bytes_max, headers.get("content-length", "0"))
        if body is None:
            return refused(self.policy.too_large())
        query = scope.get("query_string", b"").decode("latin-1")
        route = scope.get("root_path", "") + scope["path"]
        return await self.answer_async(scope["method"], headers, body, query, route)


async def _read(receive: Receive, bytes_max: int, announced: str) -> bytes | None:
    """Return the body, or None as soon as it is too large."""
    if announced.isascii() and announced.isdigit() and int(announced[:20]) > bytes_max:
        return None
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise asyncio.CancelledError
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > bytes_max:
            return None
        if not message.get("more_body"):
            return b"".join(parts)


async def _write(send: Send, response: Response) -> None:
    headers = {"Content-Length": str(len(response.body)), **response.headers}
    if response.status == 204:
        del headers["Content-Length"]
    pairs = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": response.status, "headers": pairs})
    await send({"type": "http.response.body", "body": response.body})


async def _live(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
