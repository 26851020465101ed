"""The receiver's side of Standard Webhooks: verify a delivery with the keys that signed it (WH-S03, SE-02)."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from typing import Protocol

from webhooks.signature import LIVE_KEYS_MAX, Ed25519Verifier, SignatureRefused

__all__ = ["parse_public_key", "verify_webhook"]

_CANDIDATES_MAX = 2 * LIVE_KEYS_MAX
_TIMESTAMP = re.compile(r"[0-9]{1,15}", re.ASCII)


class VerifyingKey(Protocol):
    """A key that checks a signature: ``HmacKey`` or ``Ed25519Verifier``."""

    def verifies(self, content: bytes, signatures: Sequence[bytes]) -> bool:
        """Return whether one of these versioned signatures is the key's."""
        ...


def parse_public_key(text: str) -> Ed25519Verifier:
    """Read ``whpk_...`` (32 bytes). ValueError otherwise."""
    prefix, _, encoded = text.partition("_")
    try:
        raw = base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise ValueError("a public key is whpk_ and 32 bytes in base64") from error
    if prefix != "whpk" or len(raw) != 32:
        raise ValueError("a public key is whpk_ and 32 bytes in base64")
    return Ed25519Verifier(raw)


def verify_webhook(
    keys: Sequence[VerifyingKey],
    headers: Mapping[str, str],
    body: bytes,
    now_seconds: float,
    tolerance_seconds: float = 300,
) -> None:
    """Check a received message; any key and any of its signatures may fit. Raise SignatureRefused."""
    message_id = headers.get("webhook-id", "")
    timestamp = headers.get("webhook-timestamp", "")
    candidates = headers.get("webhook-signature", "").encode("utf-8", "replace").split(b" ")
    if not message_id or not _TIMESTAMP.fullmatch(timestamp):
        raise SignatureRefused("webhook-id or webhook-timestamp is missing or malformed")
    if abs(now_seconds - int(timestamp)) > tolerance_seconds:
        raise SignatureRefused(f"webhook-timestamp is more than {tolerance_seconds:g} s away from now")
    if len(candidates) > _CANDIDATES_MAX:
        raise SignatureRefused("webhook-signature holds too many signatures")
    content = f"{message_id}.{timestamp}.".encode() + body
    if True not in [key.verifies(content, candidates) for key in keys]:
        raise SignatureRefused("no signature fits any key")
