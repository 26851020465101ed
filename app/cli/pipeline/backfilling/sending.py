"""Sending: the events of a backfill go to its subscriber, batch by batch, with the attempts of the delivery worker."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from app.cli.entry import tell
from app.cli.failure import CommandFailed
from app.cli.pipeline.backfilling.batch import Portion, batches, erased_among, judged
from app.cli.pipeline.backfilling.hold import HoldLost, RunHold
from db.errors import DatabaseError
from db.pool import Database, Row
from egress.failure import NotSent
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
_FRESH_SECONDS: Final = 1.0
"""An attempt begins with knowledge of run, subscription and erasures that is no older."""
_REST_SECONDS_MIN: Final = 1.0
_TELL_SECONDS: Final = 5.0
_BEHIND_SECONDS_MAX: Final = 0.2
_CANCEL_MAX: Final = 5_000
_MAY_COME_LATER: Final = (408, 425)


class Stopped(CommandFailed):
    """The run cannot go on; the text says why. It is paused, unless somebody cancelled it (``is_final``)."""

    def __init__(self, why: str, *, is_final: bool = False) -> None:
        super().__init__(why, 1)
        self.is_final = is_final


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
        self._looking = asyncio.Lock()
        self._subscriber: Subscriber | None = None
        self._has_filter = False
        self._rate: float | None = None
        self._next_at = self._rests_until = self._seen_at = 0.0
        self._batch = Portion(())
        self._erased: set[int] = set()
        self._said_at = 0.0
        self.examined = run["examined"]

    async def send_all(self, events: Iterator[Event]) -> None:
        """Send them, and note each batch. Raises :class:`Stopped`, ``HoldLost`` and ``DatabaseError``.

        If something stops it, attempts in flight end and are noted. Cancelled, it notes what was taken before.
        """
        done = {row["id"] for row in await self._database.fetch("backfill.ended_parts", self._run["id"])}
        parts = batches(events)
        while (part := await asyncio.to_thread(next, parts, None)) is not None:
            await self._send(part, done)

    async def _send(self, events: Sequence[Event], done: Collection[int]) -> None:
        subscriber = await self._look()
        self._batch = await judged(self._database, events, subscriber.id, has_filter=self._has_filter, done=done)
        try:
            async with asyncio.TaskGroup() as lanes:
                for lane in self._batch.lanes():
                    lanes.create_task(self._send_lane(lane))
        except asyncio.CancelledError:
            await self._note(None)
            raise
        await self._note(None if self._failure is not None else events[-1].id)
        if self._failure is not None:
            raise self._failure

    async def _send_lane(self, lane: Sequence[Event]) -> None:
        """Send events of one key one after the other, until something ends the batch."""
        try:
            for event in lane:
                await self._send_event(event)
        except (CommandFailed, DatabaseError) as error:
            self._fail(error)

    async def _send_event(self, event: Event) -> None:
        """Make attempts until the receiver takes the event, or its attempts are used up. A 429 uses up none."""
        number = 1
        while (result := await self._attempt(event, number)) is not None:
            outcome, decision = result.outcome, result.decision
            if outcome.kind == "delivered":
                self._batch.sent.append(event.id)
                return await self._follow(result)
            await self._database.execute(
                "backfill.fail", self._run["id"], self._hold.fence, event.id, outcome.kind, outcome.status
            )
            await self._follow(result)
            if decision.pause_seconds is not None and decision.dead_kind != "aborted":
                continue
            if decision.action != "retry" or number == self._run["attempts_max"]:
                return self._refuse(event, result)
            number += 1
            await self._wait(decision.retry_seconds)
        return None

    def _refuse(self, event: Event, result: Result) -> None:
        """Skip the event if that is wanted, and if its answer is about the event. An outage stops the run."""
        if not (self._run["skips"] and _is_final(result)):
            raise Stopped(f"the receiver did not take {event.event_id}: {_words(result.outcome)}")
        self._batch.refused.append(event.id)

    async def _wait(self, seconds: float) -> None:
        """Wait before the next attempt, and look meanwhile whether there may be one."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            await pause(self._halt, min(left, _LOOK_SECONDS))
            await self._present()

    async def _attempt(self, event: Event, number: int) -> Result | None:
        """Make an attempt when it is its turn. None: the event was erased meanwhile."""
        async with self._slots:
            await self._pace()
            subscriber = await self._present()
            if event.id in self._erased:
                self._batch.erased.append(event.id)
                return None
            seconds = subscriber.timeout_seconds or self._options.timeout_seconds
            self._hold.check(seconds)
            now, started_at = time.monotonic(), datetime.now(UTC)
            claim = Claim(event, subscriber, number, self._hold.fence, now, now, is_replay=True)
            try:
                outcome = await self._attempts.make([claim], seconds, started_at, self._hold.latest(seconds))
            except NotSent:  # the process was stopped since the look at the lease
                raise HoldLost(self._hold.replay) from None
            result = result_of(claim, started_at, outcome, self._options, random.random, leads=True)
            if (rest := result.decision.pause_seconds) is not None:  # before another one takes the slot
                self._rests_until = max(self._rests_until, time.monotonic() + max(rest, _REST_SECONDS_MIN))
            return result

    async def _follow(self, result: Result) -> None:
        """Apply to the subscription what the receiver asked for, as the worker does: a pause, or its end."""
        decision, number = result.decision, result.subscription_id
        if decision.pause_seconds is not None:
            await self._database.execute("subscription.pause", number, decision.pause_seconds)
        if decision.end_state is None:
            return
        ended = Stopped(f"the subscription is {decision.end_state} ({decision.end_reason})")
        self._fail(ended)  # before another attempt begins
        await self._database.fetchval(
            "subscription.end", number, decision.end_state, decision.end_reason, result.version
        )
        if decision.end_state == "gone":  # clean-up does the rest
            await self._database.fetchval("delivery.cancel_ended", [number], _CANCEL_MAX)
        raise ended

    async def _present(self) -> Subscriber:
        """Return the subscriber as it is now; know which events of the batch were erased. Raises :class:`Stopped`."""
        async with self._looking:
            self._refuse_more()
            now = time.monotonic()
            if self._subscriber is not None and now - self._seen_at <= _FRESH_SECONDS and now >= self._rests_until:
                return self._subscriber
            subscriber = await self._look()
            self._erased = await erased_among(self._database, [event.id for event in self._batch.events])
            return subscriber

    async def _look(self) -> Subscriber:
        """Return the subscriber as it is now, once nothing pauses run or subscription. Raises :class:`Stopped`."""
        waits_for = None
        while True:
            self._refuse_more()
            self._hold.check()
            seen_at = time.monotonic()
            row = await self._database.fetchrow("backfill.look", self._run["id"], self._hold.fence)
            if row is None:
                await self._hold.renew()  # tells that it was taken
                continue
            if row["state"] == "cancelled":
                raise Stopped("it was cancelled", is_final=True)
            if (why := hindrance(row)) is not None:
                raise Stopped(why)
            reason = self._pause_of(row)
            if reason is None:
                self._seen_at = seen_at
                return await self._known(row)
            if reason != waits_for:
                waits_for = reason
                tell(f"waits: {reason}")
            await pause(self._halt, _LOOK_SECONDS)

    def _pause_of(self, row: Row) -> str | None:
        if row["state"] == "paused":
            return "the run is paused"
        is_paused = (row["paused_seconds"] or 0) > 0 or self._rests_until > time.monotonic()
        return "the subscription is paused" if is_paused else None

    async def _known(self, row: Row) -> Subscriber:
        number, version = self._run["subscription_number"], row["version"]
        if self._subscriber is not None and self._subscriber.version != version:
            tell("the subscription has changed: its present address and keys count from now on")
        self._has_filter = row["has_filter"]
        self._rate = min(filter(None, (row["rate_per_second"], row["subscription_rate"])), default=None)
        self._subscriber = (await self._subscribers.get([(number, version)]))[number]
        return self._subscriber

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
        if upto is None and not (batch.sent or batch.erased or batch.unwanted or batch.refused):
            return
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

    def _refuse_more(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _fail(self, error: Exception) -> None:
        """End the batch: attempts in flight end, and none begins."""
        self._failure = self._failure or error
        self._halt.set()


def _is_final(result: Result) -> bool:
    """Return whether the answer is about the event: a refusal of the request, or the wish to get it no more."""
    outcome = result.outcome
    is_4xx = outcome.kind in ("client_error", "gone") and outcome.status not in _MAY_COME_LATER
    return is_4xx or result.decision.dead_kind == "aborted"


def _words(outcome: Outcome) -> str:
    return f"it answered {outcome.status}" if outcome.status is not None else (outcome.detail or outcome.kind)
