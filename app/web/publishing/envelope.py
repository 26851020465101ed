"""Envelope: what the request line and the headers of a publish say, before its body is read.

An unknown parameter in the query is refused, unless ``?ignore=`` says that the sender adds it.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final
from urllib.parse import parse_qsl

from starlette.types import Scope

from app.web.header_text import utf8_text
from app.web.problem import Problem
from app.web.publishing.ndjson import MEDIA_TYPE
from app.web.publishing.publish_headers import OWN_PREFIX, add_own_header
from app.web.publishing.query import refuse_unknown
from app.web.scopes import Need
from event.cloudevents import BATCH_TYPE
from event.hops import HOPS_MAX, hops_of
from event.tombstone import TOMBSTONE_HEADER
from event.topic import TopicError, is_reserved, validate_key, validate_topic
from hub.inbound.preset import SENDER_HEADERS

__all__ = [
    "CARRIED", "LINES_TYPE", "Envelope", "is_publish", "key_of", "line_of", "need_of_publish", "read_envelope",
    "take_header", "take_query",
]  # fmt: skip

LINES_TYPE: Final = "application/vnd.hookwire.events+ndjson"
"""A batch whose lines carry key, headers and data, and have an outcome each."""
CARRIED: Final = {b"traceparent": "traceparent", b"tracestate": "tracestate", b"hookwire-replay-of": "replay-of"}
"""Headers of a request that travel with its event, and their names there."""
_PREFIX: Final = "/topics/"
_BATCH_SUFFIX: Final = "/batch"
_SUFFIXES: Final = ("/events", _BATCH_SUFFIX)
_IDEMPOTENCY_KEY_MAX = 255
_TTL_SECONDS_MAX = 31_536_000
_PARAMETERS_MAX = 16
_PARAMETERS = ("key", "partial", "matched", "ignore")
_PLAIN_KEY = re.compile(rb"key=([A-Za-z0-9._~-]{1,255})")
"""A query whose only parameter is a valid key that needs no decoding."""
_TOPICS_MAX = 4_096
_READ_ONCE = frozenset(f"hookwire-{name}".encode() for name in ("key", "hops", "ttl", "retry", "tombstone")) | {
    b"content-type",
    b"idempotency-key",
}


def is_publish(scope: Scope) -> bool:
    """Return whether a request belongs here rather than to the routes of the FastAPI application."""
    path: str = scope["path"]
    # The slashes distinguish /topics/events, a topic of that name, from a topic's events.
    return path.endswith(_SUFFIXES) and path.startswith(_PREFIX) and path.rindex("/") >= len(_PREFIX)


def need_of_publish(scope: Scope) -> Need:
    """Return the rights that such a request needs."""
    return Need(("publish",), reach="topic", name=_topic_text(scope))


@dataclasses.dataclass(slots=True)
class Envelope:
    """The part of the event in the request line and headers. ``asks_batch``: the path is that of batches. ``dropped``
    are headers by which a sender of webhooks is known, which only a door reads.
    """

    topic: str
    content_type: str | None = None
    media_type: str = ""
    key: str | None = None
    idempotency_key: str | None = None
    hops: int = 0
    cloudevent: bool = False
    partial: bool = False
    matched: bool = False
    asks_batch: bool = False
    carried: dict[str, str] = dataclasses.field(default_factory=dict)
    own: dict[str, str] = dataclasses.field(default_factory=dict)
    dropped: list[bytes] = dataclasses.field(default_factory=list)

    @property
    def is_batch(self) -> bool:
        """Return whether the body holds any number of events."""
        return self.media_type in (MEDIA_TYPE, BATCH_TYPE) or self.has_outcomes

    @property
    def has_outcomes(self) -> bool:
        """Return whether each line of the body, or each element of its list, is stored by itself."""
        return self.media_type == LINES_TYPE or self.is_list

    @property
    def is_list(self) -> bool:
        """Return whether the body is a list of what ``LINES_TYPE`` has in its lines."""
        return self.asks_batch and self.media_type == "application/json"

    @property
    def is_parsed(self) -> bool:
        """Return whether the body is read as JSON before it is stored; any other is the event as it is."""
        return self.is_batch or self.media_type.startswith("application/cloudevents")


def read_envelope(scope: Scope) -> Envelope:
    """Read request line and headers; raise ``Problem``."""
    envelope = Envelope(_topic(_topic_text(scope)), asks_batch=scope["path"].endswith(_BATCH_SUFFIX))
    seen: set[bytes] = set()
    for name, value in scope["headers"]:
        if name in _READ_ONCE:
            if name in seen:
                raise Problem("invalid-header", f"{name.decode()} was sent twice.", parameter=name.decode())
            seen.add(name)
            take_header(envelope, name, value)
        elif name in CARRIED:
            envelope.carried[CARRIED[name]] = line_of(name, value, 512)
        elif name.startswith(OWN_PREFIX):
            add_own_header(envelope.own, name, value)
        elif name.startswith(b"ce-"):
            envelope.cloudevent = True
        elif name in SENDER_HEADERS:
            envelope.dropped.append(name)
    if scope["query_string"]:
        take_query(envelope, scope["query_string"])
    if envelope.partial and envelope.media_type != MEDIA_TYPE:
        raise Problem("invalid-parameter", f"partial=true is for {MEDIA_TYPE}.", parameter="partial")
    if envelope.matched and envelope.is_batch:
        raise Problem("invalid-parameter", "matched=true is for one event.", parameter="matched")
    if envelope.asks_batch and not envelope.is_batch:
        detail = f"A batch is {LINES_TYPE}, {MEDIA_TYPE}, {BATCH_TYPE} or application/json (a list)."
        raise Problem("unsupported-media-type", detail)
    if (envelope.idempotency_key is not None or envelope.cloudevent) and envelope.has_outcomes:
        detail = "Each event of this batch has its own idempotency_key and ce- headers; leave the request's out."
        raise Problem("invalid-header", detail, parameter="idempotency-key")
    return envelope


def _topic_text(scope: Scope) -> str:
    path: str = scope["path"]
    return path[len(_PREFIX) : path.rindex("/")]


@lru_cache(maxsize=_TOPICS_MAX)
def _topic(name: str) -> str:
    if is_reserved(name):
        raise Problem("invalid-topic", "Topics that begin with hookwire. are the hub's own; choose another name.")
    try:
        return validate_topic(name)
    except TopicError as error:
        raise Problem("invalid-topic", str(error)) from None


def key_of(text: str) -> str:
    """Return an ordering key that is valid; raise ``Problem``."""
    try:
        return validate_key(text)
    except TopicError as error:
        raise Problem("invalid-key", str(error)) from None


def line_of(name: bytes, value: bytes, bytes_max: int) -> str:
    """Return a header's value as text of at most ``bytes_max`` bytes; raise ``Problem``."""
    text = utf8_text(name.decode(), value)
    if len(value) > bytes_max:
        raise Problem("invalid-header", f"{name.decode()} is longer than {bytes_max} bytes.", parameter=name.decode())
    return text


