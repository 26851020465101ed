"""A door, which is an inbound source. It judges a request and makes an event of it, without any input or output.

Whoever cannot sign learns nothing: the verdict on an unknown door takes the same steps, with a key that nobody has.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from event.event import Draft
from event.hops import HOPS_HEADER, hops_of
from event.topic import TopicError, key_or_digest
from hub.inbound.event_headers import EventHeaders
from hub.inbound.preset import PRESETS, Example, Handshake
from hub.inbound.reference import ReferenceRefused, SignedRequest, check_reference, check_template, topic_of
from hub.inbound.scheme import Headers, SchemeRefused, SignatureScheme, SignatureWrong
from webhooks.custom_header import is_coding, is_ours, is_private

__all__ = ["NOBODY", "DoorRefused", "EventRefused", "HandshakeAnswer", "InboundEvent", "InboundSource", "is_door_name"]

HEADERS_MAX: Final = 32
REMEMBER_SECONDS_MAX: Final = 2_592_000
_NO_KEY: Final = secrets.token_bytes(32)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_ANSWER_BYTES_MAX: Final = 4_096
_IDENTITY_BYTES_MAX: Final = 180
_SETTINGS: Final = ("topic", "id", "type", "key", "headers", "scheme")


class DoorRefused(ValueError):
    """These settings make no door; the text says why."""


class EventRefused(Exception):
    """The request is signed, but it can be no event. ``reason`` is one word, the text is for people."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class HandshakeAnswer:
    """A handshake: it is answered with this text, and makes no event."""

    text: str


@dataclass(frozen=True, slots=True)
class InboundEvent:
    """The event of a request, and the digest by which its repeats are known. ``left_out`` has name and reason of each
    header that the event lacks.
    """

    draft: Draft
    fingerprint: bytes
    delivery_id: str | None
    left_out: tuple[tuple[str, str], ...] = ()


