"""Sending: the events of a backfill go to its subscriber, batch by batch, with the attempts of the delivery worker."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from app.cli.entry import tell
from app.cli.failure import CommandFailed
from app.cli.pipeline.backfilling.batch import Portion, batches, judged
from app.cli.pipeline.backfilling.hold import RunHold
from db.errors import DatabaseError
from db.pool import Database, Row
from event.event import Event
from runtime.pause import pause
from webhooks.attempt import Attempts, result_of
from webhooks.claim import Claim
from webhooks.outcome import Outcome
from webhooks.result import Result
from webhooks.subscriber import Subscriber, Subscribers
from webhooks.worker_options import WorkerOptions

__all__ = ["Sending", "Stopped", "hindrance"]

_LOOK_SECONDS: Final = 1.0
_TELL_SECONDS: Final = 5.0
_BEHIND_SECONDS_MAX: Final = 0.2


class Stopped(CommandFailed):
    """The run cannot go on; the text says why. It is paused, unless somebody cancelled it."""

    def __init__(self, why: str) -> None:
        super().__init__(why, 1)


def hindrance(row: Row) -> str | None:
    """Return why nothing may be sent to the subscription of a row of ``backfill.look``; None if something may."""
    state, reason = row["subscription_state"], row["state_reason"]
    if state is None:
        return "the subscription does not exist any more"
    if state != "active":
        return f"the subscription is {state}" + (f" ({reason})" if reason else "")
    if row["is_expired"]:
        return "the lease of the subscription is over"
    if row["left_topic"] is not None:
        return f"the subscription does not have the topic {row['left_topic']} any more"
    return None


class Sending:
    """Sends the events of one run. ``run`` is its row of ``backfill.list``."""

    def __init__(
        self, database: Database, hold: RunHold, run: Row, subscribers: Subscribers, attempts: Attempts,
        options: WorkerOptions,
    ) -> None:  # fmt: skip
        self._database = database
        self._hold = hold
        self._run = run
        self._subscribers = subscribers
        self._attempts = attempts
        self._options = options
        self._slots = asyncio.Semaphore(options.slots.per_subscription)
        self._halt = asyncio.Event()
        self._failure: Exception | None = None
        self._version: int | None = None
        self._has_filter = False
        self._rate: int | None = None
        self._next_at = self._rests_until = 0.0
        self._batch = Portion(())
        self._done: set[int] = set()
        self._said_at = 0.0
        self.examined = run["examined"]

    async def send_all(self, events: Iterator[Event]) -> None:
        """Send them, and note each batch. Raises :class:`Stopped`, ``HoldLost`` and ``DatabaseError``.

        Cancelled, it ends the attempts in flight, notes them, and starts no other.
        """
        self._done = {row["id"] for row in await self._database.fetch("backfill.ended_parts", self._run["id"])}
        parts = batches(events)
        ahead = asyncio.ensure_future(asyncio.to_thread(next, parts, None))
        try:
            while (part := await asyncio.shield(ahead)) is not None:
                ahead = asyncio.ensure_future(asyncio.to_thread(next, parts, None))
                await self._send(part)
        finally:
            with suppress(Exception):
                await ahead  # a thread cannot be cancelled

    async def _send(self, events: Sequence[Event]) -> None:
        subscriber = await self._look()
        self._batch = await judged(
            self._database, events, subscriber.id, has_filter=self._has_filter, done=self._done
        )  # fmt: skip
        lanes = asyncio.ensure_future(self._send_lanes(subscriber))
        try:
            await asyncio.shield(lanes)
        except asyncio.CancelledError:
            self._fail(Stopped("it was interrupted"))
            await lanes
            await self._note(None)
            raise
        await self._note(None if self._failure is not None else events[-1].id)
        if self._failure is not None:
            raise self._failure

    async def _send_lanes(self, subscriber: Subscriber) -> None:
        async with asyncio.TaskGroup() as tasks:
            for lane in self._batch.lanes():
                tasks.create_task(self._send_lane(lane, subscriber))

    async def _send_lane(self, lane: Sequence[Event], subscriber: Subscriber) -> None:
        """Send events of one key one after the other, until something ends the batch."""
        try:
            for event in lane:
                if self._halt.is_set():
                    return
                subscriber = await self._send_event(event, subscriber)
        except (CommandFailed, DatabaseError) as error:
            self._fail(error)

    async def _send_event(self, event: Event, subscriber: Subscriber) -> Subscriber:
        """Make attempts until the receiver takes the event, or its attempts are used up; return the subscriber."""
        for number in range(1, self._run["attempts_max"] + 1):
            await self._pace()
            async with self._slots:
                if self._halt.is_set():
                    return subscriber
                result = await self._attempt(event, subscriber, number)
            if result.outcome.kind == "delivered":
                self._batch.sent.append(event.id)
                await self._follow(result)
                return subscriber
            outcome = result.outcome
            await self._database.execute(
                "backfill.fail", self._run["id"], self._hold.fence, event.id, outcome.kind, outcome.status
            )
            await self._follow(result)
            if result.decision.action != "retry" or number == self._run["attempts_max"]:
                break
            await pause(self._halt, result.decision.retry_seconds)
            if self._halt.is_set():
                return subscriber
            subscriber = await self._look()
        if not self._run["skips"]:
            raise Stopped(f"the receiver did not take {event.event_id}: {_words(result.outcome)}")
        self._batch.refused.append(event.id)
        return subscriber

    async def _attempt(self, event: Event, subscriber: Subscriber, number: int) -> Result:
        self._hold.check()
        now = time.monotonic()
        claim = Claim(event, subscriber, number, self._hold.fence, now, now, is_replay=True)
        started_at = datetime.now(UTC)
        seconds = subscriber.timeout_seconds or self._options.timeout_seconds
        outcome = await self._attempts.make([claim], seconds, started_at)
        return result_of(claim, started_at, outcome, self._options, random.random, leads=True)

    async def _follow(self, result: Result) -> None:
        """Apply to the subscription what the receiver asked for, as the worker does: a pause, or its end."""
        decision = result.decision
        if decision.pause_seconds is not None:
            self._rests_until = max(self._rests_until, time.monotonic() + decision.pause_seconds)
            await self._database.execute("subscription.pause", result.subscription_id, decision.pause_seconds)
        if decision.end_state is not None:
            await self._database.fetchval(
                "subscription.end", result.subscription_id, decision.end_state, decision.end_reason, result.version
            )
            raise Stopped(f"the subscription is {decision.end_state} ({decision.end_reason})")

    async def _look(self) -> Subscriber:
        """Return the subscriber as it is now, once nothing pauses run or subscription. Raises :class:`Stopped`."""
        waits_for = None
        while True:
            self._hold.check()
            row = await self._database.fetchrow("backfill.look", self._run["id"], self._hold.fence)
            if row is None:
                await self._hold.renew()  # tells that it was taken
                continue
            if row["state"] == "cancelled":
                raise Stopped("it was cancelled")
            if (why := hindrance(row)) is not None:
                raise Stopped(why)
            reason = self._pause_of(row)
            if reason is None:
                return await self._known(row)
            if reason != waits_for:
                waits_for = reason
                tell(f"waits: {reason}")
            await pause(self._halt, _LOOK_SECONDS)
            if self._halt.is_set():
                raise Stopped("it was interrupted")

    def _pause_of(self, row: Row) -> str | None:
        if row["state"] == "paused":
            return "the run is paused"
        # With --before-live the pause of the subscription is the run's own.
        is_paused = not self._run["before_live"] and (row["paused_seconds"] or 0) > 0
        return "the subscription is paused" if is_paused or self._rests_until > time.monotonic() else None

    async def _known(self, row: Row) -> Subscriber:
        number, version = self._run["subscription_number"], row["version"]
        if self._version not in (None, version):
            tell("the subscription has changed: its present address, keys and filter count from now on")
        self._version, self._rate, self._has_filter = version, row["rate_per_second"], row["has_filter"]
        found = await self._subscribers.get([(number, version)])
        return found[number]

    async def _pace(self) -> None:
        """Wait for the turn of the next attempt; a late one makes up for a fifth of a second at most."""
        if self._rate is None:
            return
        now = time.monotonic()
        at = self._next_at = max(self._next_at, now - _BEHIND_SECONDS_MAX) + 1 / self._rate
        await pause(self._halt, max(at - now, 0.0))

    async def _note(self, upto: int | None) -> None:
        """Store what became of the batch; ``upto`` None leaves the cursor, because a part is left."""
        batch = self._batch
        state = await self._database.fetchval(
            "backfill.note", self._run["id"], self._hold.fence, upto, sorted(batch.sent), batch.erased, batch.unwanted,
            sorted(batch.refused),
        )  # fmt: skip
        if state is None:
            await self._hold.renew()  # tells that it was taken
        self.examined += len(batch.sent) + len(batch.erased) + len(batch.unwanted) + len(batch.refused)
        if time.monotonic() - self._said_at > _TELL_SECONDS:
            self._said_at = time.monotonic()
            tell(f"{self.examined:,} of {self._run['events']:,} done")

    def _fail(self, error: Exception) -> None:
        """End the batch: attempts in flight end, and none begins."""
        self._failure = self._failure or error
        self._halt.set()


def _words(outcome: Outcome) -> str:
    return f"it answered {outcome.status}" if outcome.status is not None else (outcome.detail or outcome.kind)
