"""The form of a request to the hub, read strictly (W3C WebSub 5.1; WS-09..WS-16, WS-76..WS-78, PA-01).

    Content-Type, body --fields--> (name, value), ... --read--> Subscribing | Pinging | FormRefused

A name in ``_SINGLE`` that comes twice is an error, because two readers of the form could take different values (B-20).
Parameters that a mode does not use are ignored: a lease or secret of an unsubscribe (WS-13), and unknown names (WS-16).
An empty optional parameter counts as absent, because real subscribers send such (WS-12, WS-14).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import parse_qsl, unquote_plus

from webhooks.signature import HUB_METHOD_DEFAULT, HUB_METHODS, HUB_SECRET_BYTES_MAX

__all__ = [
    "FIELDS_MAX",
    "FORM_BYTES_MAX",
    "Content",
    "FormDialect",
    "FormRefused",
    "Mode",
    "Pinging",
    "Subscribing",
    "Verify",
    "read",
]

FORM_BYTES_MAX = 64 * 1024
FIELDS_MAX = 64
PING_FIELDS_MAX = 1_001
"""Fields of a publish ping: its mode, and a thousand URLs. Clients send a hundred at a time (FX-02)."""
VERIFY_TOKEN_BYTES_MAX = 1024
"""Our own bound: the token goes back in the request line of the verification."""

LEASE_SECONDS_CEILING = 10**12
"""A longer requested lease is read as this. The operator's maximum is far below it (WS-12, PA-04)."""

_MEDIA_TYPE = "application/x-www-form-urlencoded"
_DIGITS = re.compile(r"[0-9]+")
_COMMA_BEFORE_URL = re.compile(r",\s*(?=https?://)", re.IGNORECASE)
_PING = re.compile(r"(?:\A|&)hub\.mode=publish(?:&|\Z)")
_SEPARATORS = re.compile(r"[,\s]+")
_SINGLE = frozenset(
    {
        "hub.mode",
        "hub.callback",
        "hub.topic",
        "hub.lease_seconds",
        "hub.secret",
        "hub.verify_token",
        "hub.hash_algorithms",
    }
)
_FOR_UNSUBSCRIBE = frozenset({"hub.mode", "hub.callback", "hub.topic", "hub.verify_token"})
_PUBLISHED = ("hub.url", "hub.url[]", "hub.topic", "hub.topic[]")


class FormDialect(StrEnum):
    """How parameters of PubSubHubbub 0.3 are treated.

    OFF ignores them. TOLERANT echoes ``hub.verify_token``, and reads ``hub.verify`` as the sign of a subscriber that
    knows sha1 only. STRICT03 is 0.3: the subscriber chooses how it is verified, and without a lease a subscription
    never ends.
    """

    OFF = "off"
    TOLERANT = "tolerant"
    STRICT03 = "strict03"


class Verify(StrEnum):
    """PubSubHubbub 0.3: before the answer, or after it."""

    SYNC = "sync"
    ASYNC = "async"


class Mode(StrEnum):
    """The actions that a subscriber can request."""

    SUBSCRIBE = "subscribe"
    UNSUBSCRIBE = "unsubscribe"


class FormRefused(Exception):
    """The request is refused; nothing was stored.

    Attributes:
        status: the HTTP status that fits.
        parameter: the form's parameter that is wrong, if one is.
        text: why, for the caller: never quotes a secret or a callback.
        retry_after_seconds: when to repeat the request.
    """

    def __init__(self, status: int, parameter: str, why: str, *, retry_after_seconds: int | None = None) -> None:
        self.status = status
        self.parameter = parameter
        self.text = f"{parameter} {why}" if parameter else why
        self.retry_after_seconds = retry_after_seconds
        super().__init__(self.text)


