"""Worker: claims due deliveries, sends them, hands the results to the settlement.

::

    fan-out, retry due, poll --> ready --> claim (lease, fence) --> wait for a slot --> attempt --> settlement
                                   ^                                  |
                                   +-- given back, or more is due ----+

A claim takes a batch for several subscriptions at once, each no more than it has shown it can take: a subscription
that answers fast is read ahead; those that have not lately succeeded, all together, get no more than there are
slots for them, and stand in a line of their own, so that a thousand dead callbacks neither fill the queue nor are
looked at before the living. What waits and can't be sent any more is given back uncounted: when its lease has become
too short for a whole attempt (the lease is checked before the first byte leaves, RR-10), when its subscription has
failed, or rests after a 429, or has ended.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import structlog

from db.errors import DatabaseError
from db.pool import Database, Row
from egress.client import Outbound
from runtime.pause import pause
from webhooks.attempt import Attempts
from webhooks.attempt_log import AttemptLog
from webhooks.batch import BatchSizes
from webhooks.breaker import after_probe, is_failure
from webhooks.claim import Claim, Claims, claim_of
from webhooks.contents import Contents
from webhooks.due_subscriptions import DueSubscriptions
from webhooks.lifetime import ttl_seconds, within_lifetime
from webhooks.metrics import DeliveryMetrics
from webhooks.operator_event import RESERVED_PREFIX, notices_of
from webhooks.outcome import Outcome
from webhooks.paused_subscriptions import PausedSubscriptions
from webhooks.retry import DELIVERED, Decision, decide
from webhooks.settlement import Result, Settlement
from webhooks.slots import Slots
from webhooks.subscriber import Subscribers
from webhooks.worker_options import WorkerOptions

__all__ = ["Worker", "WorkerOptions"]

_log = structlog.get_logger(__name__)
_LOOKED_AT = 8
_POLLS = ("delivery.due_subscriptions", "delivery.promote_heads")
_LARGE_BYTES = 20_000
"""What Standard Webhooks advises for a body; more is delivered, and counted (WH-S10)."""
_TOO_LARGE = 413
_LATER_SECONDS_MAX = 60.0
"""Retries that are further away are left to the poll."""
_OVERLOADED = ("throttled", "server_error", "timeout", "connect")
"""Outcomes after which a receiver gets fewer at once (WH-R16)."""


class Worker:
    """Delivers for as long as :meth:`run` runs."""

    name = "delivery worker"

    def __init__(
        self, database: Database, outbound: Outbound, subscribers: Subscribers, contents: Contents,
        metrics: DeliveryMetrics, options: WorkerOptions, chance: Callable[[], float] = random.random,
    ) -> None:  # fmt: skip
        self._database = database
        self._sender = Attempts(
            outbound, options.public_url, options.retry_after_seconds_max, appends_hub_topic=options.appends_hub_topic
        )
        self._subscribers = subscribers
        self._contents = contents
        self._metrics = metrics
        self._options = options
        self._chance = chance
        self._slots = Slots(options.slots)
        self._settlement = Settlement(
            database, options.name, self._settled, options.breaker, notices_of, options.errors
        )
        self._due = DueSubscriptions(self._slots.is_proven)
        self._claims = Claims()
        self._given_back: list[Claim] = []
        self._paused = PausedSubscriptions(options.breaker)
        self._later: list[tuple[float, int]] = []
        self._gated: dict[int, float] = {}
        self._fast: set[int] = set()
        self._batch_sizes = BatchSizes()
        self._attempt_log = AttemptLog(options.log_sample)
        self._wake = asyncio.Event()
        self._polls: dict[str, asyncio.Event] = {statement: asyncio.Event() for statement in _POLLS}
        self._attempts = asyncio.TaskGroup()
        self._stopping = False

    def mark_due(self, subscriptions: Sequence[int]) -> None:
        """These subscriptions have something to deliver now."""
        self._due.add(subscriptions)
        if subscriptions:
            self._wake.set()

    def poll_now(self) -> None:
        """There are open deliveries: ask who is due."""
        for asked in self._polls.values():
            asked.set()

    def stop(self) -> None:
        """Soft stop: finish attempts in flight, give back what was only claimed."""
        self._stopping = True
        self._wake.set()

    async def run(self) -> None:
        """Deliver until stopped."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._settlement.run(), name="settlement")
            poller = tasks.create_task(self._poll(), name="delivery poll")
            async with asyncio.TaskGroup() as self._attempts:
                await self._claim_until_stopped()
            poller.cancel()
            for subscription in self._claims.subscriptions():
                self._release_waiting(subscription)
            await self._give_back()
            self._settlement.stop()

    async def _claim_until_stopped(self) -> None:
        """Keep the queue filled; attempts start from here and from attempts that end."""
        while not self._stopping:
            self._wake.clear()
            # Only here, with no claim in the air: every claim from now on sees the pause or the end itself.
            self._paused.end_recorded()
            self._promote()
            self._start_all()
            await self._give_back()
            if not await self._claim_more():
                await self._wait()

    async def _wait(self) -> None:
        until_next = max(self._later[0][0] - time.monotonic(), 0.0) if self._later else None
        try:
            async with asyncio.timeout(until_next):
                await self._wake.wait()
        except TimeoutError:
            return

    def _promote(self) -> None:
        """Retries whose time has come make their subscription ready."""
        now = time.monotonic()
        while self._later and self._later[0][0] <= now:
            self._due.add((heapq.heappop(self._later)[1],))

    async def _claim_more(self) -> bool:
        """Claim for ready subscriptions if there is room; False when there was nobody to claim for."""
        if self._settlement.is_stuck:  # what was sent must be on record before its lease ends and it is sent again
            return False
        wanted = self._wanted()
        if not wanted:
            return False
        for subscription in wanted:  # before we ask, so that what comes due meanwhile is not forgotten
            self._due.remove(subscription)
        options = self._options
        asked_at = time.monotonic()
        try:
            rows = await self._database.fetch(
                "delivery.claim", list(wanted), list(wanted.values()), options.timeout_seconds,
                options.lease_margin_seconds,
            )  # fmt: skip
            await self._admit_claims(rows, asked_at)
        except DatabaseError as error:
            _log.warning("claim_failed", error=str(error))
            self._due.add(wanted)
            await asyncio.sleep(0.5)
            return True
        found = Counter(row["subscription_id"] for row in rows if row["event_id"] is not None)
        self._due.add(subscription for subscription, most in wanted.items() if found[subscription] == most)
        return True  # also when nothing was found: others may stand behind those

    def _ask_later(self, row: Row, asked_at: float) -> None:
        """A gate has held it back: ask again when there is something to be had, once."""
        subscription, at = row["subscription_id"], asked_at + row["wait_seconds"]
        known = self._gated.get(subscription, 0.0)
        if row["wait_seconds"] <= _LATER_SECONDS_MAX and not asked_at < known <= at:
            self._gated[subscription] = at
            heapq.heappush(self._later, (at, subscription))

    def _wanted(self) -> dict[int, int]:
        """How many to claim for which ready subscriptions, in turn."""
        options, slots = self._options, self._slots
        room = options.claim_max - self._claims.waiting
        if room < options.claim_max // 2 or self._claims.payload_bytes >= options.payload_bytes_max:
            return {}
        unproven_room = slots.unproven_free - sum(
            self._claims.waiting_of(one) for one in self._claims.subscriptions() if not slots.is_proven(one)
        )
        untried = max(options.slots.per_subscription // 4, 1)
        share = max(room // max(min(len(self._due), options.claim_subscriptions_max), 1), untried)
        wanted: dict[int, int] = {}
        for subscription in self._due.first(4 * options.claim_subscriptions_max, unproven=unproven_room > 0):
            is_proven = slots.is_proven(subscription)
            ahead = share if subscription in self._fast else max(untried, self._batch_sizes.asked_for(subscription))
            most = min(ahead - self._claims.waiting_of(subscription), room if is_proven else min(room, unproven_room))
            if most > 0 and subscription not in self._paused:
                wanted[subscription] = most
                room -= most
                unproven_room -= 0 if is_proven else most
            else:
                self._due.move_to_end(subscription)
            if room <= 0 or len(wanted) >= options.claim_subscriptions_max:
                break
        return wanted

    async def _admit_claims(self, rows: Sequence[Row], asked_at: float) -> None:
        """Queue what was claimed; bury what has lost its contents; give back what memory has no room for."""
        for row in rows:
            if row["event_id"] is None:
                self._ask_later(row, asked_at)
        rows = [row for row in rows if row["event_id"] is not None]
        if not rows:
            return
        subscribers = await self._subscribers.get((row["subscription_id"], row["version"]) for row in rows)
        budget = self._options.payload_bytes_max - self._claims.payload_bytes
        events, lost = await self._contents.get((row["event_id"] for row in rows), budget)
        surplus: list[Row] = []
        orphans: list[Row] = []
        self._batch_sizes.note(subscribers.values())
        for row in sorted(rows, key=lambda row: row["event_id"]):
            event = events.get(row["event_id"])
            if row["is_held"] and subscribers[row["subscription_id"]].at_most_once:
                self._settlement.add(_lost_track(row))
            elif event is not None and row["age_seconds"] > (ttl_seconds(event) or math.inf):
                self._settlement.add(_unsent(row, Outcome("expired", None, "its time to live has ended"), "exhausted"))
            elif event is not None:
                self._claims.put(claim_of(row, event, subscribers[row["subscription_id"]], asked_at))
            else:
                (orphans if row["event_id"] in lost else surplus).append(row)
        for subscription in self._paused.subscriptions():
            self._release_waiting(subscription)
        if orphans:
            _log.error("events_lost", deliveries=len(orphans), first=orphans[0]["event_id"])
            await self._database.execute(
                "delivery.dead_letter_orphans", *_columns(orphans), "its event no longer exists"
            )
        if surplus:
            await self._database.execute("delivery.release", *_columns(surplus))
            self.mark_due([row["subscription_id"] for row in surplus])

    def _start_all(self) -> None:
        """Start waiting deliveries wherever there is a slot, one subscription after the other."""
        for subscription in self._claims.subscriptions():
            while self._start_one(subscription):
                pass

    def _start_next(self) -> None:
        """A slot is free: give it to one of those that wait, in turn. This runs often, so it looks at a few only."""
        for _ in range(min(self._claims.subscriptions_waiting, _LOOKED_AT)):
            if self._start_one(self._claims.next_subscription()):
                return

    def _start_one(self, subscription: int) -> bool:
        claim = self._claims.first(subscription)
        if claim is None or self._stopping or subscription in self._paused:
            return False
        subscriber = claim.subscriber
        deadline = subscriber.timeout_seconds or self._options.timeout_seconds
        if time.monotonic() + deadline > claim.leased_until:
            self._given_back.append(self._claims.take(subscription))
            self._wake.set()
            return True
        host = subscriber.target.host if subscriber.target is not None else ""
        was_proven = self._slots.is_proven(subscription)
        if not self._slots.try_take(subscription, host):
            return False
        most = self._batch_sizes.most(subscriber)
        claims = self._claims.take_batch(subscription, most, time.monotonic() + deadline)
        self._attempts.create_task(self._attempt(claims, host, deadline, was_proven))
        return True

    async def _attempt(self, claims: Sequence[Claim], host: str, deadline: float, was_proven: bool) -> None:
        subscriber = claims[0].subscriber
        subscription = subscriber.id
        succeeded, overloaded, held = False, False, claims
        try:
            started_at = datetime.now(UTC)
            outcome = await self._send(claims, deadline, started_at)
            succeeded = outcome.kind == "delivered"
            overloaded = outcome.kind in _OVERLOADED
            if succeeded and outcome.total_seconds < 0.25:  # else a full queue would outlast the leases in it
                self._fast.add(subscription)
            elif subscription in self._fast:
                self._fast.discard(subscription)
                self._release_waiting(subscription)
            self._metrics.count(outcome.kind, outcome.total_seconds)
            if sum([len(claim.event.payload) for claim in claims]) > _LARGE_BYTES:
                self._metrics.large.inc()
            if outcome.status == _TOO_LARGE and len(claims) > 1:
                # That says something of the batch and nothing of its events: they go again, in smaller ones.
                self._batch_sizes.halve(subscriber, len(claims))
                self._given_back += claims
                self._wake.set()
                held = ()
            for claim in held:
                self._record_outcome(claim, started_at, outcome, leads=claim is claims[0])
        finally:
            self._slots.give(subscription, host, was_proven=was_proven, succeeded=succeeded, overloaded=overloaded)
            for claim in held:
                self._claims.drop(claim)
            self._start_next()
            if self._claims.waiting <= self._options.claim_max // 2:
                self._wake.set()

    def _record_outcome(self, claim: Claim, started_at: datetime, outcome: Outcome, *, leads: bool) -> None:
        """Hand the result over; what else was claimed for a subscription that rests or has ended is not sent.

        What an answer means for the subscription, the one that leads its batch tells, once.
        """
        subscriber = claim.subscriber
        now = time.monotonic()
        options = self._options
        if outcome.is_plain_success:  # nearly all are
            decision = DELIVERED
        else:
            policy = subscriber.policy(
                options.schedule_seconds, options.age_seconds_max, options.errors, is_in_lane=claim.is_in_lane
            )
            policy = within_lifetime(policy, claim.event)
            rest = None if claim.planned_at is None else max(claim.planned_at - now, 0.0)
            decision = decide(outcome, claim.position, policy, self._chance(), rest, now - claim.made_at)
        breaker = after_probe(outcome) if leads and claim.is_probe else None
        decision = decision if leads else replace(decision, pause_seconds=None, end_state=None, end_reason=None)
        result = Result(
            claim.event.id, subscriber.id, claim.fence, subscriber.version, started_at, outcome, decision, breaker,
            failed=is_failure(outcome) if leads else None,
            tells=not claim.event.topic.startswith(RESERVED_PREFIX),
            counts=subscriber.protocol == "rabbithub" and outcome.kind != "delivered", is_in_lane=claim.is_in_lane,
            names={
                "event_id": claim.event.event_id, "subscription": subscriber.public_id, "topic": claim.event.topic,
                "attempt": claim.position,
            },
        )  # fmt: skip
        if self._paused.begin(result):
            self._release_waiting(subscriber.id)
        self._settlement.add(result)

    async def _send(self, claims: Sequence[Claim], deadline: float, started_at: datetime) -> Outcome:
        return await self._sender.make(claims, deadline, started_at)

    def _settled(self, results: Sequence[Result]) -> None:
        """After the batch is on record: schedule retries, look again at lanes that were waiting."""
        now = time.monotonic()
        self._metrics.in_flight.set(self._slots.used)
        for result in results:
            decision = result.decision
            self._attempt_log.write(result)
            self._paused.settled(result)
            if result.breaker == "trip":  # what waits here has passed no gate yet
                self._release_waiting(result.subscription_id)
            if decision.action != "retry":
                if result.is_in_lane or result.breaker is not None:
                    # The next event of the lane has become its head just now, or a breaker has closed.
                    self._due.add((result.subscription_id,))
            elif decision.retry_seconds <= _LATER_SECONDS_MAX:
                heapq.heappush(self._later, (now + decision.retry_seconds, result.subscription_id))
            if decision.dead_kind is not None:
                self._metrics.dead.labels(decision.dead_kind).inc()
                _log.warning(
                    "delivery_dead", delivery=f"dlv_{result.event_id}_{result.subscription_id}", **result.names,
                    kind=decision.dead_kind, outcome=result.outcome.kind, status=result.outcome.status,
                )  # fmt: skip
        self._wake.set()

    def _release_waiting(self, subscription: int) -> None:
        """Give back what a subscription has waiting here."""
        self._given_back += self._claims.take_all(subscription)

    async def _give_back(self) -> None:
        """Make due at once, and uncount, what was claimed and will not be sent from here."""
        claims, self._given_back = self._given_back, []
        if not claims:
            return
        for claim in claims:
            self._claims.drop(claim)
        try:
            await self._database.execute(
                "delivery.release",
                [claim.event.id for claim in claims],
                [claim.subscriber.id for claim in claims],
                [claim.fence for claim in claims],
            )
        except DatabaseError as error:
            # They come due by themselves when their lease ends.
            _log.warning("release_failed", deliveries=len(claims), error=str(error))
        self.mark_due([claim.subscriber.id for claim in claims])

    async def _poll(self) -> None:
        """Ask who is due: what other processes fanned out, what a dead worker held, lanes whose head nobody made due.

        A walk costs one step per subscription, or per lane, with open deliveries: each is kept to a twentieth of the
        time, by itself, so that many lanes don't keep subscriptions waiting.
        """
        async with asyncio.TaskGroup() as polls:
            for statement, asked in self._polls.items():
                polls.create_task(self._poll_by(statement, asked))

    async def _poll_by(self, statement: str, asked: asyncio.Event) -> None:
        while True:
            asked.clear()
            started = time.monotonic()
            try:
                rows = await self._database.fetch(statement)
            except DatabaseError as error:
                _log.warning("poll_failed", error=str(error))
                rows = ()
            self.mark_due([row["subscription_id"] for row in rows])
            rest_seconds = 20 * (time.monotonic() - started)
            await asyncio.sleep(rest_seconds)
            await pause(asked, self._options.poll_seconds - rest_seconds)


def _lost_track(row: Row) -> Result:
    """It was claimed before and nobody knows whether it was sent, so it is never sent again (WH-O06)."""
    detail = "its worker ended before the outcome was on record; it may have arrived"
    return _unsent(row, Outcome("unknown", None, detail), "internal")


def _unsent(row: Row, outcome: Outcome, dead_kind: str) -> Result:
    decision = Decision("dead", dead_kind=dead_kind)
    at = datetime.now(UTC)
    return Result(
        row["event_id"], row["subscription_id"], row["fence"], row["version"], at, outcome, decision,
        is_in_lane=row["is_in_lane"],
    )  # fmt: skip


def _columns(rows: Sequence[Row]) -> tuple[list[int], list[int], list[int]]:
    return (
        [row["event_id"] for row in rows],
        [row["subscription_id"] for row in rows],
        [row["fence"] for row in rows],
    )
