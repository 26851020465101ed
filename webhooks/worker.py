"""Worker: claims due deliveries, sends them, hands the results to the settlement.

::

    fan-out, retry due, poll --> ready --> claim (lease, fence) --> buffer --> attempt --> settlement
                                   ^                                  |
                                   +------ more of it is due ---------+

A claim takes a batch for several subscriptions at once, each no more than it has shown it can take: a
subscription that answers fast is read ahead, any other gets exactly as many deliveries as it has slots. Buffered
deliveries whose lease has become too short for a whole attempt are given back, not sent: the lease is checked
before the first byte leaves (RR-10).
"""

from __future__ import annotations

import asyncio
import heapq
import random
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import structlog

from db.errors import DatabaseError
from db.pool import Database, Row
from event.event import Event
from webhooks.contents import Contents
from webhooks.failure import OutboundError
from webhooks.message import delivery_headers
from webhooks.metrics import DeliveryMetrics
from webhooks.outbound import Outbound, Request
from webhooks.outcome import Outcome, outcome_of_error, outcome_of_response
from webhooks.retry import decide
from webhooks.settlement import Result, Settlement
from webhooks.slots import SlotOptions, Slots
from webhooks.subscriber import Subscriber, Subscribers

__all__ = ["Worker", "WorkerOptions"]

_log = structlog.get_logger(__name__)
_LOOKED_AT = 8


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """``lease_margin_seconds`` is added to a subscription's deadline to make the lease of a claim: so long may a
    delivery wait in the buffer; deadline and margin are how long a killed worker holds up an ordered lane.
    ``claim_max`` bounds one claim; ``poll_seconds`` is how often the database is asked who is due when nothing here
    told us."""

    name: str
    public_url: str
    schedule_seconds: Sequence[int]
    timeout_seconds: float = 15.0
    lease_margin_seconds: float = 5.0
    retry_after_seconds_max: float = 3600.0
    claim_max: int = 1_000
    claim_subscriptions_max: int = 64
    poll_seconds: float = 1.0
    slots: SlotOptions = field(default_factory=SlotOptions)


@dataclass(frozen=True, slots=True)
class _Claimed:
    event: Event
    subscriber: Subscriber
    attempts: int
    fence: int
    leased_until: float