@dataclass(frozen=True, slots=True)
class Subscribing:
    """A subscribe or unsubscribe request. Its repr hides callback, secret and token (WS-106).

    Attributes:
        mode: which of the two.
        topic_url: ``hub.topic`` as sent, decoded once (WS-40).
        callback: ``hub.callback`` as sent, decoded once (WS-24).
        lease_seconds: the requested lease; None without one, and always None to unsubscribe.
        secret: UTF-8 bytes of ``hub.secret``, at most 199 (WS-14); None for none.
        signature_method: one of sha1, sha256, sha384, sha512 (SG-3).
        verify_token: to be echoed in the verification, if given (PS-07).
        verify: of PubSubHubbub 0.3 only (PS-05, PS-06).
    """

    mode: Mode
    topic_url: str
    callback: str = field(repr=False)
    lease_seconds: int | None = None
    secret: bytes | None = field(default=None, repr=False)
    signature_method: str = HUB_METHOD_DEFAULT
    verify_token: str | None = field(default=None, repr=False)
    verify: Verify | None = None


@dataclass(frozen=True, slots=True)
class Content:
    """The new content itself, and the proof that it may be distributed (WS-86)."""

    body: bytes = field(repr=False)
    signature: str


@dataclass(frozen=True, slots=True)
class Pinging:
    """A publish ping: these topic URLs have new content; at least one, each once, in the order given (WS-77).

    With ``content`` no fetch is needed; then exactly one topic is named.
    """

    topic_urls: tuple[str, ...]
    content: Content | None = None


def read(content_type: str | None, body: bytes, dialect: FormDialect = FormDialect.TOLERANT) -> Subscribing | Pinging:
    """Read a form.

    Args:
        content_type: the header's value, None without one.
        body: the whole body; more than `FORM_BYTES_MAX` bytes are refused.
        dialect: see `FormDialect`.

    Raises:
        FormRefused: 415 for another media type or charset, 413 for a body too large, 400 for everything else.
    """
    form = _fields(content_type, body)
    mode = _required(form, "hub.mode")
    if mode == "publish":
        return _pinging(form)
    if mode not in tuple(Mode):
        raise FormRefused(400, "hub.mode", "must be subscribe, unsubscribe or publish")
    return _subscribing(Mode(mode), form, dialect)


def _fields(content_type: str | None, body: bytes) -> list[tuple[str, str]]:
    _check_media_type(content_type)
    if len(body) > FORM_BYTES_MAX:
        raise FormRefused(413, "", f"the form is larger than {FORM_BYTES_MAX} bytes")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise FormRefused(400, "", "the form is not valid UTF-8") from None
    fields_max = PING_FIELDS_MAX if _PING.search(text) else FIELDS_MAX
    if text.count("&") >= fields_max:
        raise FormRefused(400, "", f"the form has more than {fields_max} fields")
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", separator="&", max_num_fields=fields_max)
    except UnicodeDecodeError:
        raise FormRefused(400, _undecodable(text), "has an escape that is not valid UTF-8") from None
    for name, value in pairs:
        if "\0" in name or "\0" in value:
            raise FormRefused(400, name.replace("\0", "")[:50], "contains a NUL character")
    return pairs


def _check_media_type(content_type: str | None) -> None:
    media_type, *parameters = (content_type or "").lower().split(";")
    if media_type.strip() != _MEDIA_TYPE:
        raise FormRefused(415, "", f"the request must be of type {_MEDIA_TYPE}")
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "charset" and value.strip().strip('"') not in ("utf-8", "utf8"):
            raise FormRefused(415, "", "the only charset accepted is UTF-8")


def _undecodable(text: str) -> str:
    """Return the name of the first field whose escapes are no UTF-8, for the error text."""
    for one in text.split("&"):
        name, _, value = one.partition("=")
        try:
            shown = unquote_plus(name, errors="strict")
        except UnicodeDecodeError:
            return "a parameter's name"
        try:
            unquote_plus(value, errors="strict")
        except UnicodeDecodeError:
            return shown[:50]
    raise AssertionError("every field can be decoded")


def _subscribing(mode: Mode, form: Sequence[tuple[str, str]], dialect: FormDialect) -> Subscribing:
    _check_single(form, _SINGLE if mode is Mode.SUBSCRIBE else _FOR_UNSUBSCRIBE)
    callback = _required(form, "hub.callback")
    topic_url = _required(form, "hub.topic")
    token = None if dialect is FormDialect.OFF else _verify_token(form)
    verify = _verify(form) if dialect is FormDialect.STRICT03 else None
    if mode is Mode.UNSUBSCRIBE:
        return Subscribing(mode, topic_url, callback, verify_token=token, verify=verify)
    return Subscribing(
        mode,
        topic_url,
        callback,
        lease_seconds=_lease_seconds(form),
        secret=_secret(form),
        signature_method=_signature_method(form, _default_method(form, dialect)),
        verify_token=token,
        verify=verify,
    )


