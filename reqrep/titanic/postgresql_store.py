"""Titanic's store in the hub's database, which also holds the requests of HTTP and SQL.

So a broker dispatches requests that arrived by HTTP or SQL, and workers over HTTP or SQL may execute requests that
arrived by ZeroMQ. Concurrent accepts share a commit, and so do concurrent replies.

The database stores the name of a service as text. A name that is not valid text is stored as ``\\x`` and the
hexadecimal digits of its bytes. Such names are not visible over HTTP and in events.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate, pairwise

from typing_extensions import override

from db.errors import Busy, DatabaseError, OutcomeUnknown, Refused
from db.names import NamesInUse, TooManyNames
from db.pool import Database
from reqrep.frames import Frames
from reqrep.titanic.batches import Batches
from reqrep.titanic.store import (
    AcceptedRequest,
    ClaimedRequest,
    Receipt,
    RequestAnswer,
    RequestState,
    RequestStore,
    Settled,
    StoreCounts,
    StoreError,
    StoreUnavailable,
    is_request_id,
    require_frames,
    require_request,
)  # fmt: skip
from runtime.pause import pause

__all__ = ["PostgresqlRequestStore"]

_ENCODED = "\\x"
_FORGET_BATCH = 1_000
_PRESENCE_SECONDS = 60.0
_PENDING = frozenset({"waiting", "delayed", "leased"})


class StoreRefused(StoreError):
    """The database refuses the values of the call. A repetition fails too."""


class PostgresqlRequestStore(RequestStore):
    """The requests in the hub's database.

    ``worker`` is the name in the broker's claims. ``look_seconds`` is the shortest and the longest pause between two
    polls for requests of other processes.
    """

    def __init__(
        self, database: Database, worker: str = "broker", look_seconds: tuple[float, float] = (0.05, 0.5)
    ) -> None:
        self._database = database
        self._worker = worker
        self._look_seconds = look_seconds
        self._claimable = asyncio.Event()
        self._accepts: Batches[AcceptedRequest, str] = Batches(self._accept_all)
        self._settles: Batches[tuple[Receipt, Frames], Settled] = Batches(self._settle_all)
        self._last_number = 0
        self._looks_again = False
        self._names = NamesInUse(database, "service")

    @override
    async def accept(self, request: AcceptedRequest) -> str:
        require_request(request)
        with _translated():
            await self._names.ensure(_stored(request.service), f"curve:{request.user}" if request.user else None)
            request_id = await self._accepts.add(request)
        self._claimable.set()
        return request_id

    @override
    async def claim(self, limits: Mapping[str, int], lease_seconds: float) -> list[ClaimedRequest]:
        if not limits:
            return []
        names = {_stored(service): service for service in limits}
        with _translated():
            await self._make_known(names)
            rows = await self._database.fetch(
                "request.lease_each", list(names), list(limits.values()), lease_seconds, self._worker, _PRESENCE_SECONDS
            )
        return [
            ClaimedRequest(
                Receipt(row["id"], row["claim"]),
                AcceptedRequest(names[row["service"]], _frames(row["body"], row["frame_bytes"]), row["caller"]),
                row["attempts"],
            )
            for row in rows
        ]

    @override
    async def extend(self, receipts: Collection[Receipt], lease_seconds: float) -> set[Receipt]:
        asked = list(receipts)
        with _translated():
            rows = await self._database.fetch(
                "request.extend", [one.id for one in asked], [one.fence for one in asked], lease_seconds
            )
        return {Receipt(row["id"], row["claim"]) for row in rows}

    @override
    async def settle(self, receipt: Receipt, reply: Frames) -> Settled:
        require_frames(reply)
        try:
            with _translated():
                return await self._settles.add((receipt, reply))
        except StoreRefused as error:  # For example, the reply is too large. A repetition would fail too.
            with _translated():
                await self._database.fetchval("request.release", receipt.id, receipt.fence, 0.0, str(error))
            return Settled.STALE

    @override
    async def release(self, receipt: Receipt, delay_seconds: float = 0) -> bool:
        with _translated():
            state = await self._database.fetchval("request.release", receipt.id, receipt.fence, delay_seconds, None)
        if state == "waiting":
            self._claimable.set()
        return bool(state != "stale")

    @override
    async def fetch(self, request_id: str) -> RequestAnswer:
        if not is_request_id(request_id):
            return RequestAnswer(RequestState.UNKNOWN)
        with _translated():
            row = await self._database.fetchrow("request.fetch_frames", request_id)
        if row is not None and row["state"] in _PENDING:
            return RequestAnswer(RequestState.PENDING)
        if row is None or row["state"] != "answered":
            return RequestAnswer(RequestState.UNKNOWN)
        return RequestAnswer(RequestState.ANSWERED, _frames(row["reply"], row["reply_frame_bytes"]))

    @override
    async def close(self, request_id: str) -> None:
        if is_request_id(request_id):
            with _translated():
                await self._database.fetchval("request.forget", request_id, self._worker)

    @override
    async def expire(self, retention_seconds: float) -> int:
        gone = 0
        with _translated():
            while batch := await self._database.fetchval("request.forget_old", retention_seconds, _FORGET_BATCH):
                gone += batch
        return gone

    @override
    async def waiting(self) -> Sequence[str]:
        with _translated():
            rows = await self._database.fetch("request.waiting_services")
        return [_given(row["service"]) for row in rows]

    @override
    async def changed(self, timeout_seconds: float) -> None:
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._until_changed()
        except TimeoutError:
            return

    @override
    async def counts(self) -> StoreCounts:
        with _translated():
            row = await self._database.fetchrow("request.count")
        assert row is not None, "an aggregate returns one row"
        return StoreCounts(row["pending"], row["leased"], row["answered"])

    async def announce(self, services: Sequence[str]) -> None:
        """Store that these services have workers. Skip names that are not words of a topic."""
        with _translated():
            await self._database.execute("service.announce", list(services), _PRESENCE_SECONDS)

    async def _until_changed(self) -> None:
        """Return when this process or another has added a request. Poll the last number in the database for others.

        A number exists before its transaction commits. So this method returns a second time after each new number.
        """
        seconds, longest = self._look_seconds
        while not self._claimable.is_set():
            await pause(self._claimable, seconds)
            if self._claimable.is_set():
                break
            before, is_second = self._last_number, self._looks_again
            with _translated():
                self._last_number = await self._database.fetchval("request.last_number")
            self._looks_again = self._last_number != before
            if self._looks_again or is_second:
                return
            seconds = min(seconds * 1.5, longest)
        self._claimable.clear()

    async def _accept_all(self, requests: Sequence[AcceptedRequest]) -> list[str]:
        rows = await self._database.fetch(
            "request.store",
            [_stored(request.service) for request in requests],
            [b"".join(request.body) for request in requests],
            [_sizes(request.body) for request in requests],
            [request.user or None for request in requests],
        )
        return [row["id"] for row in rows]

    async def _settle_all(self, replies: Sequence[tuple[Receipt, Frames]]) -> list[Settled]:
        rows = await self._database.fetch(
            "request.settle",
            [receipt.id for receipt, _ in replies],
            [receipt.fence for receipt, _ in replies],
            [b"".join(reply) for _, reply in replies],
            [_sizes(reply) for _, reply in replies],
        )
        return [Settled(row["outcome"]) for row in rows]

    async def _make_known(self, services: Collection[str]) -> None:
        for service in services:
            with suppress(TooManyNames):  # its requests need no row
                await self._names.ensure(service)


@contextmanager
def _translated() -> Iterator[None]:
    """Translate errors of the database into errors of the port."""
    try:
        yield
    except TooManyNames as error:
        raise StoreRefused(str(error)) from error
    except Refused as error:
        raise StoreRefused(error.message) from error
    except (Busy, OutcomeUnknown) as error:
        raise StoreUnavailable("the database did not confirm the call; repeat it") from error
    except DatabaseError as error:
        raise StoreUnavailable("the database does not answer") from error


def _sizes(frames: Frames) -> str | None:
    """Return the lengths of several frames as a PostgreSQL array literal, or None for one frame."""
    return f"{{{','.join(str(len(frame)) for frame in frames)}}}" if len(frames) > 1 else None


def _frames(body: bytes, sizes: Sequence[int] | None) -> Frames:
    if sizes is None:
        return [body]
    return [body[start:end] for start, end in pairwise(accumulate(sizes, initial=0))]


def _stored(service: str) -> str:
    raw = service.encode("utf-8", "surrogateescape")
    try:
        is_text = "\x00" not in service and raw.decode() == service
    except UnicodeDecodeError:
        is_text = False
    return service if is_text and not service.startswith(_ENCODED) else _ENCODED + raw.hex()


def _given(stored: str) -> str:
    if not stored.startswith(_ENCODED):
        return stored
    return bytes.fromhex(stored.removeprefix(_ENCODED)).decode("utf-8", "surrogateescape")
