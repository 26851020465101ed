"""Invitation: the URL with which a callback may agree later, by GET or POST (CloudEvents handshake; WH-C12).

Its sealed token names the subscription and its version, so it cannot be guessed. It works once, and no more after a
change of the subscription. An agreement is such a change.
"""

from __future__ import annotations

import binascii
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode

from db.secret_box import SecretBox, SecretBoxError

__all__ = ["LIFETIME_SECONDS", "invite", "invited"]

LIFETIME_SECONDS = 7 * 86_400
_CONTEXT = b"consent"


def invite(box: SecretBox, subscription: str, version: int) -> str:
    """Return a token for the subscription of this public id."""
    key_id, sealed = box.seal(f"{subscription} {version} {int(time.time()) + LIFETIME_SECONDS}".encode(), _CONTEXT)
    return f"{key_id}.{urlsafe_b64encode(sealed).decode().rstrip('=')}"


def invited(box: SecretBox, token: str) -> tuple[str, int] | None:
    """Return the public id and the version of a token; None for an invalid or expired token."""
    key_id, _, encoded = token.partition(".")
    try:
        opened = box.open(key_id, urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)), _CONTEXT).decode()
    except (SecretBoxError, binascii.Error, ValueError):  # ValueError: not ASCII
        return None
    subscription, version, until = opened.split(" ")
    return (subscription, int(version)) if time.time() < int(until) else None