def _pinging(form: Sequence[tuple[str, str]]) -> Pinging:
    # Commas are legal inside a URL, so a list is only split where the next URL begins (WS-77).
    named = (url for name, value in form if name in _PUBLISHED for url in _COMMA_BEFORE_URL.split(value) if url)
    urls = tuple(dict.fromkeys(named))
    if not urls:
        raise FormRefused(400, "hub.url", "is missing: name the topic that has new content")
    return Pinging(urls, _content(form, len(urls)))


def _content(form: Sequence[tuple[str, str]], topics: int) -> Content | None:
    _check_single(form, frozenset({"hub.content", "hub.signature"}))
    if not any(name == "hub.content" for name, _ in form):
        return None
    if topics > 1:
        raise FormRefused(400, "hub.content", "belongs to one topic, but the form names several")
    return Content(_given(form, "hub.content").encode(), _given(form, "hub.signature"))


def _check_single(form: Iterable[tuple[str, str]], single: frozenset[str]) -> None:
    seen = set()
    for name, _ in form:
        if name in single and name in seen:
            raise FormRefused(400, name, "is given more than once")
        seen.add(name)


def _given(form: Iterable[tuple[str, str]], name: str) -> str:
    return next((value for field_name, value in form if field_name == name), "")


def _required(form: Sequence[tuple[str, str]], name: str) -> str:
    _check_single(form, frozenset({name}))
    value = _given(form, name)
    if not value:
        raise FormRefused(400, name, "is missing")
    return value


def _lease_seconds(form: Sequence[tuple[str, str]]) -> int | None:
    text = _given(form, "hub.lease_seconds")
    if not text:
        return None
    if not _DIGITS.fullmatch(text) or not text.strip("0"):
        raise FormRefused(400, "hub.lease_seconds", "must be a positive decimal number of seconds")
    digits = text.lstrip("0")
    return int(digits) if len(digits) <= 12 else LEASE_SECONDS_CEILING


def _secret(form: Sequence[tuple[str, str]]) -> bytes | None:
    secret = _given(form, "hub.secret").encode()
    if len(secret) > HUB_SECRET_BYTES_MAX:
        raise FormRefused(400, "hub.secret", f"must be at most {HUB_SECRET_BYTES_MAX} bytes")
    return secret or None


def _verify(form: Sequence[tuple[str, str]]) -> Verify:
    """Return the first known word, in the subscriber's order (PS-03, PS-04)."""
    words = [word for name, value in form if name == "hub.verify" for word in _SEPARATORS.split(value.lower()) if word]
    if not words:
        raise FormRefused(400, "hub.verify", "is missing: sync or async")
    for word in words:
        if word in tuple(Verify):
            return Verify(word)
    raise FormRefused(400, "hub.verify", "names neither sync nor async")


def _default_method(form: Sequence[tuple[str, str]], dialect: FormDialect) -> str:
    """Choose sha1 for a subscriber of PubSubHubbub 0.3, which knows no other method; it sends ``hub.verify``
    (FX-01).
    """
    is_old = dialect is not FormDialect.OFF and any(name == "hub.verify" for name, _ in form)
    return "sha1" if is_old else HUB_METHOD_DEFAULT


def _signature_method(form: Sequence[tuple[str, str]], default: str) -> str:
    words = [word for word in _SEPARATORS.split(_given(form, "hub.hash_algorithms").lower()) if word]
    if not words:
        return default
    method = next((word for word in words if word in HUB_METHODS), None)
    if method is None:
        raise FormRefused(400, "hub.hash_algorithms", f"names none of {', '.join(HUB_METHODS)}")
    return method


def _verify_token(form: Sequence[tuple[str, str]]) -> str | None:
    token = _given(form, "hub.verify_token")
    if len(token.encode()) > VERIFY_TOKEN_BYTES_MAX:
        raise FormRefused(400, "hub.verify_token", f"must be at most {VERIFY_TOKEN_BYTES_MAX} bytes")
    return token or None
