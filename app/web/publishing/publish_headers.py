"""Headers of a publisher's own: ``Hookwire-Header-<name>: value`` is the event's header ``<name>``.

The rules are those of ``hookwire.publish``: the hub's own headers, and headers that may hold a secret, are refused.
"""

from __future__ import annotations

import re
from typing import Final

from app.web.header_text import utf8_text
from app.web.problem import Problem
from webhooks.custom_header import is_coding, is_ours, is_private

__all__ = ["OWN_PREFIX", "add_own_header"]

OWN_PREFIX: Final = b"hookwire-header-"
_HEADERS_MAX: Final = 64
_HEADERS_BYTES_MAX: Final = 16_384
_NAME = re.compile(r"[a-z0-9_.-]{1,200}")


def add_own_header(own: dict[str, str], field: bytes, value: bytes) -> None:
    """Add a request field as the event's header; raise ``Problem``."""
    parameter = field.decode("latin-1")
    name = parameter[len(OWN_PREFIX) :]
    if not _NAME.fullmatch(name) or name in own:
        detail = f"{parameter} names no header, or names it twice: 1-200 of a-z 0-9 _ . - follow Hookwire-Header-."
        raise Problem("invalid-header", detail, parameter=parameter)
    if is_ours(name) or is_private(name) or is_coding(name):
        detail = f"{name} is the hub's own header, or one that would mislead or reach every subscriber; leave it out."
        raise Problem("invalid-header", detail, parameter=parameter)
    own[name] = utf8_text(parameter, value)
    if "\t" in own[name]:
        raise Problem("invalid-header", f"{parameter} holds a control character.", parameter=parameter)
    if len(own) > _HEADERS_MAX or sum(len(n) + len(v.encode()) for n, v in own.items()) > _HEADERS_BYTES_MAX:
        detail = f"An event has at most {_HEADERS_MAX} headers of its own, {_HEADERS_BYTES_MAX} bytes in all."
        raise Problem("invalid-header", detail, parameter=parameter)
