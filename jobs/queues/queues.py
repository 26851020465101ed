"""Queues: submit, receive, accept, reject, extend.

::

                    receive (claim, lease)                 accept
    available ------------------------------> claimed -----------------> gone, or archived
        ^                                        |
        +------- reject (keeps its place) -------+
        +------- reaper: the lease is over ------+-----> dead letter (too many deliveries)

The rules are SQL functions (``db/functions/message.sql``), so that any language can submit and receive.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from db.names import NamesInUse
from db.pool import Database, Row
from jobs.queues.low_water import LowWater
from jobs.queues.message import MessageDraft, Received
from jobs.queues.receipt import ClaimReceipt

__all__ = ["Queues"]

Filter = Mapping[str, Any]


class Queues:
    """Submit, receive and settle messages. ``on_available`` is called with the name of a queue that has a new message.

    All methods raise ``db.errors.DatabaseError``. It is a ``Refused`` with SQLSTATE 22023 for a bad argument, 42704 for
    an unknown queue and HW003 for a message that is too large.
    """

    def __init__(self, database: Database, on_available: Callable[[str], None] = lambda _: None) -> None:
        self._database = database
        self._on_available = on_available
        self._low_water = LowWater()
        self._names = NamesInUse(database, "queue")

    async def submit(self, queue: str, drafts: Sequence[MessageDraft], key_id: str | None = None) -> list[int]:
        """Store all drafts or none; return their ids in the same order. ``key_id`` is the submitter's API key."""
        await self.make_known(queue, key_id)
        rows = await self._database.fetch(
            "message.submit", queue,
            [draft.payload for draft in drafts],
            [draft.content_type for draft in drafts],
            [json.dumps(dict(draft.headers)) for draft in drafts],
            [draft.type for draft in drafts],
            [draft.key for draft in drafts],
            [draft.priority for draft in drafts],
            [draft.delay_seconds for draft in drafts],
        )  # fmt: skip
        self._on_available(queue)
        return [row["id"] for row in rows]

    async def receive(
        self,
        queue: str,
        most: int = 1,
        lease_seconds: float | None = None,
        wanted: Filter | None = None,
        receiver: str = "",
        bytes_max: int | None = None,
    ) -> list[Received]:
        """Claim up to ``most`` available messages, oldest first; the list may be empty. ``bytes_max`` None: 8 MiB."""
        text = json.dumps(wanted) if wanted is not None else None
        start = self._low_water.start(queue) if wanted is None else 0
        asked = (queue, most, lease_seconds, text, receiver)
        rows = await self._database.fetch("message.receive", *asked, start, bytes_max)
        if not rows and start:
            rows = await self._database.fetch("message.receive", *asked, 0, bytes_max)
        if rows and wanted is None:
            self._low_water.claimed(queue, rows[-1]["id"])
        return [Received.of(row, "move") for row in rows]

    async def receive_copies(
        self, queue: str, consumer: str, most: int = 1, lease_seconds: float | None = None,
        wanted: Filter | None = None, bytes_max: int | None = None,
    ) -> list[Received]:  # fmt: skip
        """Claim the next batch of a durable consumer; return an empty list while another reader holds the consumer."""
        text = json.dumps(wanted) if wanted is not None else None
        rows = await self._database.fetch(
            "consumer.receive", queue, consumer, most, lease_seconds or 30.0, text, bytes_max
        )
        return [Received.of(row, "copy") for row in rows]

    async def accept(self, queue: str, receipts: Sequence[ClaimReceipt]) -> set[ClaimReceipt]:
        """Accept messages; return the receipts that were still held. A copy's receipt also accepts all before it."""
        done = await self._settle("message.accept", queue, receipts)
        for claim, ids in _copies(receipts).items():
            if await self._database.fetchval("consumer.accept", queue, claim, ids):
                done |= {ClaimReceipt(one, claim, "copy") for one in ids}
        return done

    async def reject(
        self, queue: str, receipts: Sequence[ClaimReceipt], *, delay_seconds: float = 0.0, reason: str | None = None,
        dead: bool = False, counts: bool = True,
    ) -> set[ClaimReceipt]:  # fmt: skip
        """Return messages to the queue, or end them if ``dead``; return the receipts that were still held.

        A rejected copy is delivered to its consumer again.
        """
        done = await self._settle("message.reject", queue, receipts, delay_seconds, reason, dead, counts)
        for claim, ids in _copies(receipts).items():
            if await self._database.fetchval("consumer.release", queue, claim):
                done |= {ClaimReceipt(one, claim, "copy") for one in ids}
        self._low_water.forget(queue)
        if not delay_seconds:
            self._on_available(queue)
        return done

    async def extend(self, queue: str, receipts: Sequence[ClaimReceipt], lease_seconds: float) -> set[ClaimReceipt]:
        """Extend leases from now; return the receipts that were still held."""
        done = await self._settle("message.extend", queue, receipts, lease_seconds)
        for claim, ids in _copies(receipts).items():
            if await self._database.execute("consumer.extend", queue, claim, lease_seconds):
                done |= {ClaimReceipt(one, claim, "copy") for one in ids}
        return done

    async def browse(self, queue: str, most: int, after_id: int, bytes_max: int) -> Sequence[Row]:
        """Return available messages in the order of their ids, unclaimed: rows of ``message.browse``."""
        return await self._database.fetch("message.browse", queue, most, after_id, bytes_max)

    async def dead(self, queue: str, most: int, after_id: int, bytes_max: int) -> Sequence[Row]:
        """Return dead letters in the order of their ids: rows of ``message.dead``."""
        return await self._database.fetch("message.dead", queue, after_id, most, bytes_max)

    async def redrive(self, queue: str, ids: Sequence[int] | None, actor: str, reason: str | None) -> list[int]:
        """Return dead letters to their queue, at most 500 at a time. ``ids`` None: the oldest."""
        rows = await self._database.fetch("message.redrive", queue, ids, actor, reason)
        self._low_water.forget(queue)
        self._on_available(queue)
        return [row["id"] for row in rows]

    async def purge_dead(self, queue: str, ids: Sequence[int] | None, actor: str, reason: str | None) -> list[int]:
        """Delete dead letters, at most 500 at a time. ``ids`` None: the oldest."""
        rows = await self._database.fetch("message.purge_dead", queue, ids, actor, reason)
        return [row["id"] for row in rows]

    async def _settle(
        self, statement: str, queue: str, receipts: Sequence[ClaimReceipt], *more: object
    ) -> set[ClaimReceipt]:
        moved = {receipt.message_id: receipt for receipt in receipts if receipt.mode == "move"}
        if not moved:
            return set()
        claims = [receipt.claim for receipt in moved.values()]
        rows = await self._database.fetch(statement, queue, list(moved), claims, *more)
        return {moved[row["id"]] for row in rows}

    async def make_known(self, queue: str, key_id: str | None = None) -> None:
        """Create the row of a queue that is new, unless it is temporary; raises ``db.names.TooManyNames``."""
        if not queue.startswith("tmp."):
            await self._names.ensure(queue, key_id)


def _copies(receipts: Sequence[ClaimReceipt]) -> dict[int, list[int]]:
    """Return the message ids of copies, grouped by claim."""
    found: dict[int, list[int]] = {}
    for receipt in receipts:
        if receipt.mode == "copy":
            found.setdefault(receipt.claim, []).append(receipt.message_id)
    return found
