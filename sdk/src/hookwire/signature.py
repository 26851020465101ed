"""Signature check in a callback: Standard Webhooks (``v1``, ``v1a``) and WebSub's ``X-Hub-Signature``.

    verify(secret, headers, body) -> Delivery        raises SignatureRefused; its message never holds a secret

Only ``v1a``, whose keys are ``whpk_...``, needs a package: ``cryptography``. Sources: the Standard Webhooks
specification and W3C WebSub, section 8.

Pass the body's bytes as received, before any parsing. The comparison takes constant time. During a rotation of secrets,
pass several secrets. One signature in the header must match one secret.

A delivery may arrive more than once, always with the same id. A receiver that must act only once stores the ids for the
time of the tolerance.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["TOLERANCE_SECONDS", "Delivery", "SignatureRefused", "Verifier", "verify", "verify_hub"]

TOLERANCE_SECONDS: Final = 300.0
_SIGNATURES_MAX = 20
_TIMESTAMP = re.compile(r"[0-9]{1,15}", re.ASCII)
_PUBLIC: Final = "whpk_"
_HUB_SIGNATURE = re.compile(r"(sha1|sha256|sha384|sha512)=([0-9a-f]{1,128})", re.ASCII | re.IGNORECASE)


class SignatureRefused(Exception):
    """The message does not come from the hub, or is too old. Answer 401 and change nothing."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """The signed headers. ``id`` is the same for each repetition. ``timestamp_seconds`` is when the hub sent it."""

    id: str
    timestamp_seconds: int


def verify(
    secrets: str | Sequence[str],
    headers: Mapping[str, str],
    body: bytes,
    *,
    tolerance_seconds: float = TOLERANCE_SECONDS,
    now_seconds: float | None = None,
) -> Delivery:
    """Check a received delivery and return it. Raise :class:`SignatureRefused`, or ValueError for an invalid secret.

    ``secrets``: one or several, ``whsec_...``; the prefix may be missing. ``whpk_...`` are public keys. ``headers``: of
    any web framework; upper and lower case are equal. ``body``: the raw bytes.
    """
    verifier = Verifier([secrets] if isinstance(secrets, str) else secrets)
    return verifier.verify(headers, body, tolerance_seconds=tolerance_seconds, now_seconds=now_seconds)


class Verifier:
    """The secrets of a receiver, read once. Raise ValueError for an invalid secret."""

    def __init__(self, secrets: Sequence[str]) -> None:
        self._keys = [_key(secret) for secret in secrets if not secret.startswith(_PUBLIC)]
        self._public = [_public_key(secret) for secret in secrets if secret.startswith(_PUBLIC)]

    def verify(
        self, headers: Mapping[str, str], body: bytes, *, tolerance_seconds: float = TOLERANCE_SECONDS,
        now_seconds: float | None = None,
    ) -> Delivery:  # fmt: skip
        """Check a received delivery as :func:`verify` does."""
        message_id, timestamp, candidates = _signed_headers(headers, tolerance_seconds, now_seconds)
        signed = f"{message_id}.{timestamp}.".encode() + body
        expected = [b"v1," + base64.b64encode(hmac.digest(key, signed, "sha256")) for key in self._keys]
        # All pairs are compared, even after a match, so that the time does not depend on the secrets.
        fits = [hmac.compare_digest(ours, theirs) for ours in expected for theirs in candidates]
        fits += [_fits(key, signed, theirs) for key in self._public for theirs in candidates]
        if True not in fits:
            raise SignatureRefused("no signature fits any secret")
        return Delivery(message_id, int(timestamp))


def _signed_headers(
    headers: Mapping[str, str], tolerance_seconds: float, now_seconds: float | None
) -> tuple[str, str, list[bytes]]:
    """Return id, timestamp and signatures; raise :class:`SignatureRefused` if they are malformed or old."""
    given = {name.lower(): value for name, value in headers.items()}
    message_id, timestamp = given.get("webhook-id", ""), given.get("webhook-timestamp", "")
    candidates = given.get("webhook-signature", "").encode("utf-8", "replace").split(b" ")
    if not message_id or not _TIMESTAMP.fullmatch(timestamp):
        raise SignatureRefused("webhook-id or webhook-timestamp is missing or malformed")
    if abs((time.time() if now_seconds is None else now_seconds) - int(timestamp)) > tolerance_seconds:
        raise SignatureRefused(f"webhook-timestamp is more than {tolerance_seconds:g} s away from now")
    if len(candidates) > _SIGNATURES_MAX:
        raise SignatureRefused("webhook-signature holds too many signatures")
    return message_id, timestamp, candidates


def verify_hub(secret: str, headers: Mapping[str, str], body: bytes) -> None:
    """Check ``X-Hub-Signature`` of a WebSub delivery against ``hub.secret``. Raise :class:`SignatureRefused`.

    This signature covers neither the id nor the time. Prefer :func:`verify`, which works with every hookwire hub.
    """
    value = next((value for name, value in headers.items() if name.lower() == "x-hub-signature"), "")
    match = _HUB_SIGNATURE.fullmatch(value)
    if match is None:
        raise SignatureRefused("X-Hub-Signature is missing or malformed, or its method is unknown")
    method, digits = match.group(1).lower(), match.group(2).lower()
    if not hmac.compare_digest(hmac.digest(secret.encode(), body, method).hex(), digits):
        raise SignatureRefused("X-Hub-Signature does not fit")


def _key(secret: str) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not key:
        raise ValueError("a secret is base64 text; pass it as the hub returned it, with or without whsec_")
    return key


def _public_key(secret: str) -> Any:
    """Return the public key of ``v1a``. Raise ImportError without the package cryptography."""
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError:
        raise ImportError(
            "keys that begin with whpk_ need the package cryptography: pip install cryptography"
        ) from None
    try:
        return Ed25519PublicKey.from_public_bytes(base64.b64decode(secret.removeprefix(_PUBLIC), validate=True))
    except (binascii.Error, ValueError):
        raise ValueError("a public key is whpk_ and the base64 text of 32 bytes, as the hub returned it") from None


def _fits(key: Any, signed: bytes, signature: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature

    version, _, encoded = signature.partition(b",")
    if version != b"v1a":
        return False
    try:
        key.verify(base64.b64decode(encoded, validate=True), signed)
    except (InvalidSignature, binascii.Error, ValueError):
        return False
    return True
