"""POST /topics/{topic}/events: the hot path, a plain ASGI application inside the service.

The body is the event, byte for byte. Headers add to it: ``Hookwire-Key`` (or ``?key=``) is the ordering key, and
``Idempotency-Key`` makes repeats safe. ``ce-*`` are CloudEvents attributes, ``Hookwire-Header-*`` the publisher's own
headers. ``Hookwire-Tombstone`` says that there is no value. Two types make a batch:
``application/x-ndjson`` (one event per line) and ``application/cloudevents-batch+json``. The answer is 202 only after
COMMIT. Its header ``Hookwire-Notice`` says when the event has no receiver.

An unknown parameter in the query is refused, unless ``?ignore=`` says that the sender adds it (ADR 33).
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
import re
import time
from collections.abc import Sequence
from functools import lru_cache
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from app.web.header_text import utf8_text
from app.web.problem import Problem
from app.web.publishing.ndjson import MEDIA_TYPE, PARSED_HERE_BYTES_MAX, lines_of
from app.web.publishing.notice import Notices, notice_of_size
from app.web.publishing.publish_headers import OWN_PREFIX, add_own_header
from app.web.publishing.request_log import RequestLog
from app.web.query import refuse_unknown
from app.web.scopes import Need
from db.errors import DatabaseError, OutcomeUnknown, Unavailable
from event.cloudevents import BATCH_TYPE, CloudEventError, decode_http
from event.event import Draft
from event.hops import HOPS_HEADER, HOPS_MAX, hops_of
from event.identity import format_event_id
from event.strict_json import StrictJsonError, loads
from event.timestamp import format_timestamp
from event.tombstone import TOMBSTONE_HEADER, is_tombstone
from event.topic import TopicError, is_reserved, validate_key, validate_topic
from hub.publish import (
    Accepted,
    IdempotencyConflict,
    IdempotencyInFlight,
    KeyBusy,
    Overloaded,
    Publisher,
    PublishRefused,
)
from hub.topics import Topics, UnknownTopic
from runtime.sample import EventSample

__all__ = ["Ingest", "is_publish", "need_of_publish"]

_PREFIX = "/topics/"
_SUFFIX = "/events"
_IDEMPOTENCY_KEY_MAX = 255
_TTL_SECONDS_MAX = 31_536_000
_PARAMETERS_MAX = 16
_PARAMETERS = ("key", "partial", "matched", "ignore")
_PLAIN_KEY = re.compile(rb"key=([A-Za-z0-9._~-]{1,255})")
"""A query whose only parameter is a valid key that needs no decoding."""
_TOPICS_MAX = 4_096
_JSON = json.JSONEncoder(separators=(",", ":"))
_READ_ONCE = frozenset(f"hookwire-{name}".encode() for name in ("key", "hops", "ttl", "retry", "tombstone")) | {
    b"content-type",
    b"idempotency-key",
}
_CARRIED = {b"traceparent": "traceparent", b"tracestate": "tracestate", b"hookwire-replay-of": "replay-of"}


def is_publish(scope: Scope) -> bool:
    """Return whether a request belongs here rather than to the routes of the FastAPI application."""
    path: str = scope["path"]
    # The length distinguishes /topics/events, a topic of that name, from a topic's events.
    return path.endswith(_SUFFIX) and path.startswith(_PREFIX) and len(path) >= len(_PREFIX) + len(_SUFFIX)


def need_of_publish(scope: Scope) -> Need:
    """Return the rights that such a request needs."""
    return Need(("publish",), reach="topic", name=scope["path"][len(_PREFIX) : -len(_SUFFIX)])


@dataclasses.dataclass(slots=True)
class _Envelope:
    """The part of the event in the request line and headers."""

    topic: str
    content_type: str | None = None
    media_type: str = ""
    key: str | None = None
    idempotency_key: str | None = None
    hops: int = 0
    cloudevent: bool = False
    partial: bool = False
    matched: bool = False
    carried: dict[str, str] = dataclasses.field(default_factory=dict)
    own: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def is_batch(self) -> bool:
        """Return whether the body holds any number of events."""
        return self.media_type in (MEDIA_TYPE, BATCH_TYPE)

    @property
    def is_parsed(self) -> bool:
        """Return whether the body is read as JSON before it is stored; any other is the event as it is."""
        return self.media_type == MEDIA_TYPE or self.media_type.startswith("application/cloudevents")


class Ingest:
    """The ASGI application. ``incarnation`` is the installation's; ``event_bytes_max`` bounds each event of a batch."""

    def __init__(
        self, publisher: Publisher, topics: Topics, notices: Notices, incarnation: str, event_bytes_max: int,
        log_sample: EventSample, *, has_kafka: bool = False,
    ) -> None:  # fmt: skip
        self._has_kafka = has_kafka
        self._publisher = publisher
        self._topics = topics
        self._notices = notices
        self._incarnation = incarnation
        self._event_bytes_max = event_bytes_max
        self._request_log = RequestLog(log_sample, incarnation)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one publish; raises :class:`Problem` for everything that is refused."""
        if scope["method"] != "POST":
            raise Problem("method-not-allowed", "This address answers to POST.", headers={"Allow": "POST"})
        started = time.monotonic()
        envelope = _envelope(scope)
        body = await _read(receive)
        if envelope.is_parsed and len(body) > PARSED_HERE_BYTES_MAX:
            drafts, refused = await asyncio.to_thread(self._read_drafts, envelope, scope, body)
        else:
            drafts, refused = self._read_drafts(envelope, scope, body)
        fingerprint = _named(envelope, drafts, body)
        await self._admit(envelope.topic)
        notice = (self._has_kafka and notice_of_size(drafts)) or _notice_of_body(envelope, body) or None
        if notice is None and drafts and not self._notices.has_receiver(envelope.topic):
            storing = self._store(drafts, fingerprint)
            accepted, notice = await asyncio.gather(storing, self._notices.of(envelope.topic))
        else:
            accepted = await self._store(drafts, fingerprint) if drafts else []
        if accepted:
            self._request_log.write(scope, started, len(body), accepted, len(refused))
        items = [self._item(one) for one in accepted]
        if envelope.matched:
            items[0]["matched"] = await self._notices.matched(accepted[0].id, scope.get("state", {}).get("grant"))
        for position, problem in sorted(refused.items()):
            items.insert(position, _refused_item(problem))
        replayed = bool(accepted) and all(one.replayed for one in accepted)
        await self._answer(send, items, notice, batch=envelope.is_batch, replayed=replayed)

    def _read_drafts(self, envelope: _Envelope, scope: Scope, body: bytes) -> tuple[list[Draft], dict[int, Problem]]:
        """Return the events of a body, and for a partial batch the reasons of refused ones, by position."""
        if envelope.partial:
            return self._sorted_out(envelope, body)
        drafts = _drafts(envelope, scope, body)
        for number, draft in enumerate(drafts, 1):
            self._check_size(draft, number)
        return drafts, {}

    def _check_size(self, draft: Draft, number: int) -> None:
        """Check each event: the body's size is limited, but a batch may still hold an event that is too large."""
        if len(draft.payload) > self._event_bytes_max:
            detail = f"Event {number} has {len(draft.payload)} bytes, at most {self._event_bytes_max} are accepted."
            raise Problem("body-too-large", detail, limit_bytes=self._event_bytes_max)

    def _sorted_out(self, envelope: _Envelope, body: bytes) -> tuple[list[Draft], dict[int, Problem]]:
        """Return the lines that can be stored, and the reasons of refused ones, by position (WH-A02)."""
        drafts: list[Draft] = []
        refused: dict[int, Problem] = {}
        for position, (number, line) in enumerate(lines_of(body, "events")):
            try:
                draft = _line_draft(envelope, number, line)
                self._check_size(draft, position + 1)
            except Problem as problem:
                refused[position] = Problem("line-refused", problem.detail, status=problem.status)
            else:
                drafts.append(draft)
        if refused and not drafts:
            raise Problem("malformed-batch", f"No event of it can be stored; the first: {refused[0].detail}")
        return _with_carried(envelope, drafts), refused

    async def _admit(self, topic: str) -> None:
        try:
            await self._topics.admit(topic)
        except UnknownTopic:
            raise Problem("unknown-topic", f"There is no topic {topic}, and creating topics is turned off.") from None
        except DatabaseError as error:
            raise Problem("database-unavailable") from error

    async def _store(self, drafts: Sequence[Draft], fingerprint: bytes | None) -> list[Accepted]:
        try:
            return await self._publisher.publish(drafts, fingerprint)
        except IdempotencyConflict:
            raise Problem("idempotency-key-reused") from None
        except IdempotencyInFlight:
            raise Problem("idempotency-key-in-flight") from None
        except KeyBusy:
            raise Problem("busy", "Another transaction holds this ordering key; nothing was stored.") from None
        except Overloaded:
            raise Problem(
                "busy", "More events wait to be stored than this process accepts; nothing was stored."
            ) from None
        except PublishRefused as error:
            raise Problem("bad-request", str(error), status=422) from None
        except OutcomeUnknown as error:
            raise Problem("outcome-unknown") from error
        except Unavailable as error:
            raise Problem("database-unavailable") from error

    async def _answer(
        self, send: Send, items: list[dict[str, object]], notice: str | None, *, batch: bool, replayed: bool
    ) -> None:
        body = _JSON.encode(items if batch else items[0]).encode() + b"\n"
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        if replayed:
            headers.append((b"idempotency-replayed", b"true"))
        if notice is not None:
            headers.append((b"hookwire-notice", notice.encode("ascii")))
        if not batch:
            headers.append((b"location", b"/events/" + str(items[0]["id"]).encode()))
        await send({"type": "http.response.start", "status": 202, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _item(self, one: Accepted) -> dict[str, object]:
        return {
            "id": format_event_id(self._incarnation, one.id),
            "topic": one.topic,
            "key": one.key,
            "sequence": one.sequence,
            "accepted_at": format_timestamp(one.accepted_at),
        }


def _refused_item(problem: Problem) -> dict[str, object]:
    """Return the item in place of an event that was not stored."""
    return {
        "error": {
            "type": f"/problems/{problem.slug}",
            "title": problem.kind.title,
            "status": problem.status,
            "detail": problem.detail,
        }
    }


def _notice_of_body(envelope: _Envelope, body: bytes) -> str | None:
    """Return the notice for a body that is not JSON although its type says so; it is stored unchanged (FT-12)."""
    if envelope.is_batch or not 0 < len(body) <= PARSED_HERE_BYTES_MAX:
        return None
    if envelope.media_type != "application/json":
        return None
    try:
        json.loads(body)
    except (ValueError, RecursionError) as error:
        place = f" (character {error.pos})" if isinstance(error, json.JSONDecodeError) else ""
        return f"the body is not valid JSON{place}, though its content type says so; it was stored as it is"
    return None


def _envelope(scope: Scope) -> _Envelope:
    envelope = _Envelope(_topic(scope["path"][len(_PREFIX) : -len(_SUFFIX)]))
    seen: set[bytes] = set()
    for name, value in scope["headers"]:
        if name in _READ_ONCE:
            if name in seen:
                raise Problem("invalid-header", f"{name.decode()} was sent twice.", parameter=name.decode())
            seen.add(name)
            _take_header(envelope, name, value)
        elif name in _CARRIED:
            envelope.carried[_CARRIED[name]] = _line(name, value, 512)
        elif name.startswith(OWN_PREFIX):
            add_own_header(envelope.own, name, value)
        elif name.startswith(b"ce-"):
            envelope.cloudevent = True
    if scope["query_string"]:
        _take_query(envelope, scope["query_string"])
    if envelope.partial and envelope.media_type != MEDIA_TYPE:
        raise Problem("invalid-parameter", f"partial=true is for {MEDIA_TYPE}.", parameter="partial")
    if envelope.matched and envelope.is_batch:
        raise Problem("invalid-parameter", "matched=true is for one event.", parameter="matched")
    return envelope


@lru_cache(maxsize=_TOPICS_MAX)
def _topic(name: str) -> str:
    if is_reserved(name):
        raise Problem("invalid-topic", "Topics that begin with hookwire. are the hub's own; choose another name.")
    try:
        return validate_topic(name)
    except TopicError as error:
        raise Problem("invalid-topic", str(error)) from None


def _key(text: str) -> str:
    try:
        return validate_key(text)
    except TopicError as error:
        raise Problem("invalid-key", str(error)) from None


def _line(name: bytes, value: bytes, bytes_max: int) -> str:
    text = utf8_text(name.decode(), value)
    if len(value) > bytes_max:
        raise Problem("invalid-header", f"{name.decode()} is longer than {bytes_max} bytes.", parameter=name.decode())
    return text


def _take_header(envelope: _Envelope, name: bytes, value: bytes) -> None:
    if name == b"content-type":
        envelope.content_type = _line(name, value, 255) or None
        envelope.media_type = (envelope.content_type or "").partition(";")[0].strip().lower()
    elif name == b"hookwire-key":
        envelope.key = _key(_line(name, value, 4096))
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
        key = _line(name, value, _IDEMPOTENCY_KEY_MAX)
        if not key or not key.isprintable():
            raise Problem("invalid-header", "Idempotency-Key is 1-255 printable bytes.", parameter="idempotency-key")
        envelope.idempotency_key = key


def _take_query(envelope: _Envelope, query: bytes) -> None:
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
        envelope.key = _key(keys[0])
    envelope.partial = _flag(fields, "partial")
    envelope.matched = _flag(fields, "matched")


def _flag(fields: Sequence[tuple[str, str]], name: str) -> bool:
    given = [value for field, value in fields if field == name]
    if given and given not in (["true"], ["false"]):
        raise Problem("invalid-parameter", f"{name} is true or false.", parameter=name)
    return given == ["true"]


async def _read(receive: Receive) -> bytes:
    """Return the whole body; the request limits bound its size."""
    message = await receive()
    parts: list[bytes] = []
    while True:
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)
        message = await receive()


def _drafts(envelope: _Envelope, scope: Scope, body: bytes) -> list[Draft]:
    media_type = envelope.media_type
    if media_type == MEDIA_TYPE:
        drafts = [_line_draft(envelope, number, line) for number, line in lines_of(body, "events")]
    elif envelope.cloudevent or media_type.startswith("application/cloudevents"):
        try:
            drafts = decode_http(envelope.topic, envelope.key, envelope.content_type, scope["headers"], body)
        except CloudEventError as error:
            raise Problem("invalid-cloudevent", error.detail, status=error.status_hint) from None
    else:
        drafts = [Draft(envelope.topic, body, envelope.key, envelope.content_type)]
    return _with_carried(envelope, drafts)


def _line_draft(envelope: _Envelope, number: int, line: bytes) -> Draft:
    """Make an event of one line of JSON; its bytes are stored as they came."""
    try:
        loads(line)
    except StrictJsonError as error:
        whole = "" if envelope.partial else "; no event was stored"
        raise Problem("malformed-batch", f"line {number}: {error}{whole}", line=number) from None
    return Draft(envelope.topic, line, envelope.key, "application/json")


def _with_carried(envelope: _Envelope, drafts: list[Draft]) -> list[Draft]:
    extra = {**envelope.own, **envelope.carried}
    if is_tombstone(extra) and (envelope.is_parsed or drafts[0].payload or drafts[0].key is None):
        detail = "A tombstone has a key and an empty body, and is no batch and no structured event."
        raise Problem("invalid-header", detail, parameter=TOMBSTONE_HEADER)
    if envelope.hops:
        extra[HOPS_HEADER] = str(envelope.hops)
    if not extra:
        return drafts
    return [dataclasses.replace(draft, headers={**draft.headers, **extra}) for draft in drafts]


def _named(envelope: _Envelope, drafts: list[Draft], body: bytes) -> bytes | None:
    """Give the drafts the publisher's own idempotency key; return the digest of the whole request."""
    if envelope.idempotency_key is None:
        return None
    for position, draft in enumerate(drafts):
        # U+001F can't occur in the header, so no other request can name this key. The first one bears the bare key:
        # so a batch conflicts with any other request that reuses it.
        suffix = f"\x1f{position}" if position else ""
        drafts[position] = dataclasses.replace(draft, idempotency_key=envelope.idempotency_key + suffix)
    digest = hashlib.sha256()
    for part in (envelope.topic, envelope.key or "", envelope.content_type or ""):
        digest.update(part.encode() + b"\x00")
    for draft in drafts:  # attributes of binary mode; trace headers may differ in a repeated request
        for name, value in sorted(draft.headers.items()):
            if name.startswith("ce-"):
                digest.update(f"{name}\x00{value}\x00".encode())
    digest.update(body)
    return digest.digest()
