"""The text of a request's header: ASGI servers decode each byte as a character, and senders mean UTF-8."""

from __future__ import annotations

from starlette.requests import Request

from app.web.problem import Problem

__all__ = ["header_text", "utf8_text"]


def header_text(request: Request, name: str) -> str | None:
    """Return a header's value read as UTF-8, as Latin-1 if it is no UTF-8, and None if it was not sent."""
    value = request.headers.get(name)
    if value is None or value.isascii():
        return value
    try:
        return value.encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        return value


def utf8_text(name: str, value: bytes) -> str:
    """Return a header's value as the UTF-8 that it has to be; raise ``Problem``."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        raise Problem("invalid-header", f"{name} is not UTF-8.", parameter=name) from None
