"""Signature check of a callback: Standard Webhooks (``v1``) and WebSub's ``X-Hub-Signature``, with nothing but Python.

    verify(secret, headers, body) -> Delivery        raises SignatureRefused; the text says why and names no secret

Sources: the Standard Webhooks specification, W3C WebSub section 8. What is checked are the bytes as they were received,
before anything has parsed them, in constant time. Several secrets may be given while one is being rotated, and the
header may hold several signatures; one of them has to fit one of the secrets.

A delivery may come more than once, always under the same id: a receiver that must not act twice remembers the ids it
has seen for as long as the tolerance.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["TOLERANCE_SECONDS", "Delivery", "SignatureRefused", "verify", "verify_hub"]

TOLERANCE_SECONDS: Final = 300.0
_SIGNATURES_MAX = 20
_TIMESTAMP = re.compile(r"[0-9]{1,15}", re.ASCII)
_HUB_SIGNATURE = re.compile(r"(sha1|sha256|sha384|sha512)=([0-9a-f]{1,128})", re.ASCII | re.IGNORECASE)


class SignatureRefused(Exception):
    """The message is not from the hub, or is too old; answer 401 and change nothing."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """What the signature vouches for: ``webhook-id``, the same for every repeat, and when it was sent (seconds)."""

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
    """Check a received delivery; raises :class:`SignatureRefused`, and ValueError for a secret that is none.

    ``secrets``: one ``whsec_...`` or several of them; the prefix may be missing. ``headers``: of any web framework, in
    any case. ``body``: the raw bytes.
    """
    keys = [_key(secret) for secret in ([secrets] if isinstance(secrets, str) else secrets)]
    given = {name.lower(): value for name, value in headers.items()}
    message_id, timestamp = given.get("webhook-id", ""), given.get("webhook-timestamp", "")
    candidates = given.get("webhook-signature", "").encode("utf-8", "replace").split(b" ")
    if not message_id or not _TIMESTAMP.fullmatch(timestamp):
        raise SignatureRefused("webhook-id or webhook-timestamp is missing or malformed")
    if abs((time.time() if now_seconds is None else now_seconds) - int(timestamp)) > tolerance_seconds:
        raise SignatureRefused(f"webhook-timestamp is more than {tolerance_seconds:g} s away from now")
    if len(candidates) > _SIGNATURES_MAX:
        raise SignatureRefused("webhook-signature holds too many signatures")
    signed = f"{message_id}.{timestamp}.".encode() + body
    expected = [b"v1," + base64.b64encode(hmac.digest(key, signed, "sha256")) for key in keys]
    # Every pair is compared, whatever was found before: how long it takes tells nothing.
    if True not in [hmac.compare_digest(ours, theirs) for ours in expected for theirs in candidates]:
        raise SignatureRefused("no signature fits any secret")
    return Delivery(message_id, int(timestamp))


def verify_hub(secret: str, headers: Mapping[str, str], body: bytes) -> None:
    """Check ``X-Hub-Signature`` of a WebSub delivery against ``hub.secret``; raises :class:`SignatureRefused`.

    It covers neither id nor time: prefer :func:`verify`, which a hookwire hub makes possible as well.
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
        raise ValueError("a secret is base64, as the hub gave it out, with whsec_ before it or without")
    return key
