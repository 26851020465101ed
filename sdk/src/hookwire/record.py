"""Record: an event to publish, checked before it reaches the caller's transaction.

A statement that PostgreSQL refuses aborts the caller's transaction. So a wrong value raises ValueError here, before the
statement. The rules are those of ``hookwire.publish`` (docs/reference/sql.md), which checks them again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Record"]

_TOPIC_BYTES_MAX = 249
_KEY_BYTES_MAX = 1024
_CONTENT_TYPE_BYTES_MAX = 255
_TOPIC = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*", re.ASCII)
_HEADER_NAME = re.compile(r"[a-z0-9_.-]{1,200}", re.ASCII)
_HEADERS_MAX = 64
_HEADERS_BYTES_MAX = 16_384
_TTL_SECONDS_MAX = 31_536_000
_TTL = re.compile(r"[0-9]{1,8}", re.ASCII)
_PRIVATE = frozenset({"authorization", "cookie", "set-cookie", "x-api-key", "forwarded"})
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Record:
    """An event to publish. Raise ValueError for an invalid value, and TypeError for a payload that JSON cannot encode.

    * ``payload``: ``bytes`` are sent unchanged, ``str`` as UTF-8, any other value as JSON.
    * ``content_type``: by default none for ``bytes``, ``text/plain; charset=utf-8`` for ``str``, else
      ``application/json``.
    * ``key``: events of one topic and key keep the order of their commits.
    * ``headers``: at most 64 and 16 KiB, with lower-case names and one-line values. CloudEvents attributes are
      ``ce-<name>``. ``hookwire-ttl`` (seconds) and ``hookwire-retry`` (``never``) control the deliveries.
    """

    topic: str
    payload: Any = b""
    key: str | None = None
    content_type: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.topic) > _TOPIC_BYTES_MAX or not _TOPIC.fullmatch(self.topic):
            raise ValueError(f"topic {self.topic[:80]!r}: 1-249 of A-Z a-z 0-9 . _ - in dot-separated words")
        if self.key is not None and (not 1 <= len(self.key.encode()) <= _KEY_BYTES_MAX or _CONTROL.search(self.key)):
            raise ValueError("key: 1-1024 bytes without control characters, or None for none")
        if self.content_type is not None and (
            len(self.content_type.encode()) > _CONTENT_TYPE_BYTES_MAX or _CONTROL.search(self.content_type)
        ):
            raise ValueError("content_type: one line of at most 255 bytes")
        for name, value in self.headers.items():
            if not _HEADER_NAME.fullmatch(name) or _CONTROL.search(value):
                raise ValueError(f"header {name[:80]!r}: a lower-case name and a value of one line")
            _check_header(name, value)
        size = len(json.dumps(dict(self.headers), ensure_ascii=False).encode())
        if len(self.headers) > _HEADERS_MAX or size > _HEADERS_BYTES_MAX:
            raise ValueError(f"headers: at most {_HEADERS_MAX}, and {_HEADERS_BYTES_MAX} bytes as JSON; here {size}")
        self.encoded()

    def encoded(self) -> tuple[bytes, str | None]:
        """Return the payload's bytes and their content type."""
        if isinstance(self.payload, bytes | bytearray | memoryview):
            return bytes(self.payload), self.content_type
        if isinstance(self.payload, str):
            return self.payload.encode(), self.content_type or "text/plain; charset=utf-8"
        text = json.dumps(self.payload, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode(), self.content_type or "application/json"

    def arguments(self) -> tuple[str, bytes, str | None, str | None, str]:
        """Return the arguments of ``hookwire.publish``: topic, payload, key, content type, headers as JSON."""
        payload, content_type = self.encoded()
        return self.topic, payload, self.key, content_type, json.dumps(dict(self.headers))


def _check_header(name: str, value: str) -> None:
    """Raise ValueError for the hub's own headers and headers with secrets, as ``hookwire.check_headers`` does."""
    if name == "hookwire-ttl":
        if not _TTL.fullmatch(value) or not 1 <= int(value) <= _TTL_SECONDS_MAX:
            raise ValueError(f"header hookwire-ttl: a number of seconds, 1 to {_TTL_SECONDS_MAX}")
    elif name == "hookwire-retry":
        if value != "never":
            raise ValueError("header hookwire-retry: never, or left out")
    elif name.startswith("hookwire-"):
        raise ValueError(f"header {name}: the hub's own; leave it out")
    elif name in _PRIVATE or name.startswith(("proxy-", "x-forwarded-")):
        raise ValueError(f"header {name}: it would be sent to every subscriber; leave it out")
