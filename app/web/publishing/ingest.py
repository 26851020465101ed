"""POST /topics/{topic}/events and /batch: the hot path, a plain ASGI application inside the service.

The body is the event, byte for byte. Headers add to it: ``Hookwire-Key`` (or ``?key=``) is the ordering key, and
``Idempotency-Key`` makes repeats safe. ``ce-*`` are CloudEvents attributes, ``Hookwire-Header-*`` the publisher's own
headers. ``Hookwire-Tombstone`` says that there is no value. The answer is 202 only after COMMIT. Its header
``Hookwire-Notice`` says when the event has no receiver.

Three types make a batch. ``application/x-ndjson`` (one event per line) and ``application/cloudevents-batch+json`` are
stored whole or not at all. Each line of ``application/vnd.hookwire.events+ndjson`` is stored by itself, and has its
outcome in the answer: 202 if every line is stored, else 207. So has each element of a JSON list at ``/batch``.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

from pydantic_core import from_json
from starlette.types import Receive, Scope, Send

from app.web.problem import Problem
from app.web.publishing.envelope import Envelope, read_envelope
from app.web.publishing.event_line import elements_of, read_element, read_line
from app.web.publishing.line_store import LineStore, Outcome
from app.web.publishing.ndjson import MEDIA_TYPE, lines_of
from app.web.publishing.notice import Notices, notice_of_dropped, notice_of_size
from app.web.publishing.publish_problem import PUBLISH_ERRORS, admit_topic, problem_of_publish
from app.web.publishing.request_log import RequestLog
from app.web.publishing.whole_body import read_whole_body
from app.web.scopes import grant_in, key_id_in
from db.errors import DatabaseError
from event.attribute import cloudevents_identity
from event.cloudevents import CloudEventError, decode_http
from event.event import Draft
from event.hops import HOPS_HEADER
from event.identity import format_event_id
from event.strict_json import StrictJsonError, loads
from event.timestamp import format_timestamp
from event.tombstone import TOMBSTONE_HEADER, is_tombstone
from hub.publish import Accepted, Publisher
from hub.topics import Topics
from runtime.large_body import HERE_BYTES_MAX, beside_loop_if_large
from runtime.sample import EventSample

__all__ = ["Ingest"]

_JSON = json.JSONEncoder(separators=(",", ":"))
_quoted = json.encoder.encode_basestring_ascii
_Part = TypeVar("_Part")
_STORED: Final = 202
_PARTLY: Final = 207
_OUTCOMES: Final = {"idempotency-key-reused": "conflict", "outcome-unknown": "unknown"}


@dataclass(slots=True)
class _Batch:
    """The events of a request, or its one event. ``refused`` are problems by position.

    ``fingerprints`` is the digest of the request, or a list with the digest of each event: then each is stored alone.
    """

    drafts: list[Draft]
    refused: dict[int, Problem] = field(default_factory=dict)
    fingerprints: bytes | list[bytes | None] | None = None


class Ingest:
    """The ASGI application. ``incarnation`` is the installation's; ``event_bytes_max`` bounds each event of a batch."""

    def __init__(
        self, publisher: Publisher, topics: Topics, notices: Notices, incarnation: str, event_bytes_max: int,
        log_sample: EventSample, *, has_kafka: bool = False,
    ) -> None:  # fmt: skip
        self._has_kafka = has_kafka
        self._publisher = publisher
        self._lines = LineStore(publisher)
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
        envelope = read_envelope(scope)
        body = await read_whole_body(receive)
        parsed_bytes = len(body) if envelope.is_parsed else 0
        batch = await beside_loop_if_large(parsed_bytes, self._read_batch, envelope, scope, body)
        await self._admit(envelope.topic, scope)
        notice = self._notice_at_once(envelope, batch, body)
        if notice is None and batch.drafts and not self._notices.has_receiver(envelope.topic):
            outcomes, notice = await self._notices.beside(self._store(batch, scope), envelope.topic)
        else:
            outcomes = await self._store(batch, scope) if batch.drafts else []
        accepted = [one for one in outcomes if isinstance(one, Accepted)]
        if batch.refused:
            for position, problem in sorted(batch.refused.items()):
                outcomes.insert(position, problem)
        if accepted:
            self._request_log.write(scope, started, len(body), accepted, len(outcomes) - len(accepted))
        has_outcomes = envelope.has_outcomes
        items = [self._item(one, has_outcome=has_outcomes) for one in outcomes]
        if envelope.matched:
            matched = await self._notices.matched(accepted[0].id, grant_in(scope))
            items[0] = f'{items[0][:-1]},"matched":{_JSON.encode(matched)}}}'
        is_partly = has_outcomes and len(accepted) < len(outcomes)
        replayed = bool(accepted) and not is_partly and all(one.replayed for one in accepted)
        status = _PARTLY if is_partly else _STORED
        content = f"[{','.join(items)}]\n" if envelope.is_batch else f"{items[0]}\n"
        place = None if envelope.is_batch else format_event_id(self._incarnation, accepted[0].id)
        await _answer(send, status, content.encode("ascii"), notice, place, replayed=replayed)

    def _notice_at_once(self, envelope: Envelope, batch: _Batch, body: bytes) -> str | None:
        """Return the notice that no query is needed for."""
        size = notice_of_size(batch.drafts) if self._has_kafka else None
        return notice_of_dropped(envelope.dropped) or size or _notice_of_body(envelope, body)

    def _read_batch(self, envelope: Envelope, scope: Scope, body: bytes) -> _Batch:
        """Return the events of a body, and where lines are judged alone the reasons of refused ones, by position."""
        if envelope.has_outcomes:
            if envelope.is_list:
                batch = self._sorted_out(elements_of(body), partial(read_element, envelope))
            else:
                batch = self._sorted_out(lines_of(body, "events"), partial(read_line, envelope))
            batch.fingerprints = [_own_fingerprint(draft) for draft in batch.drafts]
            return batch
        if envelope.partial:
            batch = self._sorted_out(lines_of(body, "events"), partial(_line_draft, envelope))
            if batch.refused and not batch.drafts:
                detail = f"No event of it can be stored; the first: {batch.refused[0].detail}"
                raise Problem("malformed-batch", detail)
            batch.drafts = _with_carried(envelope, batch.drafts)
        else:
            batch = _Batch(_drafts(envelope, scope, body))
            for number, draft in enumerate(batch.drafts, 1):
                self._check_size(draft, number)
        batch.fingerprints = _named(envelope, batch.drafts, body)
        return batch

    def _check_size(self, draft: Draft, number: int) -> None:
        """Check each event: the body's size is limited, but a batch may still hold an event that is too large."""
        if len(draft.payload) > self._event_bytes_max:
            detail = f"Event {number} has {len(draft.payload)} bytes, at most {self._event_bytes_max} are accepted."
            raise Problem("body-too-large", detail, limit_bytes=self._event_bytes_max)

    def _sorted_out(self, parts: Iterable[tuple[int, _Part]], read: Callable[[int, _Part], Draft]) -> _Batch:
        """Return the lines that can be stored, and the reasons of refused ones, by position."""
        batch = _Batch([])
        for position, (number, part) in enumerate(parts):
            try:
                draft = read(number, part)
                self._check_size(draft, position + 1)
            except Problem as problem:
                batch.refused[position] = Problem("line-refused", problem.detail, status=problem.status)
            else:
                batch.drafts.append(draft)
        return batch

    async def _admit(self, topic: str, scope: Scope) -> None:
        try:
            await admit_topic(self._topics, topic, key_id_in(scope))
        except DatabaseError as error:
            raise Problem("database-unavailable") from error

    async def _store(self, batch: _Batch, scope: Scope) -> list[Outcome]:
        key_id = key_id_in(scope)
        if isinstance(batch.fingerprints, list):
            return await self._lines.store(batch.drafts, batch.fingerprints, key_id)
        try:
            return list(await self._publisher.publish(batch.drafts, batch.fingerprints, key_id))
        except PUBLISH_ERRORS as error:
            raise problem_of_publish(error) from error

    def _item(self, one: Outcome, *, has_outcome: bool) -> str:
        """Return the outcome as JSON, written member by member: an encoder of any value takes four times as long."""
        if isinstance(one, Problem):
            outcome = {"outcome": _OUTCOMES.get(one.slug, "error")} if has_outcome else {}
            return _JSON.encode({**outcome, **_refused_item(one)})
        outcome_member = f'"outcome":"{"replayed" if one.replayed else "stored"}",' if has_outcome else ""
        key = "null" if one.key is None else _quoted(one.key)
        sequence = "null" if one.sequence is None else one.sequence
        return (
            f'{{{outcome_member}"id":"{format_event_id(self._incarnation, one.id)}","topic":{_quoted(one.topic)},'
            f'"key":{key},"sequence":{sequence},"accepted_at":"{format_timestamp(one.accepted_at)}"}}'
        )


