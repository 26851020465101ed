"""Custom headers of a delivery: a publisher's for its event, a subscriber's for all its deliveries (WH-04, WH-05)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from egress.header import OWNED_HEADERS, HeaderRefused, check_header

__all__ = ["HEADERS_BYTES_MAX", "HEADERS_MAX", "checked_headers", "is_coding", "is_ours", "is_private"]

HEADERS_MAX: Final = 20
HEADERS_BYTES_MAX: Final = 8192
_OUR_NAMES = OWNED_HEADERS | {"content-type", "link", "user-agent"}
_OUR_PREFIXES = ("hookwire-", "webhook-", "x-hub-", "ce-")
_PRIVATE_NAMES = frozenset({"authorization", "cookie", "set-cookie", "x-api-key", "forwarded"})
_PRIVATE_PREFIXES = ("proxy-", "x-forwarded-")


def is_ours(name: str) -> bool:
    """Return whether only the hub may set this header: framing, signatures, our own names (WH-05). ``name`` is in lower
    case.
    """
    return name in _OUR_NAMES or name.startswith(_OUR_PREFIXES)


def is_coding(name: str) -> bool:
    """Return whether a header says how the body is encoded. No event or delivery may have it, because subscribers
    get the very bytes that were published (GS-08). ``name`` is in lower case.
    """
    return name == "content-encoding"


def is_private(name: str) -> bool:
    """Return whether a header is between publisher and hub, such as credentials; no event carries it (FS-13, FS-14).

    ``name`` is in lower case. A subscriber may set such a header for its own callback.
    """
    return name in _PRIVATE_NAMES or name.startswith(_PRIVATE_PREFIXES)


def checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return a subscriber's headers with lower-case names; raises ``egress.header.HeaderRefused``."""
    checked: dict[str, str] = {}
    for name, value in headers.items():
        check_header(name, value)
        lower = name.lower()
        if is_ours(lower) or is_coding(lower):
            raise HeaderRefused(f"the header {lower} is set by the hub")
        if lower in checked:
            raise HeaderRefused(f"the header {lower} is given twice")
        checked[lower] = value
    size = sum(len(name) + len(value) for name, value in checked.items())
    if len(checked) > HEADERS_MAX or size > HEADERS_BYTES_MAX:
        raise HeaderRefused(f"at most {HEADERS_MAX} headers of {HEADERS_BYTES_MAX} bytes in all")
    return checked
