"""Request line and fields of an outbound request: the bytes before the body.

Fields have three sources: the client (framing, `Host`, `Accept-Encoding`), the calling room (signatures, ids) and
tenants (custom fields of a subscription, attributes of an event). Because of the tenants, every field is checked again
before it is sent, even if it was checked when it was stored (EG-16).
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from egress.failure import Blocked
from egress.url import Target

METHODS: Final = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
"""Methods whose answers are framed alike; HEAD and CONNECT are not and are not needed."""

OWNED_HEADERS: Final = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Fields that belong to this hop or to the framing; only the client sets them (EG-16)."""

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROLS = bytes(code for code in (*range(0x20), 0x7F) if code != 0x09)


class HeaderRefused(ValueError):
    """The header field may not be sent; the text says why and may be shown to the tenant that configured it."""


def request_head(
    method: str, target: Target, headers: Sequence[tuple[str, str]], body_bytes: int, user_agent: bytes
) -> bytes:
    """Build request line and fields; the target is copied, never rebuilt (OB-14).

    Args:
        method: one of `METHODS`.
        target: the destination.
        headers: all other fields.
        body_bytes: length of the body that follows (OB-06: never chunked).
        user_agent: the whole default `User-Agent` line, used when `headers` has none.

    Raises:
        Blocked: a field may not be sent.
    """
    if method not in METHODS:
        raise ValueError(f"method {method} is not supported")
    lines = []
    for name, value in headers:
        if _checked_name(name) == "user-agent":
            user_agent = b""
        lines.append(f"{name}: {value}\r\n")
    length = b"" if method == "GET" and not body_bytes else b"content-length: %d\r\n" % body_bytes
    return b"%b %b HTTP/1.1\r\nhost: %b\r\n%baccept-encoding: identity\r\n%b%b\r\n" % (
        method.encode("ascii"),
        target.request_target,
        target.host_header.encode("ascii"),
        user_agent,
        length,
        _encoded(lines),
    )


def _encoded(lines: list[str]) -> bytes:
    try:
        fields = "".join(lines).encode("latin-1")
    except UnicodeEncodeError as error:
        raise Blocked("a header value is not latin-1 text", "a header is not allowed") from error
    # One pass in C over all fields: only our own line ends may be control characters.
    if len(fields) - len(fields.translate(None, _CONTROLS)) != 2 * len(lines):
        raise Blocked("a header value has a control character", "a header is not allowed")
    return fields


def check_header(name: str, value: str) -> None:
    """Check a field that a tenant adds to its requests (EG-16).

    Raises:
        HeaderRefused: the name is no token or belongs to the client, or the value has a control character or is
            not latin-1.
    """
    if not _TOKEN.fullmatch(name):
        raise HeaderRefused("the header name is malformed")
    if name.lower() in OWNED_HEADERS:
        raise HeaderRefused(f"the header {name.lower()} is set by the sender")
    try:
        encoded = value.encode("latin-1")
    except UnicodeEncodeError:
        raise HeaderRefused(f"the value of header {name.lower()} is not latin-1 text") from None
    if encoded != encoded.translate(None, _CONTROLS):
        raise HeaderRefused(f"the value of header {name.lower()} has a control character")


@lru_cache(maxsize=1024)
def _checked_name(name: str) -> str:
    try:
        check_header(name, "")
    except HeaderRefused as error:
        raise Blocked(str(error), "a header is not allowed") from None
    return name.lower()
