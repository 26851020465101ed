"""SignatureScheme: how a sender signs. It checks the signature of raw bytes, and signs an example.

Sources: the documentation of each sender, named in docs/reference/inbound.md; Standard Webhooks; RFC 2104 (HMAC).

All secrets and all signatures of a request are compared, in constant time and without an early exit. So the time of a
check tells nothing about which of them was right.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

__all__ = ["SECRET_BYTES_MAX", "SECRET_BYTES_MIN", "Headers", "SchemeRefused", "SignatureScheme", "SignatureWrong"]

Headers = Mapping[str, Sequence[bytes]]
"""The headers of a request: values by lower-case name."""
SECRET_BYTES_MIN: Final = 4
SECRET_BYTES_MAX: Final = 512
_SIGNATURES_MAX: Final = 16
_HEADER_BYTES_MAX: Final = 4_096
_WINDOW_SECONDS_MAX: Final = 86_400
_HEADER = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}")
_TIMESTAMP = re.compile(rb"[0-9]{1,12}")
_PART = re.compile(r"(\{(?:body|timestamp|id)\})")
_PRINTABLE = re.compile(r"[\x20-\x7e]{0,64}")
_BODY: Final = "{body}"
_TIME: Final = "{timestamp}"
_ID: Final = "{id}"
Algorithm = Literal["sha1", "sha256", "sha512"]
Encoding = Literal["hex", "base64"]


class SchemeRefused(ValueError):
    """These settings are no scheme; the text says why."""


class SignatureWrong(Exception):
    """The request is not signed by this scheme with one of the secrets; the text says why. ``reason`` is one word."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class SignatureScheme:
    """A way of signing; raises :class:`SchemeRefused`.

    ``header`` holds one signature behind ``prefix``, or several with ``separator`` between them. ``signed`` are the
    bytes that are signed: ``{body}``, ``{timestamp}`` and ``{id}`` stand for the parts of the request. The timestamp is
    in ``timestamp_header``, or behind ``timestamp_item`` in the signature's header, in seconds since 1970. It may
    differ from our clock by ``window_seconds``. ``key_form`` says whether the secret is the key itself or its base64,
    behind ``whsec_``. A ``token`` is the secret itself in the header: nothing is signed.
    """

    kind: Literal["hmac", "token"] = "hmac"
    header: str
    separator: Literal["", " ", ","] = ""
    prefix: str = ""
    algorithm: Algorithm = "sha256"
    encoding: Encoding = "hex"
    signed: str = _BODY
    id_header: str | None = None
    timestamp_header: str | None = None
    timestamp_item: str | None = None
    window_seconds: int = 300
    key_form: Literal["text", "base64"] = "text"

    def __post_init__(self) -> None:
        for name in (self.header, self.id_header, self.timestamp_header):
            if name is not None and not _HEADER.fullmatch(name):
                raise SchemeRefused("a header's name is 1-100 of a-z 0-9 _ - in lower case")
        if self.kind == "token":
            return
        if _BODY not in self.signed:
            raise SchemeRefused("what is signed holds {body}; without it, anybody could change the body")
        if len(self.signed) > 200 or not self.signed.isascii() or not self.signed.isprintable():
            raise SchemeRefused("signed is at most 200 printable characters of ASCII")
        if re.search(r"[{}]", _PART.sub("", self.signed)):
            raise SchemeRefused("signed may hold {body}, {timestamp} and {id}, and no other braces")
        if (_TIME in self.signed) != (self.timestamp_header is not None or self.timestamp_item is not None):
            raise SchemeRefused("a timestamp has a place, timestamp_header or timestamp_item, and is in what is signed")
        if (_ID in self.signed) != (self.id_header is not None):
            raise SchemeRefused("{id} is signed exactly where id_header names its place")
        if self.algorithm not in get_args(Algorithm) or self.encoding not in get_args(Encoding):
            raise SchemeRefused("the algorithm is sha1, sha256 or sha512; the encoding is hex or base64")
        if not 1 <= self.window_seconds <= _WINDOW_SECONDS_MAX:
            raise SchemeRefused(f"window_seconds is 1 to {_WINDOW_SECONDS_MAX}")
        if not all(_PRINTABLE.fullmatch(text or "") for text in (self.prefix, self.timestamp_item)):
            raise SchemeRefused("prefix and timestamp_item are at most 64 printable characters")

    @property
    def has_timestamp(self) -> bool:
        """Return whether the sender says when it has signed."""
        return self.kind == "hmac" and _TIME in self.signed

    @property
    def headers(self) -> frozenset[str]:
        """Return the names of the headers that it reads."""
        return frozenset(filter(None, (self.header, self.id_header, self.timestamp_header)))

    def key(self, secret: str) -> bytes:
        """Return the bytes of a secret; raises :class:`SchemeRefused` if it has not the form of this scheme."""
        key = secret.encode()
        if self.key_form == "base64":
            try:
                key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
            except (binascii.Error, ValueError):
                raise SchemeRefused("this sender's secret is whsec_ and base64") from None
        if not SECRET_BYTES_MIN <= len(key) <= SECRET_BYTES_MAX:
            raise SchemeRefused(f"a secret has {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes")
        return key

    def new_secret(self) -> str:
        """Return a secret of 32 random bytes in the form of this scheme."""
        if self.key_form == "base64":
            return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode("ascii")
        return secrets.token_hex(32)

    def check(self, keys: Sequence[bytes], headers: Headers, body: bytes, now: float) -> None:
        """Check a request; raises :class:`SignatureWrong`. ``now`` is in seconds since 1970, of the wall clock."""
        given = _only(headers, self.header)
        if self.kind == "token":
            if True not in [hmac.compare_digest(key, given) for key in keys]:
                raise SignatureWrong("wrong_signature", f"the token in {self.header} is not one of the secrets")
            return
        stamp = self._timestamp(headers, given)
        identity = _only(headers, self.id_header) if self.id_header is not None else b""
        signed = self._content(stamp, identity, body)
        signatures = self._signatures(given)
        expected = [self._encoded(key, signed) for key in keys]
        if True not in [hmac.compare_digest(one, signature) for one in expected for signature in signatures]:
            raise SignatureWrong("wrong_signature", f"no signature in {self.header} is of one of the secrets")
        if self.has_timestamp and abs(now - int(stamp)) > self.window_seconds:
            seconds, word = round(abs(now - int(stamp))), "ago" if now > int(stamp) else "ahead of this clock"
            detail = f"it was signed {seconds} s {word}, and {self.window_seconds} s are allowed"
            raise SignatureWrong("outside_window", detail)

    def sign(self, secret: str, headers: Mapping[str, str], body: bytes, now: int) -> dict[str, str]:
        """Return the headers with which a sender sends this body; raises :class:`SchemeRefused` for a bad secret."""
        key = self.key(secret)
        if self.kind == "token":
            return {**headers, self.header: secret}
        stamp = str(now).encode()
        found = dict(headers)
        if self.id_header is not None:
            found.setdefault(self.id_header, "example")
        if self.timestamp_header is not None:
            found[self.timestamp_header] = str(now)
        identity = found[self.id_header].encode() if self.id_header is not None else b""
        signature = self.prefix + self._encoded(key, self._content(stamp, identity, body)).decode("ascii")
        if self.timestamp_item is not None:
            signature = f"{self.timestamp_item}{now}{self.separator}{signature}"
        return {**found, self.header: signature}

    def _timestamp(self, headers: Headers, given: bytes) -> bytes:
        if not self.has_timestamp:
            return b""
        if self.timestamp_header is not None:
            stamp = _only(headers, self.timestamp_header)
        else:
            item = (self.timestamp_item or "").encode()
            stamp = next((one[len(item) :] for one in self._items(given) if one.startswith(item)), b"")
        if not _TIMESTAMP.fullmatch(stamp):
            raise SignatureWrong("no_timestamp", "there is no timestamp in seconds since 1970")
        return stamp

    def _content(self, stamp: bytes, identity: bytes, body: bytes) -> bytes:
        if self.signed == _BODY:
            return body
        values: Mapping[str, bytes] = {_BODY: body, _TIME: stamp, _ID: identity}
        return b"".join([values.get(part, part.encode()) for part in _PART.split(self.signed)])

    def _items(self, given: bytes) -> list[bytes]:
        return [one.strip() for one in given.split(self.separator.encode())] if self.separator else [given]

    def _signatures(self, given: bytes) -> list[bytes]:
        prefix = self.prefix.encode()
        found = [one[len(prefix) :] for one in self._items(given) if one.startswith(prefix)]
        if not found or len(found) > _SIGNATURES_MAX:
            raise SignatureWrong("no_signature", f"{self.header} holds no signature of this form, or too many")
        return [one.lower() for one in found] if self.encoding == "hex" else found

    def _encoded(self, key: bytes, content: bytes) -> bytes:
        digest = hmac.digest(key, content, self.algorithm)
        return digest.hex().encode() if self.encoding == "hex" else base64.b64encode(digest)


def _only(headers: Headers, name: str) -> bytes:
    """Return the value of a header that has to come once."""
    values = headers.get(name, ())
    if len(values) != 1:
        raise SignatureWrong("no_signature", f"the header {name} {'is missing' if not values else 'came twice'}")
    if len(values[0]) > _HEADER_BYTES_MAX:
        raise SignatureWrong("no_signature", f"the header {name} has more than {_HEADER_BYTES_MAX} bytes")
    return values[0]
