"""Job queue: the calls of requesters and workers (JB-40..JB-57). People's calls are SQL functions of the same schema.

::

    scheduled --due--> available --claim--> running --complete--> completed, or review --approve--> completed
        ^                 |  ^                 |  '--fail--> retryable --due--> available; finally discarded
        '---- delay ------|  '---- release ----|  '--snooze--> scheduled; the attempt does not count
                       assign                  '--lease or run limit over--> retryable, or discarded
                          v
                       assigned --finish--> completed, or review --send back--> assigned

The rules are SQL functions (``db/functions/job.sql``), so that any language can enqueue or work.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from db.pool import Database, Row
from jobs.jobs.job import JobReceipt

__all__ = ["AddedJob", "Heartbeat", "JobQueue"]


@dataclass(frozen=True, slots=True)
class AddedJob:
    """The result of one draft; ``outcome`` is ``made``, ``merged``, ``replaced`` or ``skipped``."""

    id: UUID
    outcome: str
    state: str


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The result of an extension. ``held``: the end of the lease of each receipt. ``cancelled``: receipts whose jobs
    must be cancelled.
    """

    held: Mapping[JobReceipt, datetime]
    cancelled: frozenset[JobReceipt]


class JobQueue:
    """Add, claim and settle jobs. All raise ``db.errors.DatabaseError``; a stale receipt raises ``Refused`` HW001."""

    def __init__(self, database: Database, on_added: Callable[[], None] = lambda: None) -> None:
        self._database = database
        self._on_added = on_added

    async def add(self, drafts: Sequence[Mapping[str, Any]], requester: str | None) -> list[AddedJob]:
        """Enqueue jobs in one transaction; a draft is the body of ``POST /jobs``."""
        rows = await self._database.fetch("job.add", json.dumps(drafts), requester)
        self._on_added()
        return [AddedJob(row["id"], row["outcome"], row["state"]) for row in rows]

    async def claim_rows(
        self, kinds: Sequence[str] | None, most: int, worker: str, lease_seconds: float | None, queue: str,
        bytes_max: int | None = None,
    ) -> Sequence[Row]:  # fmt: skip
        """Claim jobs of these kinds, by priority, then by age; return rows, whose JSON is text.

        ``kinds`` None: of all kinds. ``bytes_max`` None: 8 MiB of contents.
        """
        return await self._database.fetch("job.claim", kinds, most, worker, lease_seconds, queue, bytes_max)

    async def complete(
        self, receipts: Sequence[JobReceipt], results: Sequence[Any], extras: Sequence[Mapping[str, Any] | None]
    ) -> set[JobReceipt]:
        """Complete jobs; return the receipts that were still held. ``extras`` commit with them (JB-51)."""
        rows = await self._database.fetch(
            "job.complete", [receipt.job_id for receipt in receipts], [receipt.claim for receipt in receipts],
            [json.dumps(result) for result in results], [json.dumps(extra) if extra else None for extra in extras],
        )  # fmt: skip
        self._on_added()
        done = {row["id"] for row in rows}
        return {receipt for receipt in receipts if receipt.job_id in done}

    async def fail(
        self, receipt: JobReceipt, error: str, *, dead: bool = False, retry_seconds: float | None = None
    ) -> str:
        """Fail the attempt; return the job's new state."""
        state: str = await self._database.fetchval(
            "job.fail", receipt.job_id, receipt.claim, error, dead, retry_seconds
        )
        return state

    async def snooze(self, receipt: JobReceipt, seconds: float, token: str | None = None) -> None:
        """Postpone the job; the attempt does not count. With a token the job can be resumed earlier (JB-55)."""
        await self._database.fetchval("job.snooze", receipt.job_id, receipt.claim, seconds, token)

    async def resume(self, token: str, answer: Any) -> UUID:
        """Make the job that waits for this token available; return its id."""
        job: UUID = await self._database.fetchval("job.resume", token, json.dumps(answer))
        self._on_added()
        return job

    async def progress(self, receipt: JobReceipt, done: int, total: int | None, note: str | None) -> bool:
        """Store the progress; return whether the job must be cancelled."""
        cancelled: bool = await self._database.fetchval(
            "job.progress", receipt.job_id, receipt.claim, done, total, note
        )
        return cancelled

    async def extend(self, receipts: Sequence[JobReceipt], lease_seconds: float) -> Heartbeat:
        """Extend the leases, but not past the run limits."""
        ids, claims = [receipt.job_id for receipt in receipts], [receipt.claim for receipt in receipts]
        rows = {row["id"]: row for row in await self._database.fetch("job.extend", ids, claims, lease_seconds)}
        held = {receipt: rows[receipt.job_id]["lease_until"] for receipt in receipts if receipt.job_id in rows}
        return Heartbeat(held, frozenset(receipt for receipt in held if rows[receipt.job_id]["is_cancelled"]))

    async def release(self, receipts: Sequence[JobReceipt], reason: str | None = None) -> int:
        """Release jobs; the attempt does not count (JB-78). After 100 releases in a row, it fails.

        Return how many of them were still held.

        Releases with the reason ``stop``, of a worker that stops, are not limited.
        """
        rows = await self._database.fetch(
            "job.release", [receipt.job_id for receipt in receipts], [receipt.claim for receipt in receipts], reason
        )
        return len(rows)
