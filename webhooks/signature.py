"""Signatures of deliveries: Standard Webhooks (``v1``, ``v1a``) and WebSub's ``X-Hub-Signature``.

Sources: the Standard Webhooks specification, W3C WebSub 7 and 8; WH-S01..S07, WH-S13..S17, SG-1..SG-3, SG-6, SE-02.

    signed bytes   = webhook-id + "." + webhook-timestamp + "." + body       (the bytes signed are the bytes sent)
    v1             = HMAC-SHA256 with the *decoded* bytes of ``whsec_...``
    v1a            = ed25519 with the seed of ``whsk_...``, checked with ``whpk_...``
    X-Hub-Signature = <method>=<hex HMAC of the body alone>                  (key: UTF-8 bytes of ``hub.secret``)

A subscription with a WebSub secret gets both families, ``v1`` keyed with the very bytes of ``hub.secret`` (WH-S15); a
subscription without keys gets neither (WH-S16). During a rotation the old and the new key both sign, newest first; a
hub signature holds one value and cannot overlap (WH-S17, WH-S19).

A receiver that wants no repeats stores the ids that it has seen for the length of the tolerance.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

LIVE_KEYS_MAX: Final = 10
SECRET_BYTES_MIN: Final = 24
SECRET_BYTES_MAX: Final = 64
HUB_SECRET_BYTES_MAX: Final = 199
HUB_METHODS: Final = ("sha1", "sha256", "sha384", "sha512")
HUB_METHOD_DEFAULT: Final = "sha256"

if TYPE_CHECKING:
    from hashlib import _Hash as _Sha256

_BLOCK_BYTES: Final = hashlib.sha256().block_size
_INNER_PAD: Final = bytes(byte ^ 0x36 for byte in range(256))
_OUTER_PAD: Final = bytes(byte ^ 0x5C for byte in range(256))
_HUB_SIGNATURE = re.compile(r"([A-Za-z0-9]{1,16})=([0-9A-Fa-f]{1,128})", re.ASCII)


class SignatureRefused(Exception):
    """A message's signature is wrong; the text says why and names no secret."""


class SigningKey(Protocol):
    """A key that signs deliveries: ``HmacKey`` or ``Ed25519Key``."""

    def sign(self, content: bytes) -> str:
        """Sign the bytes; the answer carries its version, ``v1,...`` or ``v1a,...``."""
        ...

    def text(self) -> str:
        """Return the secret form, ``whsec_...`` or ``whsk_...``: shown once, to its owner (WH-S08)."""
        ...


@dataclass(frozen=True, slots=True, repr=False)
class HmacKey:
    """A symmetric key; ``secret`` is the decoded bytes.  The repr shows nothing of it."""

    secret: bytes
    _begun: tuple[_Sha256, _Sha256] = field(init=False, compare=False)
    """Both hashes of HMAC (RFC 2104), with the padded key read. ``hmac.digest`` reads it at each call, in twice the
    time."""

    def __post_init__(self) -> None:
        key = self.secret if len(self.secret) <= _BLOCK_BYTES else hashlib.sha256(self.secret).digest()
        padded = key.ljust(_BLOCK_BYTES, b"\0")
        begun = hashlib.sha256(padded.translate(_INNER_PAD)), hashlib.sha256(padded.translate(_OUTER_PAD))
        object.__setattr__(self, "_begun", begun)

    def sign(self, content: bytes) -> str:
        """Return ``v1,`` and the base64 of HMAC-SHA256 (WH-S03)."""
        inner, outer = self._begun[0].copy(), self._begun[1].copy()
        inner.update(content)
        outer.update(inner.digest())
        return "v1," + base64.b64encode(outer.digest()).decode("ascii")

    def verifies(self, content: bytes, signatures: Sequence[bytes]) -> bool:
        """Return whether one of the ``v1,`` signatures is right: as bytes, in constant time (SE-02)."""
        expected = self.sign(content).encode("ascii")
        return True in [hmac.compare_digest(expected, signature) for signature in signatures]  # no early exit

    def text(self) -> str:
        """Return ``whsec_`` and base64; also for a hub secret of any length (WH-S15)."""
        return "whsec_" + base64.b64encode(self.secret).decode("ascii")

    def __repr__(self) -> str:
        return "HmacKey(whsec_***)"


class Ed25519Verifier:
    """The public key of an asymmetric key, ``whpk_...``."""

    def __init__(self, public_bytes: bytes) -> None:
        self._public_bytes = public_bytes
        self._public = Ed25519PublicKey.from_public_bytes(public_bytes)

    def verifies(self, content: bytes, signatures: Sequence[bytes]) -> bool:
        """Return whether one of the ``v1a,`` signatures is the key's."""
        return True in [self._verifies_one(content, signature) for signature in signatures]

    def text(self) -> str:
        """Return ``whpk_`` and base64 of the 32 bytes; not a secret."""
        return "whpk_" + base64.b64encode(self._public_bytes).decode("ascii")

    def _verifies_one(self, content: bytes, signature: bytes) -> bool:
        version, _, encoded = signature.partition(b",")
        if version != b"v1a":
            return False
        try:
            self._public.verify(base64.b64decode(encoded, validate=True), content)
        except (InvalidSignature, binascii.Error):
            return False
        return True


