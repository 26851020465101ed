"""Requests in the database: make, claim, reply, fetch, close. The rules are SQL functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from db.errors import DatabaseError
from db.names import NamesInUse
from db.pool import Database, Row
from reqrep.bridge.held_request import HeldRequest
from reqrep.bridge.plain_reply import PlainReply
from reqrep.bridge.receipt import RequestReceipt
from reqrep.bridge.request_notices import RequestNotices
from reqrep.bridge.waiting import ServiceWaiting
from reqrep.bridge.waiting_worker import WaitingWorker

__all__ = ["DIFFERS", "PRESENCE_SECONDS", "STORED", "UNDER_WAY", "RequestDraft", "Requests"]

PRESENCE_SECONDS: Final = 60.0
"""How long a worker counts as present after it asked for requests. This is longer than its longest wait."""
STORED: Final = "stored"
DIFFERS: Final = "differs"
UNDER_WAY: Final = frozenset({"waiting", "delayed", "leased"})
_HANDED_BYTES_MAX: Final = 65_536
"""A larger request is claimed by its worker, within the bytes that answers may have."""


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


class Requests:
    """Makes, claims, answers and closes requests.

    ``waiting`` has the callers and the workers that wait in this process. ``on_waiting`` gets the service of a new
    request that no worker has. ``notices`` tell other processes of each change that they may wait for. ``on_event`` is
    called after a reply whose event a relay has to send.

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
        waiting: ServiceWaiting,
        on_waiting: Callable[[str], None],
        notices: RequestNotices,
        on_event: Callable[[], None],
    ) -> None:
        self._database = database
        self._waiting = waiting
        self._on_waiting = on_waiting
        self._notices = notices
        self._on_event = on_event
        self._names = NamesInUse(database, "service")

    async def make(self, service: str, draft: RequestDraft) -> tuple[str, bool]:
        """Store a request. Return its id, and whether it had been stored before.

        If a worker waits in this process, the request is leased to it in the same statement, and handed to it.
        """
        await self._names.ensure(service, draft.caller)
        values = (
            service, draft.body, draft.content_type, draft.caller, draft.client, draft.number, draft.expiry_seconds,
        )  # fmt: skip
        may_be_handed = draft.number is None and len(draft.body) <= _HANDED_BYTES_MAX
        worker = self._waiting.reserve(service) if may_be_handed else None
        if worker is None:
            row = await self._database.fetchrow("request.make", *values)
        else:
            row = await self._make_for(worker, draft, values)
        assert row is not None, "the function returns one row"
        if row["claim"] is None and not row["repeated"]:
            self._is_waiting(service)
        return row["id"], row["repeated"]

    async def _make_for(self, worker: WaitingWorker, draft: RequestDraft, values: Sequence[object]) -> Row | None:
        """Store a request for this worker, and hand it over if it was leased. Else the worker waits on."""
        try:
            row = await self._database.fetchrow("request.make_for", *values, worker.name, worker.lease_seconds)
        except BaseException:
            self._waiting.put_back(worker)
            self._waiting.notify()  # for requests of others that came meanwhile
            raise
        if row is None or row["claim"] is None:
            self._waiting.put_back(worker)
            return row
        held = HeldRequest(
            RequestReceipt(row["id"], row["claim"]), 1, row["lease_until"], row["created_at"], draft.content_type,
            draft.body,
        )  # fmt: skip
        if not worker.give(held):
            await self.take_back(worker.service, [held])
        return row

    def _is_waiting(self, service: str) -> None:
        self._waiting.available(service)
        self._on_waiting(service)
        self._notices.waiting(service)

    async def take_back(self, service: str, never_got: Sequence[HeldRequest]) -> None:
        """Return requests to the queue that their worker never got. If that fails, their leases end by themselves."""
        for held in never_got:
            with suppress(DatabaseError):
                await self._database.execute("request.take_back", held.receipt.request_id, held.receipt.claim)
                self._is_waiting(service)

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
        row = await self._database.fetchrow("request.reply", receipt.request_id, receipt.claim, body, content_type)
        assert row is not None, "the function returns one row"
        if row["outcome"] == STORED:
            self._is_over(receipt.request_id, PlainReply(body, content_type) if row["is_plain"] else None)
        if row["is_owed"]:
            self._on_event()
        outcome: str = row["outcome"]
        return outcome

    def _is_over(self, request_id: str, reply: PlainReply | None = None) -> None:
        """Wake the callers of this process, or of others if none waits here."""
        if not self._waiting.over(request_id, reply):
            self._notices.over(request_id)

    async def release(self, receipt: RequestReceipt, delay_seconds: float, why: str | None) -> str:
        """Return a request to the queue. Return its new state, or ``stale``. With a reason, the try has failed."""
        state: str = await self._database.fetchval(
            "request.release", receipt.request_id, receipt.claim, delay_seconds, why
        )
        if state not in UNDER_WAY:
            self._is_over(receipt.request_id)
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
            self._is_over(request_id)
        return is_closed
