"""Sessions: browsers that have signed in with an API key.

::

    sign-in, a key --begin--> token in a cookie; its SHA-256 and the key's number in the database
    each request   --find---> the rights of the key, while session and key are valid
    sign-out       --end----> the row is deleted

A session lasts for eight hours at most. It ends with its key, because each lookup reads the key as it is now.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import Final

from starlette.types import Scope

from db.pool import Session
from hub.keys import Grant

__all__ = ["COOKIE", "SESSION_SECONDS", "Sessions", "form_token", "is_of_console", "session_token"]

SESSION_SECONDS: Final = 8 * 3_600
COOKIE: Final = "hookwire_session"
_TENANT: Final = "default"
_TOKEN: Final = re.compile(r"[0-9a-f]{64}")
_COOKIES_BYTES_MAX: Final = 8_192


class Sessions:
    """The verbs; a token is 32 random bytes in hexadecimal digits."""

    def __init__(self, database: Session) -> None:
        self._database = database

    async def begin(self, key_id: str) -> str | None:
        """Begin a session of this key; return its token. None: the key has just ended."""
        token = secrets.token_hex(32)
        begun = await self._database.fetchval("sign_in.begin", _TENANT, key_id, _digest(token), SESSION_SECONDS)
        return token if begun else None

    async def find(self, token: str) -> Grant | None:
        """Return the rights of the session's key; None for an unknown or ended session."""
        row = await self._database.fetchrow("sign_in.find", _digest(token))
        return Grant.of_row(row) if row is not None else None

    async def end(self, token: str) -> None:
        """End the session; ending it again changes nothing."""
        await self._database.execute("sign_in.end", _digest(token))


def is_of_console(path: str) -> bool:
    """Return whether this path is one of the console's pages, where a session counts."""
    return path == "/console" or path.startswith("/console/")


def session_token(scope: Scope) -> str | None:
    """Return the token in the request's cookies; None without one. Two different ones count as none."""
    pairs = (
        pair.partition(b"=")
        for name, value in scope["headers"]
        if name == b"cookie" and len(value) <= _COOKIES_BYTES_MAX
        for pair in value.split(b";")
    )
    found = {value.strip().decode("latin-1") for name, _, value in pairs if name.strip() == COOKIE.encode()}
    token = found.pop() if len(found) == 1 else ""
    return token if _TOKEN.fullmatch(token) else None


def form_token(token: str) -> str:
    """Return what a form of this session carries: a page of another site cannot know it."""
    return hashlib.sha256(b"form:" + token.encode()).hexdigest()


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
