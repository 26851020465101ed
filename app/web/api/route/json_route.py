"""JsonRoute: a route whose JSON answer ends with a line feed, so that a prompt begins on a line of its own (FT-17).

Content of users leaves as it came.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import override

from app.web.api.route.user_content import UserContent

__all__ = ["JsonRoute"]


class JsonRoute(APIRoute):
    """Add the line feed to an answer in JSON that is our own."""

    @override
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the framework's handler, which adds the line feed to its answer."""
        handle = super().get_route_handler()

        async def handle_and_end(request: Request) -> Response:
            return _ended(await handle(request))

        return handle_and_end


def _ended(response: Response) -> Response:
    body = getattr(response, "body", b"")  # a streamed answer has no body yet
    if body and not isinstance(response, UserContent) and response.headers.get("content-type") == "application/json":
        response.body = bytes(body) + b"\n"
        response.headers["content-length"] = str(len(response.body))
    return response