def take_header(envelope: Envelope, name: bytes, value: bytes) -> None:
    """Read a header that may come once into the envelope; raise ``Problem``."""
    if name == b"content-type":
        envelope.content_type = line_of(name, value, 255) or None
        envelope.media_type = (envelope.content_type or "").partition(";")[0].strip().lower()
    elif name == b"hookwire-key":
        envelope.key = key_of(line_of(name, value, 4096))
    elif name == b"hookwire-hops":
        hops = hops_of(value.decode("latin-1"))
        if hops is None:
            raise Problem(
                "invalid-header", f"This event has passed {HOPS_MAX} hubs or more.", parameter="hookwire-hops"
            )
        envelope.hops = hops
    elif name == b"hookwire-ttl":
        if not value.isdigit() or len(value) > 8 or not 1 <= int(value) <= _TTL_SECONDS_MAX:
            detail = f"Hookwire-Ttl is a number of seconds, 1 to {_TTL_SECONDS_MAX}."
            raise Problem("invalid-header", detail, parameter="hookwire-ttl")
        envelope.carried["hookwire-ttl"] = str(int(value))
    elif name == b"hookwire-retry":
        if value != b"never":
            raise Problem("invalid-header", "Hookwire-Retry is never, or left out.", parameter="hookwire-retry")
        envelope.carried["hookwire-retry"] = "never"
    elif name == b"hookwire-tombstone":
        if value != b"true":
            raise Problem("invalid-header", "Hookwire-Tombstone is true, or left out.", parameter="hookwire-tombstone")
        envelope.carried[TOMBSTONE_HEADER] = "true"
    else:
        key = line_of(name, value, _IDEMPOTENCY_KEY_MAX)
        if not key or not key.isprintable():
            raise Problem("invalid-header", "Idempotency-Key is 1-255 printable bytes.", parameter="idempotency-key")
        envelope.idempotency_key = key


def take_query(envelope: Envelope, query: bytes) -> None:
    """Read the query into the envelope; raise ``Problem``."""
    if envelope.key is None and (plain := _PLAIN_KEY.fullmatch(query)):  # the usual case
        envelope.key = plain[1].decode("ascii")
        return
    try:
        fields = parse_qsl(
            query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_PARAMETERS_MAX
        )
    except (UnicodeDecodeError, ValueError):
        detail = f"The query is not percent-encoded UTF-8, or has more than {_PARAMETERS_MAX} parameters."
        raise Problem("invalid-parameter", detail, parameter="key") from None
    ignored = {part for name, value in fields if name == "ignore" for part in value.split(",")}
    fields = [(name, value) for name, value in fields if name not in ignored]
    refuse_unknown((name for name, _ in fields), _PARAMETERS)
    keys = [value for name, value in fields if name == "key"]
    if len(keys) > 1 or (keys and envelope.key is not None):
        raise Problem("duplicate-parameter", "The key was given more than once.", parameter="key")
    if keys:
        envelope.key = key_of(keys[0])
    envelope.partial = _flag(fields, "partial")
    envelope.matched = _flag(fields, "matched")


def _flag(fields: Sequence[tuple[str, str]], name: str) -> bool:
    given = [value for field, value in fields if field == name]
    if given and given not in (["true"], ["false"]):
        raise Problem("invalid-parameter", f"{name} is true or false.", parameter=name)
    return given == ["true"]
