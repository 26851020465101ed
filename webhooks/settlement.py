"""Settlement: finished attempts are written in batches, each with its attempt row, in one statement (WH-P07).

While a statement runs the next batch gathers, so batches grow with the load. When the database is away the
results wait here: a delivery that was made stays owed until that is on record.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

import structlog

from db.errors import DatabaseError
from db.pool import Database
from webhooks.outcome import Outcome
from webhooks.retry import Decision

__all__ = ["Result", "Settlement"]

_log = structlog.get_logger(__name__)
_BATCH_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Result:
    """One finished attempt: whose, by which claim, when it started, what came of it."""

    event_id: int
    subscription_id: int
    fence: int
    started_at: datetime
    outcome: Outcome
    decision: Decision


class Settlement:
    """The writer of one worker. ``on_settled`` is called after each batch that is durable."""

    def __init__(self, database: Database, worker: str, on_settled: Callable[[Sequence[Result]], None]) -> None:
        self._database = database
        self._worker = worker
        self._on_settled = on_settled
        self._results: list[Result] = []
        self._arrived = asyncio.Event()
        self._stopping = False

    @property
    def waiting(self) -> int:
        """Results not yet on record."""
        return len(self._results)

    def add(self, result: Result) -> None:
        """Hand over a finished attempt."""
        self._results.append(result)
        self._arrived.set()

    def stop(self) -> None:
        """Write what is there, then end."""
        self._stopping = True
        self._arrived.set()

    async def run(self) -> None:
        """Write until stopped and empty."""
        while not self._stopping or self._results:
            await self._arrived.wait()
            self._arrived.clear()
            while self._results:
                batch = self._results[:_BATCH_MAX]
                del self._results[:_BATCH_MAX]
                await self._write_until_done(batch)

    async def _write_until_done(self, batch: Sequence[Result]) -> None:
        pause = 0.1
        while True:
            try:
                await self._write(batch)
            except DatabaseError as error:
                # Repeating is safe: what was settled has lost its fence, and is not found again.
                _log.warning("settlement_waits", results=len(batch), error=str(error))
                await asyncio.sleep(pause)
                pause = min(pause * 2, 5.0)
            else:
                self._on_settled(batch)
                return

    async def _write(self, batch: Sequence[Result]) -> None:
        outcomes = [result.outcome for result in batch]
        decisions = [result.decision for result in batch]
        await self._database.fetchval(
            "delivery.settle",
            [r.event_id for r in batch],
            [r.subscription_id for r in batch],
            [r.fence for r in batch],
            [d.action for d in decisions],
            [d.retry_seconds for d in decisions],
            [o.kind for o in outcomes],
            [o.status for o in outcomes],
            [r.started_at for r in batch],
            [o.connect_seconds for o in outcomes],
            [o.first_byte_seconds for o in outcomes],
            [o.total_seconds for o in outcomes],
            [o.address for o in outcomes],
            [o.detail for o in outcomes],
            [json.dumps(dict(o.headers)) if o.headers else None for o in outcomes],
            [o.body for o in outcomes],
            [d.dead_kind for d in decisions],
            self._worker,
        )
        for result in batch:
            await self._follow_up(result)

    async def _follow_up(self, result: Result) -> None:
        decision = result.decision
        if decision.pause_seconds is not None:
            await self._database.execute("subscription.pause", result.subscription_id, decision.pause_seconds)
        if decision.end_state is not None:
            protocol = await self._database.fetchval(
                "subscription.end", result.subscription_id, decision.end_state, decision.end_reason
            )
            _log.info("subscription_ended", subscription=result.subscription_id, reason=decision.end_reason)
            if protocol == "websub":  # its queue is dropped, not buried (DL-2)
                await self._database.execute("delivery.drop", result.subscription_id)
            elif decision.end_state == "gone":
                await self._database.execute("delivery.cancel", result.subscription_id, "gone", decision.end_reason)
