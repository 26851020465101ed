"""WholeBody: the body of a request in one piece, for applications that read it themselves."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import ClientDisconnect
from starlette.types import Receive

__all__ = ["read_whole_body"]


async def read_whole_body(receive: Receive, count: Callable[[int], None] | None = None) -> bytes:
    """Return the whole body; the request limits bound its size. Raises ``ClientDisconnect``.

    ``count`` is called with the bytes of each part, and may raise ``Problem``.
    """
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        parts.append(message.get("body", b""))
        if count is not None:
            count(len(parts[-1]))
        if not message.get("more_body"):
            return b"".join(parts)