class Worker:
    """Delivers for as long as :meth:`run` runs."""

    name = "delivery worker"

    def __init__(
        self, database: Database, outbound: Outbound, subscribers: Subscribers, contents: Contents,
        metrics: DeliveryMetrics, options: WorkerOptions, chance: Callable[[], float] = random.random,
    ) -> None:  # fmt: skip
        self._database = database
        self._outbound = outbound
        self._subscribers = subscribers
        self._contents = contents
        self._metrics = metrics
        self._options = options
        self._chance = chance
        self._slots = Slots(options.slots)
        self._settlement = Settlement(database, options.name, self._settled)
        self._ready: OrderedDict[int, None] = OrderedDict()
        self._buffers: OrderedDict[int, deque[_Claimed]] = OrderedDict()
        self._buffered = 0
        self._later: list[tuple[float, int]] = []
        self._fast: set[int] = set()
        self._wake = asyncio.Event()
        self._attempts = asyncio.TaskGroup()
        self._stopping = False

    def due(self, subscriptions: Sequence[int]) -> None:
        """These subscriptions have something to deliver now."""
        for subscription in subscriptions:
            self._ready[subscription] = None
        if subscriptions:
            self._wake.set()

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
            await self._give_back([claimed for buffer in self._buffers.values() for claimed in buffer])
            self._settlement.stop()

    async def _claim_until_stopped(self) -> None:
        """Keep the buffers filled; attempts start from here and from attempts that end."""
        while not self._stopping:
            self._wake.clear()
            self._promote()
            self._start_all()
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
            self._ready[heapq.heappop(self._later)[1]] = None

    async def _claim_more(self) -> bool:
        """Claim for ready subscriptions if there is room; False when there was nothing to do."""
        wanted = self._wanted()
        if not wanted:
            return False
        options = self._options
        asked_at = time.monotonic()
        try:
            rows = await self._database.fetch(
                "delivery.claim", list(wanted), list(wanted.values()), options.timeout_seconds,
                options.lease_margin_seconds,
            )  # fmt: skip
            await self._buffer(rows, asked_at)
        except DatabaseError as error:
            _log.warning("claim_failed", error=str(error))
            await asyncio.sleep(0.5)
            return True
        found: dict[int, int] = {}
        for row in rows:
            found[row["subscription_id"]] = found.get(row["subscription_id"], 0) + 1
        for subscription, most in wanted.items():
            if found.get(subscription, 0) < most:
                self._ready.pop(subscription, None)
            else:
                self._ready.move_to_end(subscription)
        return bool(rows)

    def _wanted(self) -> dict[int, int]:
        """How many to claim for which ready subscriptions, in turn."""
        room = self._options.claim_max - self._buffered
        if room < self._options.claim_max // 2:
            return {}
        wanted: dict[int, int] = {}
        candidates = min(len(self._ready), self._options.claim_subscriptions_max)
        untried = max(self._options.slots.per_subscription // 4, 1)
        share = max(room // max(candidates, 1), untried)
        for subscription in self._ready:
            ahead = share if subscription in self._fast else untried
            most = min(ahead - len(self._buffers.get(subscription, ())), room)
            if most > 0:
                wanted[subscription] = most
                room -= most
            if room <= 0 or len(wanted) >= self._options.claim_subscriptions_max:
                break
        return wanted

    async def _buffer(self, rows: Sequence[Row], asked_at: float) -> None:
        if not rows:
            return
        subscribers = await self._subscribers.get((row["subscription_id"], row["version"]) for row in rows)
        events = await self._contents.get(row["event_id"] for row in rows)
        for row in sorted(rows, key=lambda row: row["event_id"]):
            subscription = row["subscription_id"]
            claimed = _Claimed(
                events[row["event_id"]],
                subscribers[subscription],
                row["attempts"],
                row["fence"],
                asked_at + row["lease_seconds"],
            )
            self._buffers.setdefault(subscription, deque()).append(claimed)
            self._buffered += 1

    def _start_all(self) -> None:
        """Start buffered deliveries wherever there is a slot, one subscription after the other."""
        for subscription in list(self._buffers):
            while self._start_one(subscription):
                pass

    def _start_next(self) -> None:
        """A slot is free: give it to one of the buffers in turn. Looks at a few only, this runs for every attempt."""
        for _ in range(min(len(self._buffers), _LOOKED_AT)):
            subscription = next(iter(self._buffers))
            self._buffers.move_to_end(subscription)
            if self._start_one(subscription):
                return

    def _start_one(self, subscription: int) -> bool:
        buffer = self._buffers.get(subscription)
        if buffer is None or self._stopping:
            return False
        target = buffer[0].subscriber.target
        host = target.host if target is not None else ""
        was_proven = self._slots.is_proven(subscription)
        if not self._slots.try_take(subscription, host):
            return False
        claimed = buffer.popleft()
        self._buffered -= 1
        if not buffer:
            del self._buffers[subscription]
        self._attempts.create_task(self._attempt(claimed, host, was_proven))
        return True

    async def _attempt(self, claimed: _Claimed, host: str, was_proven: bool) -> None:
        subscription = claimed.subscriber.id
        succeeded = False
        try:
            deadline = claimed.subscriber.timeout_seconds or self._options.timeout_seconds
            if time.monotonic() + deadline > claimed.leased_until:
                await self._give_back([claimed])
                return
            started_at = datetime.now(UTC)
            outcome = await self._send(claimed, deadline, started_at)
            succeeded = outcome.kind == "delivered"
            if succeeded and outcome.total_seconds < 0.25:  # else a full buffer would outlast the leases in it
                self._fast.add(subscription)
            else:
                self._fast.discard(subscription)
            self._metrics.attempts.labels(outcome.kind).inc()
            self._metrics.seconds.observe(outcome.total_seconds)
            schedule = claimed.subscriber.schedule
            decision = decide(
                outcome,
                claimed.attempts,
                self._options.schedule_seconds if schedule is None else schedule,
                self._chance(),
            )
            self._settlement.add(Result(claimed.event.id, subscription, claimed.fence, started_at, outcome, decision))
        finally:
            self._slots.give(subscription, host, was_proven=was_proven, succeeded=succeeded)
            self._start_next()
            if self._buffered <= self._options.claim_max // 2:
                self._wake.set()

    async def _send(self, claimed: _Claimed, deadline: float, started_at: datetime) -> Outcome:
        subscriber = claimed.subscriber
        if subscriber.target is None:
            return Outcome("blocked", None, subscriber.refusal)
        headers = delivery_headers(claimed.event, subscriber, int(started_at.timestamp()), self._options.public_url)
        request = Request("POST", subscriber.target, headers, claimed.event.payload, deadline)
        started = time.monotonic()
        try:
            response = await self._outbound.send(request)
        except OutboundError as error:
            if error.reason != error.detail:
                _log.info("attempt_failed", subscription=subscriber.public_id, kind=error.kind, reason=error.reason)
            return outcome_of_error(error, time.monotonic() - started)
        return outcome_of_response(response, started_at, self._options.retry_after_seconds_max)

    def _settled(self, results: Sequence[Result]) -> None:
        """After the batch is on record: schedule retries, look again at lanes that were waiting."""
        now = time.monotonic()
        self._metrics.in_flight.set(self._slots.used)
        for result in results:
            decision = result.decision
            if decision.action == "retry":
                heapq.heappush(self._later, (now + decision.retry_seconds, result.subscription_id))
            elif result.subscription_id not in self._ready:
                # In an ordered lane the next event has become the head just now.
                self._ready[result.subscription_id] = None
            if decision.dead_kind is not None:
                self._metrics.dead.labels(decision.dead_kind).inc()
                _log.warning(
                    "delivery_dead", event_id=result.event_id, subscription=result.subscription_id,
                    kind=decision.dead_kind, outcome=result.outcome.kind, status=result.outcome.status,
                )  # fmt: skip
        self._wake.set()

    async def _give_back(self, claimed: Sequence[_Claimed]) -> None:
        if not claimed:
            return
        try:
            await self._database.execute(
                "delivery.release",
                [one.event.id for one in claimed],
                [one.subscriber.id for one in claimed],
                [one.fence for one in claimed],
            )
        except DatabaseError as error:
            # They come due by themselves when their lease ends.
            _log.warning("release_failed", deliveries=len(claimed), error=str(error))
        self.due([one.subscriber.id for one in claimed])

    async def _poll(self) -> None:
        """Ask who is due: finds what other processes fanned out, and what a dead worker held."""
        pause = self._options.poll_seconds
        while True:
            started = time.monotonic()
            try:
                rows = await self._database.fetch("delivery.due_subscriptions")
            except DatabaseError as error:
                _log.warning("poll_failed", error=str(error))
                rows = ()
            self.due([row["subscription_id"] for row in rows])
            # The walk costs one step per subscription with open deliveries: keep it a twentieth of the time.
            await asyncio.sleep(max(pause, 20 * (time.monotonic() - started)))
