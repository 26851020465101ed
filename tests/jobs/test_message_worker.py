"""The worker of messages while the database does not settle (JB-64)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from db.errors import DatabaseError, Refused, Unavailable
from jobs.message_worker import MessageRefused, MessageWorker, MessageWorkerOptions
from jobs.queues.message import Message, Received
from jobs.queues.queues import Queues
from jobs.queues.receipt import ClaimReceipt
from jobs.queues.waiting import Waiting
from tests.waiting import WAIT_SECONDS

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def received(number: int) -> Received:
    return Received(ClaimReceipt(number, 1), 1, NOW, Message(number, NOW, None, {}, None, None, 0, b""))


class BrokenQueues(Queues):
    """Two messages, one after the other. The first is never settled: ``error`` answers each try."""

    def __init__(self, error: DatabaseError) -> None:
        super().__init__(None)  # type: ignore[arg-type]  # no method that uses the database is left
        self.tries = 0
        self._error = error
        self._left = [received(2), received(1)]

    async def receive(self, *_: Any, **__: Any) -> list[Received]:
        return [self._left.pop()] if self._left else []

    async def accept(self, queue: str, receipts: Sequence[ClaimReceipt]) -> set[ClaimReceipt]:
        return self._settled(receipts)

    async def reject(self, queue: str, receipts: Sequence[ClaimReceipt], **_: Any) -> set[ClaimReceipt]:
        return self._settled(receipts)

    async def extend(self, queue: str, receipts: Sequence[ClaimReceipt], lease_seconds: float) -> set[ClaimReceipt]:
        return set(receipts)

    def _settled(self, receipts: Sequence[ClaimReceipt]) -> set[ClaimReceipt]:
        if receipts[0].message_id == 1:
            self.tries += 1
            raise self._error
        return set(receipts)


class NothingWaits(Waiting):
    def __init__(self) -> None:
        super().__init__(None)  # type: ignore[arg-type]  # nothing is asked

    async def _ask(self) -> bool:
        return False


async def accepts(_: Received) -> None:
    """Handle the message."""


async def refuses(_: Received) -> None:
    raise MessageRefused("no")


@pytest.mark.parametrize(("handler", "counts"), [(accepts, (1, 0)), (refuses, (0, 1))])
@pytest.mark.parametrize("error", [Unavailable("away"), Refused("22023", "bad")], ids=["away", "refused"])
async def test_a_message_that_cannot_be_settled_does_not_end_the_worker(
    error: DatabaseError, handler: Any, counts: tuple[int, int]
) -> None:
    """The database is away for longer than the lease, or refuses; the worker goes on with the next message."""
    queues = BrokenQueues(error)
    options = MessageWorkerOptions("mail", "w", slots=1, lease_seconds=0.1, count=1)
    worker = MessageWorker(queues, NothingWaits(), handler, options)
    async with asyncio.timeout(WAIT_SECONDS):
        await worker.run()

    assert ((worker.accepted, worker.rejected), queues.tries) == (counts, 1)


async def test_a_refused_settlement_is_not_repeated() -> None:
    """No other try of the same settlement succeeds: the lease of an hour is not waited for."""
    queues = BrokenQueues(Refused("22023", "bad"))
    worker = MessageWorker(queues, NothingWaits(), accepts, MessageWorkerOptions("mail", "w", 1, 3600.0, count=1))
    async with asyncio.timeout(WAIT_SECONDS):
        await worker.run()

    assert (worker.accepted, queues.tries) == (1, 1)
