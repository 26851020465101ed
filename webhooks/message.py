"""Message: header and body of one delivery attempt. Except in structured mode the body is the event's bytes (WH-S02).

A subscription gets the event in the format that it asked for (WH-C11). By default that is CloudEvents binary mode for a
published CloudEvent, else raw. A WebSub subscription gets the content, its type, and one ``Link`` header with hub and
self (WS-53). Another hub gets a ping that names the topic, and fetches it (WS-74). The signature is made for each
attempt, over its own timestamp (WH-S06).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final, NamedTuple
from urllib.parse import urlencode

from event.attribute import encode_header_value
from event.cloudevents import BATCH_TYPE, HttpMessage, encode_binary, encode_structured
from event.event import Event
from event.tombstone import TOMBSTONE_HEADER, is_tombstone
from webhooks.chat import CHAT_FORMATS, chat_body
from webhooks.custom_header import is_ours, is_private
from webhooks.signature import hub_signature, webhook_headers
from webhooks.subscriber import Subscriber

__all__ = [
    "LINK_HEADER",
    "MESSAGE_ID_HEADER",
    "REPLAY_HEADER",
    "Messages",
    "as_sent",
    "batch_message",
    "delivery_message",
    "link_header",
]

REPLAY_HEADER = ("hookwire-replay", "true")
"""Marks a delivery sent again on request (WH-P04): it may come after later events."""


LINK_HEADER = "hookwire-link"
"""On an event whose topic another publisher hosts: the links it advertises; never forwarded under this name."""


MESSAGE_ID_HEADER = "hookwire-message-id-header"
"""On an event whose publisher wants its id in a header of this name (RH-10); never forwarded under this one."""


_KEPT_MAX: Final = 256
_KEPT_BYTES_MAX: Final = 32_768
"""Parts with more bytes of body and payload are not kept: making them costs little beside signing them."""


def link_header(hub_url: str, topic_url: str) -> str:
    """Hub first, quoted rel directly after the URL: the one form every subscriber's parser understands (WS-53)."""
    return f'<{hub_url}>; rel="hub", <{topic_url}>; rel="self"'


class _Parts(NamedTuple):
    """The parts of a message that are the same for all subscribers of an event: its body, and header fields in their
    order. ``own`` holds the publisher's fields; a subscriber's field of the same name replaces them.
    """

    event: Event
    event_id: str
    body: bytes
    first: Sequence[tuple[str, str]]
    own: Sequence[tuple[str, str]]
    last: Sequence[tuple[str, str]]
    link: tuple[str, str]


class Messages:
    """Makes the messages of one worker. The parts that the subscribers of an event share are made once per format."""

    def __init__(self, public_url: str) -> None:
        self._public_url = public_url
        self._parts: dict[tuple[int, str, str | None], _Parts] = {}

    def delivery(
        self, event: Event, subscriber: Subscriber, timestamp_seconds: int
    ) -> tuple[list[tuple[str, str]], bytes]:
        """Return :func:`delivery_message`."""
        return _message(self._parts_of(event, subscriber), subscriber, timestamp_seconds, self._public_url)

    def batch(
        self, events: Sequence[Event], subscriber: Subscriber, timestamp_seconds: int
    ) -> tuple[list[tuple[str, str]], bytes]:
        """Return :func:`batch_message`."""
        return batch_message(events, subscriber, timestamp_seconds, self._public_url)

    def _parts_of(self, event: Event, subscriber: Subscriber) -> _Parts:
        name = (event.id, subscriber.format, subscriber.template)
        parts = self._parts.get(name)
        if parts is None or parts.event is not event:  # a restored database gives ids again
            parts = _parts(event, subscriber.format, subscriber.template, self._public_url)
            if len(parts.body) + len(event.payload) <= _KEPT_BYTES_MAX:
                self._keep(name, parts)
        return parts

    def _keep(self, name: tuple[int, str, str | None], parts: _Parts) -> None:
        if len(self._parts) >= _KEPT_MAX:
            del self._parts[next(iter(self._parts))]
        self._parts[name] = parts


def delivery_message(
    event: Event, subscriber: Subscriber, timestamp_seconds: int, public_url: str
) -> tuple[list[tuple[str, str]], bytes]:
    """Return header and body: every field but those that the client owns (Host, Content-Length, Connection,
    Accept-Encoding).

    The signature covers the body in its sent format (WH-C10).
    """
    parts = _parts(event, subscriber.format, subscriber.template, public_url)
    return _message(parts, subscriber, timestamp_seconds, public_url)