async def _answer(
    send: Send, status: int, body: bytes, notice: str | None, event_id: str | None, *, replayed: bool
) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if replayed:
        headers.append((b"idempotency-replayed", b"true"))
    if notice is not None:
        headers.append((b"hookwire-notice", notice.encode("ascii")))
    if event_id is not None:
        headers.append((b"location", b"/events/" + event_id.encode("ascii")))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


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


def _notice_of_body(envelope: Envelope, body: bytes) -> str | None:
    """Return the notice for a body that is not JSON although its type says so; it is stored unchanged."""
    if envelope.is_batch or not 0 < len(body) <= HERE_BYTES_MAX:
        return None
    if envelope.media_type != "application/json":
        return None
    try:
        from_json(body)  # refuses more than the module json, and takes a tenth of its time
    except ValueError:
        return _notice_of_json(body)
    return None


def _notice_of_json(body: bytes) -> str | None:
    try:
        json.loads(body)
    except (ValueError, RecursionError) as error:
        place = f" (character {error.pos})" if isinstance(error, json.JSONDecodeError) else ""
        return f"the body is not valid JSON{place}, though its content type says so; it was stored as it is"
    return None


def _drafts(envelope: Envelope, scope: Scope, body: bytes) -> list[Draft]:
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


def _line_draft(envelope: Envelope, number: int, line: bytes) -> Draft:
    """Make an event of one line of JSON; its bytes are stored as they came."""
    try:
        loads(line)
    except StrictJsonError as error:
        whole = "" if envelope.partial else "; no event was stored"
        raise Problem("malformed-batch", f"line {number}: {error}{whole}", line=number) from None
    return Draft(envelope.topic, line, envelope.key, "application/json")


