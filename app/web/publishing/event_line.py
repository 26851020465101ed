"""EventLine: one event of a batch in which each is stored, or not, by itself.

A line of ``application/vnd.hookwire.events+ndjson`` holds it, or an element of a JSON list.

::

    {"key": "ada", "idempotency_key": "1", "content_type": "text/plain", "headers": {"ce-id": "1"}, "data": "hello"}

Each member may be missing. ``data`` is JSON, kept as it was written; for another content type it is a text.
``data_base64`` is any other body. ``headers`` are those of ``hookwire.publish``: the publisher's own names, ``ce-*``,
``hookwire-ttl``, ``hookwire-retry`` and ``hookwire-tombstone``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from app.web.problem import Problem
from app.web.publishing.envelope import CARRIED, Envelope, key_of, line_of, take_header
from app.web.publishing.ndjson import BATCH_NODES_MAX, LINES_MAX
from app.web.publishing.publish_headers import OWN_PREFIX, add_own_header
from event.cloudevents import CloudEventError, draft_of
from event.event import Draft
from event.hops import HOPS_HEADER
from event.json_format import JSON_TYPE, payload_of
from event.strict_json import Member, StrictJsonError, loads, loads_array_members, loads_members
from event.tombstone import TOMBSTONE_HEADER, is_tombstone

__all__ = ["elements_of", "event_of", "read_element", "read_line"]

_MEMBERS: Final = ("key", "idempotency_key", "content_type", "headers", "data", "data_base64")
_TAKEN: Final = frozenset({"hookwire-ttl", "hookwire-retry", TOMBSTONE_HEADER})
_CLOUDEVENTS: Final = "ce-"
_CARRIED_BYTES_MAX: Final = 512
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_USUAL: Final = re.compile(rb'\{"idempotency_key":"([!#-\[\]-~]{1,255})"(?:,"key":"([!#-\[\]-~]{1,1024})")?,"data":')
_Members = dict[str, Member]


def read_line(envelope: Envelope, number: int, line: bytes) -> Draft:
    """Make an event of a line; raise ``Problem`` for a line that cannot be stored. ``number`` counts from 1.

    Key and headers of the request are defaults for each line.
    """
    if (draft := _usual(envelope, line)) is not None:
        return draft
    try:
        return read_element(envelope, number, loads_members(line))
    except StrictJsonError as error:
        raise _refused(number, error.reason, error.status_hint) from None


def _usual(envelope: Envelope, line: bytes) -> Draft | None:
    """Return the event of a line as the SDK writes most of them, or None; this reads it in half the time."""
    found = _USUAL.match(line)
    if found is None or envelope.own or envelope.carried or envelope.hops or not line.endswith(b"}"):
        return None
    payload = line[found.end() : -1]
    try:
        loads(payload)  # what is JSON now has no further member behind it
    except StrictJsonError:
        return None
    key = envelope.key if found[2] is None else found[2].decode()
    return Draft(envelope.topic, payload, key, JSON_TYPE, idempotency_key=found[1].decode())


def elements_of(body: bytes) -> list[tuple[int, _Members]]:
    """Return the elements of a JSON list, with their numbers from 1. Raise ``Problem`` if the body is no such list."""
    try:
        elements = loads_array_members(body, nodes_max=BATCH_NODES_MAX)
    except StrictJsonError as error:
        raise Problem("malformed-batch", f"{error.reason}; no event was stored", status=error.status_hint) from None
    if len(elements) > LINES_MAX:
        detail = f"A batch holds at most {LINES_MAX} events; this one has {len(elements)}."
        raise Problem("malformed-batch", detail)
    return list(enumerate(elements, 1))


def read_element(envelope: Envelope, number: int, members: _Members) -> Draft:
    """Make an event of the members of a line or an element, as :func:`read_line` does."""
    try:
        return _draft(envelope, members)
    except CloudEventError as error:
        raise _refused(number, error.detail, error.status_hint) from None
    except Problem as problem:
        raise _refused(number, problem.detail, problem.status) from None


def _draft(request: Envelope, members: _Members) -> Draft:
    for name in members:
        if name not in _MEMBERS:
            raise Problem("malformed-batch", f"there is no member {name[:64]!r}; there are {', '.join(_MEMBERS)}")
    line = Envelope(request.topic, carried=dict(request.carried), own=dict(request.own))
    key = _text(members, "key")
    line.key = request.key if key is None else key_of(key)
    if (content_type := _text(members, "content_type")) is not None:
        take_header(line, b"content-type", content_type.encode())
    if (named := _text(members, "idempotency_key")) is not None:
        take_header(line, b"idempotency-key", named.encode())
    line.hops = request.hops
    stored_type, payload = payload_of(line.content_type, members.get("data"), members.get("data_base64"))
    return event_of(line, _headers(members), stored_type, payload)


def event_of(line: Envelope, given: Mapping[str, object], content_type: str | None, payload: bytes) -> Draft:
    """Make an event of an envelope and of headers that are given as an object. Raise ``Problem``, CloudEventError."""
    attributes = _take_headers(line, given)
    draft = draft_of(line.topic, line.key, content_type, attributes, payload)
    headers = {**draft.headers, **line.own, **line.carried}
    if line.hops:
        headers[HOPS_HEADER] = str(line.hops)
    if is_tombstone(headers) and (payload or draft.key is None):
        raise Problem("invalid-header", "a tombstone has a key and no data")
    return Draft(
        draft.topic, payload, draft.key, draft.content_type, headers, line.idempotency_key or draft.idempotency_key
    )


def _headers(members: _Members) -> Mapping[str, object]:
    member = members.get("headers")
    if member is None or member.value is None:
        return {}
    if not isinstance(member.value, dict):
        raise Problem("invalid-header", "headers is no JSON object")
    return member.value


def _take_headers(line: Envelope, given: Mapping[str, object]) -> dict[str, str]:
    """Read headers into the envelope; return the attributes of a CloudEvent."""
    attributes: dict[str, str] = {}
    own: dict[str, str] = {}
    for name, value in given.items():
        if not isinstance(value, str):
            raise Problem("invalid-header", f"the header {name[:64]!r} is no text")
        if _CONTROL.search(value):
            raise Problem("invalid-header", f"the header {name[:64]!r} holds a control character")
        field, content = name.encode(), value.encode()
        if name.startswith(_CLOUDEVENTS):
            attributes[name.removeprefix(_CLOUDEVENTS)] = value
        elif name in _TAKEN:
            take_header(line, field, content)
        elif field in CARRIED:
            line.carried[CARRIED[field]] = line_of(field, content, _CARRIED_BYTES_MAX)
        else:
            add_own_header(own, OWN_PREFIX + field, content)
    line.own |= own
    return attributes


def _text(members: _Members, name: str) -> str | None:
    member = members.get(name)
    if member is None or member.value is None:
        return None
    if not isinstance(member.value, str):
        raise Problem("malformed-batch", f"{name} is no text")
    return member.value


def _refused(number: int, reason: str, status: int) -> Problem:
    return Problem("line-refused", f"line {number}: {reason}", status=status)