def _parts(event: Event, form: str, template: str | None, public_url: str) -> _Parts:
    source = f"{public_url}/topics/{event.topic}"
    if form in CHAT_FORMATS:
        carried = HttpMessage({"content-type": "application/json"}, chat_body(form, template, event))
    else:
        carried = _carried(event, form, source)
    first = [*carried.headers.items(), ("hookwire-topic", event.topic)]
    if event.key is not None:
        first.append(("hookwire-key", encode_header_value(event.key)))
    if event.sequence is not None:
        first.append(("hookwire-sequence", str(event.sequence)))
    first.append(("hookwire-hops", str(_hops(event) + 1)))
    own = [
        (name, value if value.isascii() else encode_header_value(value))
        for name, value in event.headers.items()
        if not is_ours(name) and not is_private(name)
    ]
    event_id, last = event.event_id, []
    if is_tombstone(event.headers):
        last.append((TOMBSTONE_HEADER, "true"))
    id_header = event.headers.get(MESSAGE_ID_HEADER)
    if id_header is not None and not is_ours(id_header) and not is_private(id_header):  # stored by an older version
        last.append((id_header, event_id))
    return _Parts(event, event_id, carried.body, first, own, last, ("link", f'<{source}>; rel="self"'))


def _message(
    parts: _Parts, subscriber: Subscriber, timestamp_seconds: int, public_url: str
) -> tuple[list[tuple[str, str]], bytes]:
    """Return the parts with the subscriber's signatures, headers and links."""
    body, own = parts.body, parts.own
    if own and subscriber.headers:
        own = [field for field in own if field[0] not in subscriber.headers]
    signed = webhook_headers(subscriber.keys, parts.event_id, timestamp_seconds, body)
    headers = [*signed.items(), *parts.first, *own, *parts.last, *subscriber.headers.items()]
    if subscriber.request_origin is not None:
        headers.append(("webhook-request-origin", subscriber.request_origin))
    if subscriber.protocol in ("websub", "rabbithub") and subscriber.topic_url is not None:
        advertised = parts.event.headers.get(LINK_HEADER)
        headers.append(("link", advertised or link_header(f"{public_url}/hub", subscriber.topic_url)))
        if subscriber.hub_secret is not None:
            signature = hub_signature(subscriber.hub_secret, body, subscriber.signature_method)
            headers.append(("x-hub-signature", signature))
    else:
        headers.append(parts.link)
    return headers, body


def batch_message(
    events: Sequence[Event], subscriber: Subscriber, timestamp_seconds: int, public_url: str
) -> tuple[list[tuple[str, str]], bytes]:
    """Return :func:`delivery_message` for several events in one request (WH-C05); topic, key and sequence are in each.

    ``webhook-id`` is made from the events' ids, so that it is constant for the same batch. A repeat may hold more or
    fewer events, and is then another message. No event of it is opaque.
    """
    members = [_carried(event, "batch", f"{public_url}/topics/{event.topic}").body for event in events]
    body = b"[%b]" % b",".join(members)
    identity = hashlib.sha256("\n".join(event.event_id for event in events).encode()).hexdigest()[:32]
    headers = list(webhook_headers(subscriber.keys, f"bat_{identity}", timestamp_seconds, body).items())
    headers += [("content-type", BATCH_TYPE), ("hookwire-hops", str(max(map(_hops, events)) + 1))]
    headers += subscriber.headers.items()
    if subscriber.request_origin is not None:
        headers.append(("webhook-request-origin", subscriber.request_origin))
    return headers, body


def _carried(event: Event, form: str, source: str) -> HttpMessage:
    """Return the event in the subscriber's format; ``source`` serves those that were published without attributes."""
    if form in ("structured", "batch"):
        return encode_structured(event, source=source)
    if form == "websub_ping":
        ping = urlencode({"hub.mode": "publish", "hub.url": source})
        return HttpMessage({"content-type": "application/x-www-form-urlencoded"}, ping.encode())
    headers = {} if event.content_type is None else {"content-type": as_sent(event.content_type)}
    if form == "binary":
        headers |= {n: v for n, v in encode_binary(event, source=source).headers.items() if n.startswith("ce-")}
    elif form == "as_published":
        headers |= {n: encode_header_value(v) for n, v in event.headers.items() if n.startswith("ce-")}
    return HttpMessage(headers, event.payload)


def as_sent(value: str) -> str:
    """Return the UTF-8 bytes of a text as header characters: the very bytes that were published."""
    return value if value.isascii() else value.encode().decode("latin-1")


def _hops(event: Event) -> int:
    text = event.headers.get("hookwire-hops", "0")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 3 else 0
