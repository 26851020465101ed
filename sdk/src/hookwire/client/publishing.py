"""Publishing: one event, or many with an outcome each, as steps without I/O. Nothing is ever published twice.

``publish_many`` sends lines of one topic in a request, in their order. The next lines of a topic are sent only when the
outcome of the former ones is known. So a repeat, which has the same idempotency keys, keeps the order of each key.
"""

from __future__ import annotations

import base64
import json
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from json.encoder import encode_basestring
from typing import Any, Final, Literal
from urllib.parse import quote

from hookwire.client.event import Event, Outcome, Published
from hookwire.client.exchange import Pause, Request, Steps, exchange, json_of
from hookwire.client.noun import Place, new_key, segment
from hookwire.client.payload import Payload, encode_payload, header_value
from hookwire.error import ApiRefused, HookwireError

__all__ = ["publish_many_steps", "publish_steps"]

LINES_TYPE: Final = "application/vnd.hookwire.events+ndjson"
_LINES_MAX: Final = 1_000
_BYTES_MAX: Final = 3 * 1024 * 1024
_TAKEN: Final = frozenset({"hookwire-ttl", "hookwire-retry", "hookwire-tombstone", "traceparent", "tracestate"})
_PASSING: Final = frozenset({408, 409, 425, 429, 502, 503, 504})
_PAUSE_SECONDS: Final = 0.2
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_NAME: Final = re.compile(r"[a-z0-9_.-]{1,200}")


def publish_steps(place: Place, event: Event, timeout_seconds: float | None) -> Steps[Published]:
    """Return the steps that publish one event. Raise TypeError for data that cannot be sent, before anything is."""
    payload = encode_payload(event.data, event.content_type)
    key = event.idempotency_key or new_key()
    headers = {**place.headers(), **_headers(event, payload), "Idempotency-Key": key}
    if payload.content_type is not None:
        headers["Content-Type"] = payload.content_type
    path = f"/topics/{segment(event.topic)}/events"
    if event.key is not None:
        if event.key.isascii() and event.key.isprintable() and event.key == event.key.strip():
            headers["Hookwire-Key"] = event.key
        else:
            path += f"?key={quote(event.key, safe='')}"
    request = Request("POST", path, f"publish to {event.topic}", headers, payload.body, key)
    seconds = place.timeout_seconds if timeout_seconds is None else timeout_seconds
    answer = yield from exchange(request, seconds, place.base)
    members = json_of(answer, request, place.base)
    return _published(
        members, key, notice=answer.headers.get("hookwire-notice"),
        replayed=answer.headers.get("idempotency-replayed") == "true",
    )  # fmt: skip


def publish_many_steps(place: Place, events: Iterable[Event], timeout_seconds: float | None) -> Steps[list[Outcome]]:
    """Return the steps that publish events, with an outcome for each, in their order.

    Raise TypeError for data that cannot be sent, before anything is. Raise :class:`HookwireError` if the first request
    fails and nothing is stored; after that, each event that is not stored has its reason in its outcome.
    """
    prefix, trace = new_key(), _trace()
    lines = [_line(position, event, prefix, trace) for position, event in enumerate(events)]
    seconds = place.timeout_seconds if timeout_seconds is None else timeout_seconds
    many = _Many(place, time.monotonic() + seconds)
    by_topic: dict[str, list[_Line]] = {}
    for line in lines:
        by_topic.setdefault(line.event.topic, []).append(line)
    for topic, own in by_topic.items():
        for part in _parts(own):
            yield from many.send(topic, part)
    return [many.outcomes[position] for position in range(len(lines))]


@dataclass(slots=True)
class _Line:
    position: int
    event: Event
    key: str
    text: bytes


