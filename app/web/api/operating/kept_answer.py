"""KeptAnswer: the answer to a POST with an ``Idempotency-Key``, for a route that sends a request of its own.

::

    find --> an answer is kept --> it is the answer
      '----> the request to another --> transaction: lock the key, find again, what the route makes, keep

The layer in front of the routes would hold one transaction for all of this, also while the other one thinks.
"""

from __future__ import annotations

import hashlib
from typing import Final

from starlette.requests import Request

from app.web.api.route.repeat_rules import keys_given, repeat_key
from app.web.authentication import key_id_of
from app.web.problem import Problem
from db.pool import Database

__all__ = ["KeptAnswer"]

_TENANT: Final = "default"


class KeptAnswer:
    """The answer of one request. Without a key nothing is found or kept. ``asked``: all that decides the answer."""

    def __init__(self, database: Database, request: Request, asked: str) -> None:
        self._database = database
        given = keys_given(request.scope)
        self._name = (_TENANT, key_id_of(request) or "", request.url.path, repeat_key(given) if given else "")
        self._asked = hashlib.sha256(asked.encode()).digest()

    async def find(self) -> str | None:
        """Return the kept JSON, or None. Raise ``Problem`` if the key was used for another request."""
        if not self._name[-1]:
            return None
        found = await self._database.fetchrow("answer.find", *self._name)
        if found is None:
            return None
        if found["fingerprint"] != self._asked:
            raise Problem("idempotency-key-reused")
        return str(found["body"].decode())

    async def find_locked(self) -> str | None:
        """Return the kept JSON as :meth:`find` does. Call it in the transaction that keeps one: others are refused."""
        if self._name[-1] and not await self._database.fetchval("answer.lock", *self._name):
            raise Problem("idempotency-key-in-flight")
        return await self.find()

    async def keep(self, answer: str) -> None:
        """Keep this JSON, as an answer with the status 200."""
        if self._name[-1]:
            headers = ["content-type", "application/json"]
            await self._database.execute("answer.keep", *self._name, self._asked, 200, headers, answer.encode())