class Ed25519Key:
    """An asymmetric key made from a seed of 32 bytes.  The repr shows nothing of it."""

    def __init__(self, seed: bytes) -> None:
        self._seed = seed
        self._private = Ed25519PrivateKey.from_private_bytes(seed)
        self.verifier = Ed25519Verifier(self._private.public_key().public_bytes_raw())

    def sign(self, content: bytes) -> str:
        """Return ``v1a,`` and the base64 of the ed25519 signature (WH-S03)."""
        return "v1a," + base64.b64encode(self._private.sign(content)).decode("ascii")

    def text(self) -> str:
        """Return ``whsk_`` and base64 of 64 bytes: seed, then public key (WH-S07)."""
        both = self._seed + self._private.public_key().public_bytes_raw()
        return "whsk_" + base64.b64encode(both).decode("ascii")

    def __repr__(self) -> str:
        return "Ed25519Key(whsk_***)"


def new_key() -> HmacKey:
    """Draw a symmetric key of 32 random bytes."""
    return HmacKey(secrets.token_bytes(32))


def new_ed25519_key() -> Ed25519Key:
    """Draw an asymmetric key."""
    return Ed25519Key(secrets.token_bytes(32))


def parse_key(text: str) -> HmacKey | Ed25519Key:
    """Read ``whsec_...`` (24-64 bytes) or ``whsk_...`` (32 or 64 bytes).  ValueError otherwise; it never quotes it."""
    prefix, raw = _decode_text(text)
    if prefix == "whsec" and SECRET_BYTES_MIN <= len(raw) <= SECRET_BYTES_MAX:
        return HmacKey(raw)
    if prefix == "whsk" and len(raw) in (32, 64):
        key = Ed25519Key(raw[:32])
        if raw[32:] in (b"", base64.b64decode(key.verifier.text().removeprefix("whpk_"))):
            return key
    raise ValueError(f"a signing key is whsec_ and {SECRET_BYTES_MIN}-{SECRET_BYTES_MAX} bytes in base64, or whsk_")


def hub_key(secret: str) -> HmacKey:
    """Return the key of a WebSub subscription: the UTF-8 bytes of ``hub.secret``, 1-199 of them (WH-S14).

    ValueError.
    """
    raw = secret.encode()
    if not 1 <= len(raw) <= HUB_SECRET_BYTES_MAX:
        raise ValueError(f"hub.secret has 1 to {HUB_SECRET_BYTES_MAX} bytes in UTF-8")
    return HmacKey(raw)


def webhook_headers(keys: Sequence[SigningKey], message_id: str, timestamp_seconds: int, body: bytes) -> dict[str, str]:
    """Return the headers of one attempt (WH-S01): id, timestamp of *this attempt* (WH-S06), and a signature per key, if
    any.

    ``keys`` are newest first, at most 10.  ValueError for more, or for an id with a dot or a space.
    """
    if not message_id or "." in message_id or " " in message_id:
        raise ValueError("a webhook id is not empty and holds no dot and no space")
    if len(keys) > LIVE_KEYS_MAX:
        raise ValueError(f"at most {LIVE_KEYS_MAX} keys sign one message")
    headers = {"webhook-id": message_id, "webhook-timestamp": str(timestamp_seconds)}
    if keys:
        content = _signed_bytes(message_id, str(timestamp_seconds), body)
        headers["webhook-signature"] = " ".join(key.sign(content) for key in keys)
    return headers


def hub_signature(secret: bytes, body: bytes, method: str = HUB_METHOD_DEFAULT) -> str:
    """Return the value of ``X-Hub-Signature``: ``<method>=<lower-case hex>`` over the body alone, also an empty one
    (SG-1).

    ValueError for a method outside ``HUB_METHODS``.
    """
    if method not in HUB_METHODS:
        raise ValueError(f"the method of a hub signature is one of {', '.join(HUB_METHODS)}")
    return f"{method}={hmac.digest(secret, body, method).hex()}"


def verify_hub_signature(secret: bytes, header: str, body: bytes) -> None:
    """Check a received ``X-Hub-Signature`` (SG-6: any case of method and digits).  Raises SignatureRefused."""
    match = _HUB_SIGNATURE.fullmatch(header)
    if match is None or match.group(1).lower() not in HUB_METHODS:
        raise SignatureRefused("X-Hub-Signature is malformed or its method is unknown")
    expected = hub_signature(secret, body, match.group(1).lower())
    if not hmac.compare_digest(expected.encode("ascii"), header.lower().encode("ascii")):
        raise SignatureRefused("X-Hub-Signature does not fit")


def _signed_bytes(message_id: str, timestamp: str, body: bytes) -> bytes:
    return f"{message_id}.{timestamp}.".encode() + body


def _decode_text(text: str) -> tuple[str, bytes]:
    prefix, _, encoded = text.partition("_")
    try:
        return prefix, base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:  # ValueError: characters outside ASCII
        raise ValueError("a key is a prefix, an underscore and base64") from error
