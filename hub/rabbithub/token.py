"""RabbitHub's tokens: proof that a resource itself asked to be subscribed somewhere else (RH-15..RH-17).

Opaque, encrypted and authenticated with the keys that all processes share; names the resource, the use, an expiry, and
the owner's data.
"""

from __future__ import annotations

import base64
import binascii
import json
import time

from db.secret_box import SecretBox, SecretBoxError
from hub.rabbithub.resource import Resource

__all__ = ["LIFETIME_SECONDS", "generate", "is_right", "read"]

LIFETIME_SECONDS = 300
_CONTEXT = b"rabbithub token"


def generate(secret_box: SecretBox, resource: Resource, use: str, data: str, now: float | None = None) -> str:
    """Return a token for one use of one resource."""
    expires_at = (time.time() if now is None else now) + LIFETIME_SECONDS
    content = json.dumps([resource.id, use, data, expires_at]).encode()
    key_id, sealed = secret_box.seal(content, _CONTEXT)
    return f"{key_id}.{base64.urlsafe_b64encode(sealed).decode().rstrip('=')}"


def read(secret_box: SecretBox, token: str, now: float | None = None) -> tuple[int, str] | None:
    """Return the resource's number and the use of a token that was made here and has not expired; else None."""
    key_id, _, text = token.rpartition(".")
    try:
        sealed = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        resource, use, _data, expires_at = json.loads(secret_box.open(key_id, sealed, _CONTEXT))
    except (SecretBoxError, binascii.Error, ValueError):
        return None
    return (resource, use) if (time.time() if now is None else now) < expires_at else None


def is_right(secret_box: SecretBox, resource: Resource, use: str, token: str, now: float | None = None) -> bool:
    """Return whether this token was made here, for this resource and use, and has not expired."""
    return read(secret_box, token, now) == (resource.id, use)
