"""``Draft``: an event before its transaction commits. ``Event``: an accepted, stored event.

Headers are CloudEvents attributes in their canonical form: lower-case names ``ce-<attribute>``, values as plain
text (percent-encoding belongs to HTTP alone).  Either all required attributes are there or none.
``ce-datacontenttype`` never appears: it is ``content_type``.
"""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final, NamedTuple

from event.identity import format_event_id

_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


class Draft(NamedTuple):
    """An event that is being published; it has no id before its transaction commits."""

    topic: str
    payload: bytes
    """The body exactly as received; may be empty."""
    key: str | None = None
    """The ordering key; None = this event has no order."""
    content_type: str | None = None
    headers: Mapping[str, str] = _NO_HEADERS
    idempotency_key: str | None = None
    """A second draft with the same key gets the first draft's event as the answer; None = never deduplicated."""


class Event(NamedTuple):
    """An accepted event, as every sink and every delivery sees it."""

    id: int
    """The row's number, which rises per key in commit order."""
    incarnation: str
    topic: str
    key: str | None
    content_type: str | None
    headers: Mapping[str, str]
    payload: bytes
    accepted_at: datetime
    """Time of acceptance by the database's clock; with a time zone."""
    sequence: int | None
    """Position within its key: rising, with gaps; None where the topic keeps no order."""

    @property
    def size_bytes(self) -> int:
        """Return the size of payload and headers, which the limits of memory and of a request count."""
        size = len(self.payload)
        for name, value in self.headers.items():
            size += len(name) + len(value)
        return size

    @property
    def event_id(self) -> str:
        """Return the public id, ``evt_<incarnation>_<id>``."""
        return format_event_id(self.incarnation, self.id)
