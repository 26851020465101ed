"""Worker: claims due deliveries, sends them, and passes the results to the settlement.

::

    fan-out, retry due, poll --> schedule --> claim (lease, fence) --> schedule --> attempt --> settlement
                                    ^                                    |                         |
                                    +------------ released --------------+------- stored ----------+

:mod:`webhooks.schedule` decides which deliveries to claim and which claim to send next. It uses neither clock nor
database.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime

import structlog

from db.errors import DatabaseError
from db.pool import Database, Row
from egress.client import NotSent, Outbound
from runtime.pause import pause
from runtime.trouble import Trouble
from webhooks.attempt import Attempts, result_of
from webhooks.attempt_log import AttemptLog
from webhooks.claim import Claim, ClaimAnswer, Claimer, DeliveryMember
from webhooks.contents import Contents
from webhooks.direct import Offer, Offers
from webhooks.incidents.operator_event import notices_of
from webhooks.metrics import DeliveryMetrics
from webhooks.outcome import Outcome
from webhooks.result import Result
from webhooks.schedule import Dispatch, Schedule
from webhooks.settlement import Settlement
from webhooks.subscriber import Subscribers
from webhooks.worker_options import WorkerOptions

__all__ = ["Worker"]

_log = structlog.get_logger(__name__)
_POLLS = ("delivery.due_subscriptions", "delivery.promote_heads")
_REST_SECONDS_MAX = 30.0
_POLL_AGAIN_SECONDS = 0.5
_LARGE_BYTES = 20_000
"""Size of a body that Standard Webhooks advises; a larger body is delivered and counted."""


class Worker:
    """Deliver for as long as :meth:`run` runs. ``note`` gets the fences of claims, before anything is sent. ``member``
    returns the membership for which claims are made: when it ends, their requests are aborted.
    """

    name = "delivery worker"

    def __init__(
        self, database: Database, outbound: Outbound, subscribers: Subscribers, contents: Contents,
        metrics: DeliveryMetrics, options: WorkerOptions, chance: Callable[[], float] = random.random,
        note: Callable[[Collection[int]], None] = lambda _: None,
        member: Callable[[], DeliveryMember | None] = lambda: None,
    ) -> None:  # fmt: skip
        self._database = database
        self._claimer = Claimer(database, subscribers, contents, options, note, member)
        self._schedule = Schedule(options)
        self._sender = Attempts(
            outbound, options.public_url, options.retry_after_seconds_max, appends_hub_topic=options.appends_hub_topic
        )
        self._settlement = Settlement(
            database, options.name, self._settled, options.breaker, notices_of, options.errors
        )
        self._metrics = metrics
        metrics.in_flight.set_function(lambda: self._schedule.in_flight)
        self._options = options
        self._chance = chance
        self._attempt_log = AttemptLog(options.log_sample)
        self._wake = asyncio.Event()
        self._polls: dict[str, asyncio.Event] = {statement: asyncio.Event() for statement in _POLLS}
        self._attempts = asyncio.TaskGroup()
        self._stopping = False
        self._aborted: list[Claim] = []
        self._abandoning = Trouble("abandoning_waits", "abandoned")
        self.offers = Offers(options, self._schedule.paused, self._has_room, self._take, metrics.direct, note, member)

    def mark_due(self, subscriptions: Sequence[int]) -> None:
        """Note that these subscriptions have due deliveries."""
        self._schedule.mark_due(subscriptions)
        if subscriptions:
            self._wake.set()

    def poll_now(self) -> None:
        """Ask the database now which subscriptions are due."""
        for asked in self._polls.values():
            asked.set()

    def stop(self) -> None:
        """Stop softly: finish attempts in flight, release the other claims."""
        self._stopping = True
        self._wake.set()

    async def run(self) -> None:
        """Deliver until stopped."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._settlement.run(), name="settlement")
            poller = tasks.create_task(self._poll(), name="delivery poll")
            async with asyncio.TaskGroup() as self._attempts:
                with self.offers.among(self._attempts):
                    await self._claim_until_stopped()
            poller.cancel()
            self._schedule.return_all()
            await self._give_back()
            self._settlement.stop()

    # --- claims -------------------------------------------------------------------------------------------------

    async def _claim_until_stopped(self) -> None:
        """Keep the schedule filled. Attempts start here and when other attempts end."""
        while not self._stopping:
            self._wake.clear()
            self.offers.note_ended_pauses(self._schedule.advance(time.monotonic()))
            self._start_all()
            await self._give_back()
            # A result must be stored before the lease ends and the delivery is sent again.
            wanted = {} if self._settlement.is_stuck else self._schedule.wanted()
            if wanted:  # claim again even if none was found: other subscriptions may be next in the queue
                await self._claim(wanted)
            else:
                await self._wait()

    async def _wait(self) -> None:
        next_at = self._schedule.next_at()
        if self._aborted:
            next_at = min(next_at or math.inf, time.monotonic() + _POLL_AGAIN_SECONDS)
        await pause(self._wake, None if next_at is None else max(next_at - time.monotonic(), 0.0))

    async def _claim(self, wanted: Mapping[int, int]) -> None:
        """Claim deliveries and pass them to the schedule."""
        schedule = self._schedule
        try:
            answer = await self._claimer.claim(wanted, self._bytes_free)
            for subscription, at in answer.held_back:
                schedule.hold_back_until(subscription, at, time.monotonic())
            await self._admit(answer)
        except DatabaseError as error:
            _log.warning("claim_failed", error=str(error))
            schedule.mark_due(wanted)
            await asyncio.sleep(0.5)
        else:
            schedule.answered(wanted, answer.found)

    async def _admit(self, answer: ClaimAnswer, paused: Iterable[int] = ()) -> None:
        """Queue claims that can be sent, end those that cannot, and release those that do not fit into memory."""
        for result in answer.unsent:
            self._settlement.add(result)
        self._schedule.admit(answer.claims, paused)
        self._start_all()
        if self._schedule.has_returned:
            self._wake.set()
        if answer.orphans:
            await self._claimer.dead_letter(answer.orphans)
        if answer.surplus:
            await self._claimer.release_rows(answer.surplus)
            self.mark_due([row["subscription_id"] for row in answer.surplus])

    @property
    def _bytes_free(self) -> int:
        return self._options.payload_bytes_max - self._schedule.payload_bytes

    async def _give_back(self) -> None:
        """Release the returned claims: they are due at once, and the attempt does not count. Abandon aborted ones."""
        if self._aborted:
            await self._abandon()
        claims = self._schedule.take_returned(time.monotonic())
        if not claims:
            return
        try:
            await self._claimer.release(claims)
        except DatabaseError as error:
            # The deliveries are due again when their lease ends.
            _log.warning("release_failed", deliveries=len(claims), error=str(error))
        self.mark_due([claim.subscriber.id for claim in claims])

    async def _abandon(self) -> None:
        """Make due what was aborted. It happens while the database is away, so this is tried again."""
        claims, self._aborted = self._aborted, []
        try:
            await self._claimer.abandon(claims)
        except DatabaseError as error:
            self._abandoning.tell(error, deliveries=len(claims))
            self._aborted += claims
        else:
            self._abandoning.over(deliveries=len(claims))
            self.mark_due([claim.subscriber.id for claim in claims])

    # --- the direct path ----------------------------------------------------------------------------------------

    def _has_room(self) -> bool:
        """Return whether deliveries that a publishing commit made can start at once."""
        is_idle = not self._schedule.waiting and 2 * self._schedule.in_flight <= self._options.slots.total
        return is_idle and not self._stopping and not self._settlement.is_stuck

    async def _take(self, offer: Offer, rows: Sequence[Row]) -> None:
        """Take deliveries that a publishing commit has made and claimed for this worker, as offered."""
        answer = await self._claimer.answer(rows, offer.made_at, self._bytes_free, offer.member)
        await self._admit(answer, offer.paused)

    # --- attempts -----------------------------------------------------------------------------------------------

    def _start_all(self) -> None:
        """Start waiting claims while slots are free."""
        now = time.monotonic()
        while not self._stopping and (dispatch := self._schedule.start(now)) is not None:
            self._attempts.create_task(self._attempt_in_turn(dispatch))

    async def _attempt_in_turn(self, dispatch: Dispatch) -> None:
        """Make an attempt, then those that get the slot after it: a task for each would cost as much as its message."""
        following: Dispatch | None = dispatch
        while following is not None:
            try:
                async with asyncio.timeout(None) as abort:  # one for many attempts: each costs as much as a signature
                    while following is not None and abort.when() is None:
                        await self._attempt(following, abort)
                        following = self._following()
            except TimeoutError:
                if not abort.expired():
                    raise
                following = self._following()

    def _following(self) -> Dispatch | None:
        """Return the attempt that gets the slot of one that has ended."""
        following = None if self._stopping else self._schedule.start(time.monotonic())
        if following is not None:
            self._start_all()
        if self._schedule.may_claim or self._schedule.has_returned:
            self._wake.set()
        return following

    async def _attempt(self, dispatch: Dispatch, abort: asyncio.Timeout) -> None:
        """Make one attempt. ``abort`` expires when a membership of its claims ends."""
        claims, outcome, was_sent = dispatch.claims, None, True
        members = {claim.member for claim in claims if claim.member is not None}
        for member in members:
            member.begin(abort)
        try:
            started_at = datetime.now(UTC)
            outcome = await self._sender.make(
                claims, dispatch.deadline_seconds, started_at, dispatch.latest_at, _holding(members)
            )
            self._count(claims, outcome)
            if not dispatch.is_too_large(outcome):
                for claim in claims:
                    self._record_outcome(claim, started_at, outcome, leads=claim is claims[0])
        except NotSent:  # the process was stopped, and the leases have become too short, or others may have the claims
            was_sent = False
        except asyncio.CancelledError:
            if abort.expired():  # it may have arrived; nobody takes over the others of a batch: they keep their lease
                self._aborted += [claim for claim in claims if claim.member is not None]
                self._wake.set()
            raise
        finally:
            for member in members:
                member.finish(abort)
            if was_sent:
                self._schedule.finish(dispatch, outcome)
            else:
                self._schedule.give_up(dispatch)

    def _count(self, claims: Sequence[Claim], outcome: Outcome) -> None:
        self._metrics.count(outcome.kind, outcome.total_seconds)
        if sum([len(claim.event.payload) for claim in claims]) > _LARGE_BYTES:
            self._metrics.large.inc()

    def _record_outcome(self, claim: Claim, started_at: datetime, outcome: Outcome, *, leads: bool) -> None:
        """Pass the result to the settlement. Other claims of a subscription that is paused or ended are not sent."""
        result = result_of(claim, started_at, outcome, self._options, self._chance, leads=leads)
        self._schedule.note_result(result)
        self._settlement.add(result)

    def _settled(self, results: Sequence[Result]) -> None:
        """Plan retries and mark waiting lanes due, after the batch is stored."""
        now = time.monotonic()
        for result in results:
            self._schedule.settled(result, now)
            self._attempt_log.write(result)
            decision = result.decision
            if decision.dead_kind is not None:
                self._metrics.dead.labels(decision.dead_kind).inc()
                _log.warning(
                    "delivery_dead", **result.log_fields(), kind=decision.dead_kind,
                    outcome=result.outcome.kind, status=result.outcome.status,
                )  # fmt: skip
        self._wake.set()

    # --- what is due --------------------------------------------------------------------------------------------

    async def _poll(self) -> None:
        """Ask which subscriptions are due.

        The query finds deliveries of other processes' fan-outs, those that a dead worker held, and heads of lanes that
        no settlement made due. A walk costs one step for each subscription or lane with open deliveries. Each walk
        takes at most a twentieth of the time, so that many lanes do not delay subscriptions.
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
                rest_seconds = min(20 * (time.monotonic() - started), _REST_SECONDS_MAX)
            except DatabaseError as error:
                _log.warning("poll_failed", error=str(error))
                rows, rest_seconds = (), _POLL_AGAIN_SECONDS
            self.mark_due([row["subscription_id"] for row in rows])
            await asyncio.sleep(rest_seconds)
            await pause(asked, self._options.poll_seconds - rest_seconds)


def _holding(members: Collection[DeliveryMember]) -> Callable[[], bool] | None:
    """Return what tells whether nobody else may do the work of these members; None: nobody ever may."""
    if not members:
        return None
    if len(members) == 1:  # the usual case
        [member] = members
        return member.holds
    return lambda: all(member.holds() for member in members)
