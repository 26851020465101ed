"""UserContent: an answer whose body is the content of an event or the reply of a service, byte for byte."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from starlette.responses import Response

from webhooks.message import as_sent

__all__ = ["UserContent", "ended"]

_INERT: Final = {"Content-Security-Policy": "default-src 'none'; sandbox"}
"""Untrusted content, possibly HTML, in the origin of our own pages: a browser must not run it."""


class UserContent(Response):
    """The content with the type that it came with; no route adds anything to it."""

    def __init__(self, body: bytes | None, content_type: str | None, headers: Mapping[str, str]) -> None:
        super().__init__(body, headers={**headers, **_INERT})
        if content_type is not None:
            self.headers["Content-Type"] = as_sent(content_type)


def ended(response: Response) -> Response:
    """Return an answer of our own in JSON with a line feed at its end, and any other as it is."""
    body = getattr(response, "body", b"")  # a streamed answer has no body yet
    if body and not isinstance(response, UserContent) and response.headers.get("content-type") == "application/json":
        response.body = bytes(body) + b"\n"
        response.headers["content-length"] = str(len(response.body))
    return response
