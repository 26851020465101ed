"""JsonRoute: a route whose JSON answer ends with a line feed, so that a prompt begins on a line of its own.

Content of users leaves as it came.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Scope
from typing_extensions import override

from app.web.api.route.user_content import ended

__all__ = ["JsonRoute"]


class JsonRoute(APIRoute):
    """Add the line feed to an answer in JSON that is our own."""

    def __init__(self, path: str, *arguments: Any, **options: Any) -> None:
        super().__init__(path, *arguments, **options)
        self._beginning = path.partition("{")[0]

    @override
    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Judge the beginning of the path first. Most routes are not meant, and the framework's check costs more."""
        if not scope.get("root_path") and not scope["path"].startswith(self._beginning):
            return Match.NONE, {}
        return super().matches(scope)

    @override
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the framework's handler, which adds the line feed to its answer."""
        handle = super().get_route_handler()

        async def handle_and_end(request: Request) -> Response:
            return ended(await handle(request))

        return handle_and_end
