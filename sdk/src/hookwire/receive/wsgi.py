"""A receiver as a WSGI application, for any WSGI server and framework. Handlers are plain functions."""

from __future__ import annotations

import http
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hookwire.receive.receiver import ReceiverBase, Response, refused

__all__ = ["Receiver"]

_PIECE_BYTES = 64 * 1024


class Receiver(ReceiverBase):
    """A WSGI application whose every path takes deliveries."""

    def __call__(self, environ: Mapping[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Serve a request."""
        response = self.respond(environ)
        headers = dict(response.headers)
        if response.status != 204:
            headers["Content-Length"] = str(len(response.body))
        headers.pop("Connection", None)  # a WSGI application may not send it
        phrase = http.HTTPStatus(response.status).phrase
        start_response(f"{response.status} {phrase}", list(headers.items()))
        return [response.body]

    def respond(self, environ: Mapping[str, Any]) -> Response:
        """Return the answer to the request of this environment."""
        headers = {
            name[5:].replace("_", "-").lower(): value for name, value in environ.items() if name.startswith("HTTP_")
        }
        if environ.get("CONTENT_TYPE"):
            headers["content-type"] = environ["CONTENT_TYPE"]
        body = _read(environ, self.policy.bytes_max)
        if body is None:
            return refused(self.policy.too_large())
        route = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
        return self.answer(environ["REQUEST_METHOD"], headers, body, environ.get("QUERY_STRING", ""), route)


def _read(environ: Mapping[str, Any], bytes_max: int) -> bytes | None:
    """Return the body, or None as soon as it is too large."""
    announced = environ.get("CONTENT_LENGTH") or ""
    stream = environ["wsgi.input"]
    if announced.isascii() and announced.isdigit():
        length = int(announced[:20])
        return None if length > bytes_max else stream.read(length)
    if not environ.get("wsgi.input_terminated"):
        return b""
    parts, size = [], 0
    while part := stream.read(_PIECE_BYTES):
        parts.append(part)
        size += len(part)
        if size > bytes_max:
            return None
    return b"".join(parts)
