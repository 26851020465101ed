"""Requests in the database: make, claim, reply, fetch, close. The rules are SQL functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from db.names import NamesInUse
from db.pool import Database, Row
from reqrep.bridge.receipt import RequestReceipt

__all__ = ["DIFFERS", "PRESENCE_SECONDS", "STORED", "UNDER_WAY", "HeldRequest", "RequestDraft", "Requests"]

PRESENCE_SECONDS: Final = 60.0
"""How long a worker counts as present after it asked for requests. This is longer than its longest wait."""
STORED: Final = "stored"
DIFFERS: Final = "differs"
UNDER_WAY: Final = frozenset({"waiting", "delayed", "leased"})


@dataclass(frozen=True, slots=True)
class RequestDraft:
    """A request that is not stored yet. The database checks the values (SQLSTATE 22023, HW003).

    * ``caller``: the only principal that may fetch the reply over HTTP. None: any principal that knows the id.
    * ``client`` and ``number``: a second request with the same pair is a repetition of the first.
    * ``expiry_seconds``: None for the service's default.
    """

    body: bytes
    content_type: str | None = None
    caller: str | None = None
    client: str | None = None
    number: str | None = None
    expiry_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class HeldRequest:
    """A request that a worker holds until ``leased_until``. ``attempts`` includes this claim."""

    receipt: RequestReceipt
    attempts: int
    leased_until: datetime
    created_at: datetime
    content_type: str | None
    body: bytes


class Requests:
    """Makes, claims, answers and closes requests.

    ``on_waiting`` gets the service of a new request. ``on_over`` gets the id of a request that was answered or closed.
    ``on_event`` is called after a reply, which publishes an event.

    Methods raise ``db.errors.DatabaseError``; its subclass ``Refused`` has the SQLSTATE:

    * 22023: an argument is not valid.
    * 42704: the service is unknown.
    * 23505: the pair of client and number names another request.
    * HW002: the service is disabled or has no worker.
    * HW003: the request or reply is too large.
    """

    def __init__(
        self,
        database: Database,
        on_waiting: Callable[[str], None] = lambda _: None,
        on_over: Callable[[str], None] = lambda _: None,
        on_event: Callable[[], None] = lambda: None,
    ) -> None:
        self._database = database
        self._on_waiting = on_waiting
        self._on_over = on_over
        self._on_event = on_event
        self._names = NamesInUse(database, "service")

    async def make(self, service: str, draft: RequestDraft) -> tuple[str, bool]:
        """Store a request. Return its id, and whether it had been stored before."""
        await self._names.ensure(service, draft.caller)
        row = await self._database.fetchrow(
            "request.make", service, draft.body, draft.content_type, draft.caller, draft.client, draft.number,
            draft.expiry_seconds,
        )  # fmt: skip
        assert row is not None, "the function returns one row"
        if not row["repeated"]:
            self._on_waiting(service)
        return row["id"], row["repeated"]

    async def claim(
        self, service: str, most: int, lease_seconds: float | None, worker: str, bytes_max: int | None = None,
        key_id: str | None = None,
    ) -> list[HeldRequest]:  # fmt: skip
        """Lease at most ``most`` waiting requests, the oldest first, and return them. The list may be empty.
        ``bytes_max`` None: 8 MiB of bodies. ``key_id`` is the worker's API key.
        """
        await self._names.ensure(service, key_id)
        rows = await self._database.fetch(
            "request.lease", service, most, lease_seconds, worker, PRESENCE_SECONDS, bytes_max
        )
        return [
            HeldRequest(
                RequestReceipt(row["id"], row["claim"]), row["attempts"], row["lease_until"], row["created_at"],
                row["content_type"], row["body"],
            )
            for row in rows
        ]  # fmt: skip

    async def reply(self, receipt: RequestReceipt, body: bytes, content_type: str | None) -> str:
        """Store the reply; return ``stored``, ``stale``, ``differs`` or ``unknown``. The first reply wins."""
        outcome: str = await self._database.fetchval(
            "request.reply", receipt.request_id, receipt.claim, body, content_type
        )
        if outcome == STORED:
            self._on_over(receipt.request_id)
            self._on_event()
        return outcome

    async def release(self, receipt: RequestReceipt, delay_seconds: float, why: str | None) -> str:
        """Return a request to the queue. Return its new state, or ``stale``. With a reason, the try has failed."""
        state: str = await self._database.fetchval(
            "request.release", receipt.request_id, receipt.claim, delay_seconds, why
        )
        if state not in UNDER_WAY:
            self._on_over(receipt.request_id)
        return state

    async def get(self, request_id: str, principal: str | None) -> Row | None:
        """Return the row of ``request.get``. Return None if the request is unknown or another principal's."""
        return await self._database.fetchrow("request.get", request_id, principal)

    async def service_of(self, request_id: str) -> str | None:
        """Return the service of a request, or None if the request is unknown."""
        service: str | None = await self._database.fetchval("request.service_of", request_id)
        return service

    async def close(self, request_id: str, principal: str | None, actor: str) -> bool:
        """Delete a request and its reply; return whether there was one. Another principal's stays unchanged."""
        is_closed = bool(await self._database.fetchval("request.close", request_id, principal, actor))
        if is_closed:
            self._on_over(request_id)
        return is_closed
