"""StaticAnswer: an answer that is the same for everybody. It is made once, compressed once, and sent in pieces."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

__all__ = ["StaticAnswer"]

_PIECE_BYTES: Final = 64 * 1024  # the most that a peer that does not read holds in memory, beside the socket's buffer
_GZIP_BYTES_MIN: Final = 1_024


class StaticAnswer:
    """A body with its media type and headers; ``response`` fits it to a request (RFC 9110, 8.8.3 and 12.5.3)."""

    def __init__(self, body: bytes, media_type: str, headers: Mapping[str, str]) -> None:
        self._plain = body
        self._zipped = gzip.compress(body, mtime=0) if len(body) >= _GZIP_BYTES_MIN else body
        self._media_type = media_type
        tag = f'W/"{hashlib.sha256(body).hexdigest()[:32]}"'  # weak: the two encodings share it
        vary = ", ".join(filter(None, (headers.get("vary"), "Accept-Encoding")))
        self._headers = {**headers, "vary": vary, "etag": tag}

    def response(self, request: Request) -> Response:
        """Return 304 if the client has this body, else the body, compressed if the client accepts gzip."""
        if self._headers["etag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=self._headers)
        if self._zipped is not self._plain and _accepts_gzip(request.headers.get("accept-encoding", "")):
            headers = {**self._headers, "content-encoding": "gzip"}
            return _InPieces(self._zipped, headers=headers, media_type=self._media_type)
        return _InPieces(self._plain, headers=self._headers, media_type=self._media_type)


class _InPieces(Response):
    """Sends the body piece by piece, so that the server waits for a slow reader between two of them."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        body = memoryview(self.body)
        for start in range(0, max(len(body), 1), _PIECE_BYTES):
            more = start + _PIECE_BYTES < len(body)
            piece = bytes(body[start : start + _PIECE_BYTES])
            await send({"type": "http.response.body", "body": piece, "more_body": more})


def _accepts_gzip(accepted: str) -> bool:
    for one in accepted.lower().split(","):
        coding, _, parameters = one.partition(";")
        if coding.strip() in ("gzip", "*"):
            return parameters.replace(" ", "").rstrip("0.") != "q="
    return False
