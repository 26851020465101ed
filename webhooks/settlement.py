"""Settlement: finished attempts are written in batches, each with its attempt row, in one statement.

While a statement runs the next batch gathers, so batches grow with the load. A result that nothing depends on waits
a moment for more results, and longer where few come. So one commit stores several at low rates, too. When the database
is down, or cannot write, the results wait here: a delivery stays owed until its result is stored.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import structlog

from db.errors import DatabaseError, Refused
from db.pool import Database, Session
from db.statements import column
from runtime.pause import pause
from webhooks.breaker import BreakerOptions, FailureStats, Turn, has_to_open
from webhooks.condition import subscription_condition
from webhooks.error_policy import ErrorPolicy
from webhooks.incidents.known import KnownIncidents
from webhooks.result import Result

__all__ = ["Settlement", "write_results"]

_log = structlog.get_logger(__name__)
_BATCH_MAX = 1_000
_CANCEL_MAX = 5_000
_GATHER_SECONDS = 0.025
_FEW = 5
"""Fewer results than these may wait longer. At 200 deliveries a second as many come in ``gather_seconds``."""
_FEW_SECONDS = 0.25
"""How long they wait in all. They do so only if the batch before them was gathered within this time."""
_WRITE_SECONDS_USUAL = 1.0
_PAUSE_SECONDS_FIRST = 0.1
_PAUSE_SECONDS_MAX = 2.0
_USUAL = BreakerOptions()


class Settlement:
    """The writer of one worker. ``on_settled`` is called after each batch that is durable. A result that may wait waits
    ``gather_seconds`` for more results, or ``few_seconds`` while few come.
    """

    def __init__(
        self,
        database: Database,
        worker: str,
        on_settled: Callable[[Sequence[Result]], None],
        breaker: BreakerOptions | None = None,
        notices_of: Callable[[Sequence[Result], Sequence[FailureStats]], Sequence[Mapping[str, Any]]] = lambda *_: (),
        errors: ErrorPolicy | None = None,
        gather_seconds: float = _GATHER_SECONDS,
        few_seconds: float = _FEW_SECONDS,
    ) -> None:
        self._gather_seconds = gather_seconds
        self._few_seconds = few_seconds
        self._gathered_at = -math.inf
        self._enough = _BATCH_MAX
        self._errors = errors or ErrorPolicy()
        self._incidents = KnownIncidents()
        self._notices_of = notices_of
        self._disabled: list[Mapping[str, Any]] = []
        self._breaker = breaker or _USUAL
        self._database = database
        self._worker = worker
        self._on_settled = on_settled
        self._results: list[Result] = []
        self._arrived = asyncio.Event()
        self._is_urgent = asyncio.Event()
        self._stopping = False
        self._is_failing = False
        self._writing_since = math.inf

    @property
    def is_stuck(self) -> bool:
        """Return whether results wait because a write has failed or takes long."""
        return self._is_failing or time.monotonic() - self._writing_since > _WRITE_SECONDS_USUAL

    def add(self, result: Result) -> None:
        """Add a finished attempt. It is written at once unless it may wait."""
        self._results.append(result)
        self._arrived.set()
        if not result.may_wait or len(self._results) >= self._enough:
            self._is_urgent.set()

    def stop(self) -> None:
        """Write the waiting results, then end."""
        self._stopping = True
        self._arrived.set()
        self._is_urgent.set()

    async def run(self) -> None:
        """Write until stopped and empty."""
        while not self._stopping or self._results:
            await self._arrived.wait()
            self._arrived.clear()
            while self._results:
                batch = await self._gather()
                self._writing_since = time.monotonic()
                await self._write_until_done(batch)
                self._writing_since = math.inf

    async def _gather(self) -> Sequence[Result]:
        """Return the next batch, after a moment if all of its results may wait."""
        if not self._stopping:
            follows = time.monotonic() - self._gathered_at < self._few_seconds
            await pause(self._is_urgent, self._gather_seconds)
            if follows and len(self._results) < _FEW:
                await self._gather_a_few()
            self._is_urgent.clear()
            self._gathered_at = time.monotonic()
        batch = self._results[:_BATCH_MAX]
        del self._results[:_BATCH_MAX]
        if self._results:
            self._is_urgent.set()
        return batch

    async def _gather_a_few(self) -> None:
        """Wait for the rest of the longer time, until there are a few results, or one that may not wait."""
        self._enough = _FEW
        await pause(self._is_urgent, self._few_seconds - self._gather_seconds)
        self._enough = _BATCH_MAX

    async def _write_until_done(self, batch: Sequence[Result]) -> None:
        pause_seconds = _PAUSE_SECONDS_FIRST
        while True:
            try:
                all_stats = await self._write(batch)
                if self._is_failing:
                    await self._write_late(batch)
                batch = _with_trips(batch, all_stats, self._breaker)
                for result in batch:
                    await self._follow_up(result)
                if unknown := [stats.subscription_id for stats in all_stats if stats.is_unknown]:
                    await self._database.execute("delivery.recall_success", unknown)
                if well := [stats.subscription_id for stats in all_stats if stats.is_well]:
                    await self._database.execute("delivery.reset_failures", well)
            except Refused as error:
                await self._write_refused(batch, error)
                return
            except DatabaseError as error:
                # Repeating is safe: a settled delivery has lost its fence, and is not found again.
                self._is_failing = True
                _log.warning("settlement_waits", results=len(batch), error=str(error))
                await asyncio.sleep(pause_seconds)
                pause_seconds = min(pause_seconds * 2, _PAUSE_SECONDS_MAX)
            else:
                # Stay in this state until all waiting results are stored: their leases may be over.
                self._is_failing = self._is_failing and bool(self._results)
                self._on_settled(batch)
                await self._tell(batch, all_stats)
                return

    async def _tell(self, batch: Sequence[Result], all_stats: Sequence[FailureStats]) -> None:
        """Publish operator events once, or not at all when the database is down now."""
        notices, self._disabled = [*self._notices_of(batch, all_stats), *self._disabled], []
        if not notices:
            return
        try:
            await self._database.fetchval("operator.notify", json.dumps(notices))
        except DatabaseError as error:
            _log.warning("operators_not_told", notices=len(notices), error=str(error))

    async def _write_refused(self, batch: Sequence[Result], error: Refused) -> None:
        """Find the result that the database refuses by halving; only that result is lost, and its delivery comes due
        again.
        """
        if len(batch) == 1:
            _log.error("settlement_refused", event_id=batch[0].event_id, error=str(error))
            self._is_failing = False
            self._on_settled(batch)
            return
        middle = len(batch) // 2
        await self._write_until_done(batch[:middle])
        await self._write_until_done(batch[middle:])

    async def _write(self, batch: Sequence[Result]) -> Sequence[FailureStats]:
        counted = [result for result in batch if result.counts]
        incidents = await self._incidents.of(self._database, batch)
        if counted:
            # In one transaction: a queue's next message must not go to a subscription that this result makes inactive.
            async with self._database.transaction() as session:
                all_stats = await write_results(session, batch, self._worker, self._breaker, incidents)
                errors = [await self._count_error(session, result) for result in counted]
            ended = [notice for notice in errors if notice is not None]
            self._disabled += ended
            for notice in ended:
                await self._log_condition("subscription_disabled", notice["subscription"])
            return all_stats
        return await write_results(self._database, batch, self._worker, self._breaker, incidents)

    async def _write_late(self, batch: Sequence[Result]) -> None:
        """Record successes whose lease may have ended while they could not be written."""
        successes = [result for result in batch if result.outcome.kind == "delivered"]
        if successes:
            await self._database.execute(
                "delivery.settle_late",
                [r.event_id for r in successes],
                [r.subscription_id for r in successes],
                [r.started_at for r in successes],
                [r.outcome.status for r in successes],
                [r.outcome.total_seconds for r in successes],
                self._worker,
                [r.age_seconds for r in successes],
            )

    async def _follow_up(self, result: Result) -> None:
        """Apply an answer to the subscription; each step may be repeated."""
        decision = result.decision
        if decision.pause_seconds is not None:
            await self._database.execute("subscription.pause", result.subscription_id, decision.pause_seconds)
            await self._log_condition("subscription_paused", result.subscription_id)
        if result.breaker is not None:
            await self._turn_breaker(result.subscription_id, result.breaker)
        if decision.end_state is None:
            return
        ended = await self._database.fetchval(
            "subscription.end", result.subscription_id, decision.end_state, decision.end_reason, result.version
        )
        if ended is not None:
            await self._log_condition("subscription_ended", result.subscription_id)
        if decision.end_state == "gone":  # clean-up does the rest
            await self._database.fetchval("delivery.cancel_ended", [result.subscription_id], _CANCEL_MAX)

    async def _count_error(self, session: Session, result: Result) -> Mapping[str, Any] | None:
        """Count an error durably; return a notice when the limit is exceeded."""
        subscription, outcome = result.subscription_id, result.outcome
        message = outcome.detail or (f"answered {outcome.status}" if outcome.status else outcome.kind)
        ended = await session.fetchval(
            "rabbithub.count_error", subscription, message, self._errors.errors_max, self._errors.errors_seconds
        )
        if ended is None:
            return None
        return {"type": "subscription.ended", "subscription": subscription, "reason": "too many failed deliveries"}

    async def _turn_breaker(self, subscription: int, turn: Turn) -> None:
        options = self._breaker
        if turn == "close":
            if await self._database.fetchval("throttle.close", [subscription]) is not None:
                await self._log_condition("breaker_closed", subscription)
            return
        row = await self._database.fetchrow(
            "throttle.trip", subscription, options.open_seconds, options.open_seconds_max, options.disable_seconds,
            turn == "retrip",
        )  # fmt: skip
        if row is not None:
            await self._log_condition("breaker_opened", subscription)
            if row["is_disabled"]:
                reason = "it has failed for too long"
                await self._log_condition("subscription_disabled", subscription)
                self._disabled.append({"type": "subscription.ended", "subscription": subscription, "reason": reason})

    async def _log_condition(self, event: str, subscription: int) -> None:
        """Log the condition of a subscription, as the API shows it, under its public id."""
        with suppress(DatabaseError):
            row = await self._database.fetchrow("subscription.condition", subscription)
            assert row is not None, "a subscription with a settled result"
            found = subscription_condition(row)
            _log.warning(
                event,
                subscription=row["public_id"],
                health=found.state,
                blocked_by=found.blocked_by,
                reason=found.reason,
            )


async def write_results(
    session: Session, batch: Sequence[Result], worker: str, breaker: BreakerOptions = _USUAL,
    incidents: Sequence[int | None] = (),
) -> Sequence[FailureStats]:  # fmt: skip
    """Settle deliveries and record their attempts, in one statement. A stale fence changes nothing. Return the stats of
    subscriptions that fail, or have failed recently. ``incidents``: that of each failure; empty if none failed.
    """
    outcomes = [result.outcome for result in batch]
    decisions = [result.decision for result in batch]
    rows = await session.fetch(
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
        column([o.detail for o in outcomes]),
        column([json.dumps(dict(o.headers)) if o.headers else None for o in outcomes]),
        column([o.body for o in outcomes]),
        column([d.dead_kind for d in decisions]),
        worker,
        column([d.dead_reason for d in decisions]),
        [r.failed for r in batch],
        breaker.attempts_max,
        breaker.window_seconds,
        list(incidents),
        column([r.age_seconds for r in batch]),
    )
    return [FailureStats(**row) for row in rows]


def _with_trips(
    batch: Sequence[Result], all_stats: Iterable[FailureStats], options: BreakerOptions
) -> Sequence[Result]:
    """Mark the last result of each subscription whose breaker has to open."""
    trips = {stats.subscription_id for stats in all_stats if has_to_open(stats, options)}
    if not trips:
        return batch
    last = {result.subscription_id: place for place, result in enumerate(batch) if result.subscription_id in trips}
    places = set(last.values())
    return [result._replace(breaker="trip") if place in places else result for place, result in enumerate(batch)]