class _Many:
    """The outcomes so far of one ``publish_many``."""

    def __init__(self, place: Place, deadline: float) -> None:
        self._place = place
        self._deadline = deadline
        self.outcomes: dict[int, Outcome] = {}

    def send(self, topic: str, lines: Sequence[_Line]) -> Steps[None]:
        """Send lines until each has a final outcome, or the time is over."""
        waiting = list(lines)
        headers = {**self._place.headers(), "Content-Type": LINES_TYPE}
        while True:
            request = Request(
                "POST", f"/topics/{segment(topic)}/batch", f"publish_many to {topic}", headers,
                b"\n".join(line.text for line in waiting), waiting[0].key,
            )  # fmt: skip
            try:
                left = max(0.001, self._deadline - time.monotonic())
                answer = yield from exchange(request, left, self._place.base)
                items = json_of(answer, request, self._place.base)
            except HookwireError as error:
                if not self.outcomes and not error.may_have_been_stored:
                    raise
                self._fail(waiting, error)
                return
            waiting = [line for line, item in zip(waiting, items, strict=True) if self._take(line, item)]
            if not waiting or time.monotonic() + _PAUSE_SECONDS >= self._deadline:
                return
            yield Pause(_PAUSE_SECONDS)

    def _take(self, line: _Line, item: Mapping[str, Any]) -> bool:
        """Keep the outcome of a line; return whether a repeat may change it."""
        outcome = item["outcome"]
        if "error" not in item:
            published = _published(item, line.key, replayed=outcome == "replayed")
            self.outcomes[line.position] = Outcome(outcome, line.event, line.key, published)
            return False
        error = item["error"]
        self.outcomes[line.position] = Outcome(
            outcome, line.event, line.key, None, error["status"], str(error["detail"])
        )
        return outcome == "unknown" or (outcome == "error" and error["status"] in _PASSING)

    def _fail(self, lines: Sequence[_Line], error: HookwireError) -> None:
        status = error.status if isinstance(error, ApiRefused) else 0
        for line in lines:
            was_unknown = (former := self.outcomes.get(line.position)) is not None and former.outcome == "unknown"
            outcome: Literal["unknown", "error"] = "unknown" if error.may_have_been_stored or was_unknown else "error"
            self.outcomes[line.position] = Outcome(outcome, line.event, line.key, None, status, str(error))


def _line(position: int, event: Event, prefix: str, trace: Mapping[str, str]) -> _Line:
    """Return the line of an event. Without an idempotency key it gets one of ``prefix`` and its position."""
    payload = encode_payload(event.data, event.content_type)
    key = event.idempotency_key
    if key is None:
        key = f"{prefix}-{position}"
        event = Event(event.topic, event.data, event.key, event.content_type, event.headers, key)
    head = '{"idempotency_key":' + encode_basestring(key)
    if event.key is not None:
        head += ',"key":' + encode_basestring(event.key)
    if trace or event.headers or payload.attributes:
        headers = {**trace, **{name.lower(): value for name, value in event.headers.items()}}
        headers |= {f"ce-{name}": value for name, value in payload.attributes.items()}
        head += ',"headers":' + json.dumps(headers, ensure_ascii=False)
    return _Line(position, event, key, head.encode() + _written(payload))


def _written(payload: Payload) -> bytes:
    """Return the end of a line: data that is JSON is not encoded a second time."""
    if payload.content_type == "application/json" and b"\n" not in payload.body and payload.body:
        return b',"data":' + payload.body + b"}"
    end = "" if payload.content_type is None else ',"content_type":' + encode_basestring(payload.content_type)
    if payload.body:
        end += f',"data_base64":"{base64.b64encode(payload.body).decode()}"'
    return end.encode() + b"}"


def _parts(lines: Sequence[_Line]) -> Iterable[Sequence[_Line]]:
    """Divide lines so that each part is a request."""
    part: list[_Line] = []
    size = 0
    for line in lines:
        if part and (len(part) == _LINES_MAX or size + len(line.text) > _BYTES_MAX):
            yield part
            part, size = [], 0
        part.append(line)
        size += len(line.text) + 1
    if part:
        yield part


def _headers(event: Event, payload: Payload) -> dict[str, str]:
    headers = _trace()
    for name, value in event.headers.items():
        lower = name.lower()
        if _CONTROL.search(value) or not _NAME.fullmatch(lower):
            raise ValueError(f"header {name[:80]!r}: a name of letters, digits and _.-, and a value of one line")
        if lower.startswith("ce-"):
            headers[lower] = header_value(value)
        else:
            headers[lower if lower in _TAKEN else f"Hookwire-Header-{lower}"] = value
    return headers | {f"ce-{name}": header_value(value) for name, value in payload.attributes.items()}


def _trace() -> dict[str, str]:
    """Return the headers of the current trace, if this program uses OpenTelemetry."""
    if "opentelemetry" not in sys.modules:
        return {}
    from opentelemetry import propagate

    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return {name: carrier[name] for name in ("traceparent", "tracestate") if name in carrier}


def _published(members: Mapping[str, Any], key: str, *, notice: str | None = None, replayed: bool = False) -> Published:
    return Published(
        members["id"], members["topic"], members["key"], members["sequence"],
        datetime.fromisoformat(members["accepted_at"]), notice, replayed, key,
    )  # fmt: skip
