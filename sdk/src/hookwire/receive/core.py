"""Core: a request becomes events, a refusal or a handshake, by a policy and without I/O.

The signature is checked over the raw body before anything of it is parsed. Sources: Standard Webhooks, W3C WebSub
(sections 5.3 and 8), CloudEvents' HTTP binding and its specification of webhooks.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal
from urllib.parse import parse_qsl, unquote_to_bytes

from hookwire.received import ReceivedEvent
from hookwire.signature import TOLERANCE_SECONDS, SignatureRefused, Verifier, verify_hub

__all__ = ["BYTES_MAX", "Event", "Handshake", "Policy", "Refusal", "Subscribing"]

Event = ReceivedEvent
BYTES_MAX: Final = 4 * 1024 * 1024
"""More than a hub sends by default, in any format."""
_BATCH_TYPE: Final = "application/cloudevents-batch+json"
_STRUCTURED_TYPE: Final = "application/cloudevents+json"
_SELF = re.compile(r'<([^<>]*)>\s*;\s*rel="?self"?')
_TEXT: Final = {"Content-Type": "text/plain; charset=utf-8"}


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer that takes nothing. ``reason`` is for the log and the body, and names no secret."""

    status: int
    reason: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Handshake:
    """The answer to a request that asks whether deliveries are wanted."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Subscribing:
    """A WebSub hub asks whether this subscription, or its end, is wanted. ``lease_seconds`` is None at its end."""

    mode: Literal["subscribe", "unsubscribe"]
    topic: str
    lease_seconds: int | None


class Policy:
    """What a receiver accepts.

    ``secrets`` are ``whsec_...``, or ``whpk_...`` for the signature ``v1a``. ``hub_secrets`` are those of WebSub
    subscriptions at hubs without Standard Webhooks. ``confirm`` decides about a WebSub subscription, by default none.
    ``origins`` are the hubs that may deliver by the handshake of CloudEvents, ``*`` for any.
    """

    def __init__(
        self, secrets: str | Sequence[str] = (), *, hub_secrets: Sequence[str] = (),
        tolerance_seconds: float = TOLERANCE_SECONDS, bytes_max: int = BYTES_MAX,
        confirm: Callable[[Subscribing], bool] | None = None, origins: Collection[str] = (),
    ) -> None:  # fmt: skip
        known = [secrets] if isinstance(secrets, str) else list(secrets)
        if not known and not hub_secrets:
            raise ValueError("a receiver needs the secret of its subscription: secrets=['whsec_...']")
        self._verifier = Verifier(known) if known else None
        self._hub_secrets = tuple(hub_secrets)
        self._tolerance_seconds = tolerance_seconds
        self._confirm = confirm
        self._origins = frozenset(origins)
        self.bytes_max = bytes_max

    def judge(
        self, method: str, headers: Mapping[str, str], body: bytes, now_seconds: float, query: str = ""
    ) -> list[Event] | Refusal | Handshake:
        """Return the events of a request, or its answer. ``headers`` have lower-case names."""
        if method != "POST":
            return self._asked(method, headers, query)
        if len(body) > self.bytes_max:
            return self.too_large()
        try:
            self._verify(headers, body, now_seconds)
        except SignatureRefused as error:
            return Refusal(401, str(error))
        try:
            return _read(headers, body)
        except (ValueError, RecursionError) as error:
            return Refusal(400, f"the body is not what its content type says: {error}")

    def _asked(self, method: str, headers: Mapping[str, str], query: str) -> Refusal | Handshake:
        """Return the answer to a request that delivers nothing."""
        if method == "GET" and "hub.mode" in query:
            return self._verification(query)
        if method == "OPTIONS" and "webhook-request-origin" in headers:
            return self._handshake(headers)
        return Refusal(405, "this address takes deliveries by POST", {"Allow": "POST"})

    def too_large(self) -> Refusal:
        """Return the refusal of a body that is too large, of which the rest need not be read."""
        return Refusal(413, f"at most {self.bytes_max} bytes are accepted here", {"Connection": "close"})

    def _verify(self, headers: Mapping[str, str], body: bytes, now_seconds: float) -> None:
        if self._verifier is not None and ("webhook-signature" in headers or not self._hub_secrets):
            self._verifier.verify(headers, body, tolerance_seconds=self._tolerance_seconds, now_seconds=now_seconds)
            return
        refused = SignatureRefused("X-Hub-Signature does not fit")
        fits = False
        for secret in self._hub_secrets:
            try:
                verify_hub(secret, headers, body)
                fits = True
            except SignatureRefused as error:
                refused = error
        if not fits:
            raise refused

    def _verification(self, query: str) -> Refusal | Handshake:
        given = dict(parse_qsl(query, keep_blank_values=True, max_num_fields=32))
        mode, lease = given.get("hub.mode"), given.get("hub.lease_seconds", "")
        if mode == "denied":
            return Handshake(204)
        if mode not in ("subscribe", "unsubscribe") or not given.get("hub.challenge"):
            return Refusal(404, "this is no verification of a subscription")
        asked = Subscribing(
            "subscribe" if mode == "subscribe" else "unsubscribe", given.get("hub.topic", ""),
            int(lease) if lease.isascii() and lease.isdigit() and len(lease) < 12 else None,
        )  # fmt: skip
        if self._confirm is None or not self._confirm(asked):
            return Refusal(404, "this receiver did not ask for this subscription")
        return Handshake(200, given["hub.challenge"].encode(), _TEXT)

    def _handshake(self, headers: Mapping[str, str]) -> Refusal | Handshake:
        origin = headers["webhook-request-origin"]
        if origin in self._origins or "*" in self._origins:
            return Handshake(200, b"", {"Allow": "POST", "WebHook-Allowed-Origin": origin, "WebHook-Allowed-Rate": "*"})
        return Refusal(405, "this receiver did not ask for deliveries of this origin", {"Allow": "POST"})


def _read(headers: Mapping[str, str], body: bytes) -> list[Event]:
    content_type = headers.get("content-type")
    media_type = (content_type or "").partition(";")[0].strip().lower()
    is_replay = "hookwire-replay" in headers
    if media_type == _BATCH_TYPE:
        elements = json.loads(body)
        if not isinstance(elements, list):
            raise ValueError("no JSON array")
        return [_of_cloudevent(element, {}, is_replay=is_replay) for element in elements]
    if media_type == _STRUCTURED_TYPE:
        return [_of_cloudevent(json.loads(body), headers, is_replay=is_replay)]
    event_id = headers.get("webhook-id") or "sha256:" + hashlib.sha256(body).hexdigest()
    return [_event(headers, event_id, content_type, body, is_replay=is_replay)]


def _event(
    headers: Mapping[str, str], event_id: str, content_type: str | None, body: bytes, *, is_replay: bool
) -> Event:
    sequence, key, link = (headers.get(name) for name in ("hookwire-sequence", "hookwire-key", "link"))
    found = _SELF.search(link) if link else None
    topic = headers.get("hookwire-topic") or (found[1] if found else "")
    own = {name: _decoded(value) if name.startswith("ce-") else value for name, value in headers.items()}
    return Event(
        event_id, topic, None if key is None else _decoded(key), _number(sequence), None, content_type, own, body,
        is_replay=is_replay,
    )  # fmt: skip


def _of_cloudevent(members: Any, headers: Mapping[str, str], *, is_replay: bool) -> Event:
    """Return the event of a CloudEvent in JSON. In a batch, what identifies it is in its members alone."""
    if not isinstance(members, dict) or not all(
        isinstance(members.get(name), str) for name in ("id", "source", "type")
    ):
        raise ValueError("no CloudEvent")
    attributes = {f"ce-{name}": _attribute(value) for name, value in members.items() if not name.startswith("data")}
    content_type = members.get("datacontenttype")
    if content_type is not None and not isinstance(content_type, str):
        raise ValueError("datacontenttype is no text")
    source, key, sequence = members["source"], members.get("partitionkey"), members.get("sequence")
    own = members["id"] if str(members["id"]).startswith("evt_") else f"{source} {members['id']}"
    found = {
        "hookwire-topic": source.rpartition("/topics/")[2] if "/topics/" in source else "",
        **({"hookwire-key": key} if isinstance(key, str) else {}),
        **({"hookwire-sequence": str(sequence)} if sequence is not None else {}), **headers, **attributes,
    }  # fmt: skip
    return _event(
        found, headers.get("webhook-id") or own, content_type or _default_type(members), _data(members, content_type),
        is_replay=is_replay,
    )  # fmt: skip


def _data(members: Mapping[str, Any], content_type: str | None) -> bytes:
    encoded, data = members.get("data_base64"), members.get("data")
    if encoded is not None:
        try:
            return base64.b64decode(encoded, validate=True)
        except (binascii.Error, TypeError) as error:
            raise ValueError("data_base64 is not base64") from error
    if data is None:
        return b""
    subtype = (content_type or "application/json").partition(";")[0].strip().lower().partition("/")[2]
    if isinstance(data, str) and subtype != "json" and not subtype.endswith("+json"):
        return data.encode()
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()


def _default_type(members: Mapping[str, Any]) -> str | None:
    return "application/json" if members.get("data") is not None else None


def _attribute(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 20 else None


def _decoded(value: str) -> str:
    """Return the text of a header's value in percent-encoded UTF-8."""
    return unquote_to_bytes(value).decode("utf-8", "replace") if "%" in value else value