def is_door_name(name: str) -> bool:
    """Return whether a door may have this name."""
    return _NAME.fullmatch(name) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class InboundSource:
    """A door, with the keys that are valid now; see :meth:`made` for its settings."""

    name: str
    preset: str
    scheme: SignatureScheme
    topic: str
    ids: tuple[str, ...]
    types: tuple[str, ...]
    key: str | None
    headers: tuple[str, ...]
    handshake: Handshake | None
    example: Example
    keys: tuple[bytes, ...] = field(default=(), repr=False)
    rate_per_minute: int | None = None

    @classmethod
    def made(
        cls, name: str, preset: str, settings: Mapping[str, Any], rate_per_minute: int | None = None
    ) -> InboundSource:
        """Make a door of a preset and of settings that replace parts of it; raises :class:`DoorRefused`.

        The setting ``topic`` is a template with ``{type}`` and ``{source}``. ``id``, ``type`` and ``key`` are
        references, ``headers`` are names that the event keeps, and ``scheme`` has parts of :class:`SignatureScheme`.
        An empty list of references is none: without an id, for example, no repeat is known.
        """
        known = PRESETS.get(preset)
        if known is None:
            raise DoorRefused(f"there is no preset {preset[:40]!r}; there are {', '.join(PRESETS)}")
        if not is_door_name(name):
            raise DoorRefused("a source's name is 1-64 of A-Z a-z 0-9 . _ -, and begins with a letter or digit")
        if unknown := set(settings) - set(_SETTINGS):
            raise DoorRefused(f"there is no setting {min(unknown)}")
        references = {part: _references(settings.get(part)) for part in ("id", "type", "key")}
        try:
            scheme = SignatureScheme(**{**known.scheme, **settings.get("scheme", {})})
            topic = check_template(settings.get("topic") or "{source}.{type}", name)
        except (SchemeRefused, ReferenceRefused) as error:
            raise DoorRefused(str(error)) from None
        except TypeError:
            raise DoorRefused("the scheme has no such part") from None
        if any(f"header:{scheme.header}" in found for found in references.values()):
            raise DoorRefused(f"{scheme.header} holds the signature or the secret, so no event is named by it")
        headers = settings.get("headers")
        return cls(
            name=name,
            preset=preset,
            scheme=scheme,
            topic=topic,
            ids=known.ids if settings.get("id") is None else references["id"],
            types=known.types if settings.get("type") is None else references["type"],
            key=references["key"][0] if references["key"] else None,
            headers=known.headers if headers is None else _kept(headers, scheme),
            handshake=known.handshake,
            example=known.example,
            rate_per_minute=rate_per_minute,
        )

    def verify(self, headers: Headers, body: bytes, now: float) -> None:
        """Check the signature; raises ``hub.inbound.scheme.SignatureWrong``.

        Whatever is wrong, the body was hashed before. So the time does not tell whether the door exists.
        """
        try:
            self.scheme.check(self.keys, headers, body, now)
        except SignatureWrong as wrong:
            if wrong.reason.startswith("no_") or self.scheme.kind == "token":
                hmac.digest(_NO_KEY, body, "sha256")
            raise

    def take(self, headers: Headers, body: bytes) -> HandshakeAnswer | InboundEvent:
        """Return what a verified request says; raises :class:`EventRefused`."""
        request = SignedRequest(headers, body)
        if (handshake := self.handshake) is not None and request.at(handshake.at) == handshake.is_text:
            answer = request.at(handshake.answer) if handshake.answer is not None else "ok"
            return HandshakeAnswer((answer or "")[:_ANSWER_BYTES_MAX])
        identity = request.first(self.ids)
        try:
            topic = topic_of(self.topic, self.name, request.first(self.types))
        except TopicError as error:
            raise EventRefused("no_topic", str(error)) from None
        key = request.at(self.key) if self.key is not None else None
        found = EventHeaders(headers, self.headers)
        hops = hops_of(found.hops)
        if hops is None:
            raise EventRefused("hops", "it has passed too many hubs")
        draft = Draft(
            topic, body, key_or_digest(key) if key else None, found.content_type,
            found.kept | ({HOPS_HEADER: str(hops)} if hops else {}),
            None if identity is None else self._idempotency_key(identity),
        )  # fmt: skip
        return InboundEvent(draft, hashlib.sha256(body).digest(), identity, tuple(found.left_out))

    def signed_example(self, secret: str, now: int) -> tuple[dict[str, str], bytes]:
        """Return headers and body of an example, as this sender would send it."""
        body = self.example.body.encode()
        return self.scheme.sign(secret, self.example.headers, body, now), body

    def _idempotency_key(self, identity: str) -> str:
        """Return the key of a delivery id. No publisher can send U+001F, so no other request has this key.

        By its end the clean-up knows that the door says how long it is kept.
        """
        if len(identity.encode()) > _IDENTITY_BYTES_MAX or not identity.isprintable():
            identity = hashlib.sha256(identity.encode()).hexdigest()
        return f"{self.name}:{identity}\x1fin"


def _references(given: Any) -> tuple[str, ...]:
    if given is None:
        return ()
    try:
        return tuple(check_reference(one) for one in ([given] if isinstance(given, str) else given))
    except ReferenceRefused as error:
        raise DoorRefused(str(error)) from None


def _kept(headers: Sequence[str], scheme: SignatureScheme) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.lower() for name in headers))
    if len(names) > HEADERS_MAX:
        raise DoorRefused(f"an event keeps at most {HEADERS_MAX} headers")
    for name in names:
        if not name.isascii() or not all(part.isalnum() for part in re.split("[-_.]", name)):
            raise DoorRefused(f"{name[:80]!r} is no header's name")
        if is_ours(name) or is_private(name) or is_coding(name):
            raise DoorRefused(f"{name} is the hub's own header, or one that would mislead or reach every subscriber")
        if name == scheme.header:
            raise DoorRefused(f"{name} holds the signature or the secret, so no event keeps it")
    return names


NOBODY: Final = InboundSource(
    name="nobody", preset="hmac", scheme=SignatureScheme(header="x-signature"), topic="nobody", ids=(), types=(),
    key=None, headers=(), handshake=None, example=Example({}, ""), keys=(_NO_KEY,),
)  # fmt: skip
"""The door in place of one that does not exist. Its key is random, and new in each process."""