def _with_carried(envelope: Envelope, drafts: list[Draft]) -> list[Draft]:
    extra = {**envelope.own, **envelope.carried}
    if is_tombstone(extra) and (envelope.is_parsed or drafts[0].payload or drafts[0].key is None):
        detail = "A tombstone has a key and an empty body, and is no batch and no structured event."
        raise Problem("invalid-header", detail, parameter=TOMBSTONE_HEADER)
    if envelope.hops:
        extra[HOPS_HEADER] = str(envelope.hops)
    if not extra:
        return drafts
    return [draft._replace(headers={**draft.headers, **extra}) for draft in drafts]


def _named(envelope: Envelope, drafts: list[Draft], body: bytes) -> bytes | None:
    """Give the drafts the publisher's own idempotency key; return the digest of the whole request."""
    if envelope.idempotency_key is None:
        return None
    for position, draft in enumerate(drafts):
        # U+001F can't occur in the header, so no other request can name this key. The first one bears the bare key:
        # so a batch conflicts with any other request that reuses it.
        suffix = f"\x1f{position}" if position else ""
        drafts[position] = draft._replace(idempotency_key=envelope.idempotency_key + suffix)
    return _fingerprint((envelope.topic, envelope.key, envelope.content_type), drafts, body)


def _own_fingerprint(draft: Draft) -> bytes | None:
    """Return the digest of one event, as a request with this event alone has it; None: CloudEvents have their own."""
    if draft.idempotency_key is None or draft.idempotency_key == cloudevents_identity(draft.headers):
        return None
    return _fingerprint((draft.topic, draft.key, draft.content_type), [draft], draft.payload)


def _fingerprint(texts: Sequence[str | None], drafts: Sequence[Draft], body: bytes) -> bytes:
    digest = hashlib.sha256("".join([f"{text or ''}\x00" for text in texts]).encode())
    for draft in drafts:  # attributes of binary mode; trace headers may differ in a repeated request
        for name, value in sorted(draft.headers.items()):
            if name.startswith("ce-"):
                digest.update(f"{name}\x00{value}\x00".encode())
    digest.update(body)
    return digest.digest()
