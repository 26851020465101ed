"""Schedule: decides how many deliveries to claim for each subscription, and which claim starts next.

It is pure: time is a parameter.

::

    mark_due, alarms -> due --wanted--> (claim.py) --admit--> waiting --start--> (attempt.py) --finish--> settled
                         ^                                       |
                         '------------- (release) <-- returned --'

One statement claims deliveries of several subscriptions. The number for each depends on its last attempt:

* A subscription that succeeded fast may have many claims that wait for a slot.
* A subscription whose last attempt did not succeed is unproven. All unproven subscriptions together get no more claims
  than there are slots for them. They have a queue of their own, so that a thousand dead callbacks neither fill the
  memory nor delay working callbacks.

A waiting claim is returned when its lease has become too short for a whole attempt. It is also returned when
its subscription is paused, has ended, or is no longer fast. The worker releases returned claims; the attempt does not
count.

These properties hold at any time (tests/webhooks/test_schedule.py):

* limits: attempts never exceed the slots of the worker, the host and the subscription. Claims and their bytes never
  exceed their limits.
* lanes: one claim of a lane is in flight at a time. Claims of a lane start in the order of their events.
* work conserving: if a claim may start, :meth:`Schedule.start` finds it. If a due delivery fits,
  :meth:`Schedule.wanted` asks for it.
* no starvation: subscriptions and hosts take turns. A claim that cannot start has no place in a queue.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from webhooks.claim import Claim
from webhooks.outcome import Outcome
from webhooks.paused_subscriptions import PausedSubscriptions
from webhooks.result import Result
from webhooks.scheduled_subscription import ScheduledSubscription
from webhooks.slots import Slots
from webhooks.worker_options import WorkerOptions

__all__ = ["Dispatch", "Schedule"]

_ALARM_SECONDS_MAX = 60.0
"""Retries that are due later are found by the poll."""
_REMEMBERED_MAX = 100_000
_TOO_LARGE = 413


class Dispatch(NamedTuple):
    """The claims that one request sends, its time limit in seconds, and the slot and the lanes that it uses.

    ``latest_at``: the monotonic time from which the lease of a claim is too short for the whole request.
    """

    claims: Sequence[Claim]
    deadline_seconds: float
    latest_at: float
    host: str
    was_proven: bool
    lanes: Sequence[tuple[int, str | None]]

    def is_too_large(self, outcome: Outcome) -> bool:
        """Return whether the receiver refused the batch for its size; its events are sent again in smaller batches."""
        return outcome.status == _TOO_LARGE and len(self.claims) > 1


class _HeldEvents:
    """Events of waiting claims and claims in flight. An event that several claims share counts once."""

    def __init__(self) -> None:
        self._claims: dict[int, int] = {}
        self.payload_bytes = 0

    def fitting(self, bytes_max: int) -> int:
        """Return how many more events of the held events' mean size fit into ``bytes_max``; one if any byte is free."""
        free = bytes_max - self.payload_bytes
        mean = self.payload_bytes // max(len(self._claims), 1)
        return max(free // max(mean, 1), 1) if free > 0 else 0

    def add(self, claim: Claim) -> None:
        claims = self._claims.get(claim.event.id, 0)
        self._claims[claim.event.id] = claims + 1
        if not claims:
            self.payload_bytes += claim.event.size_bytes

    def drop(self, claim: Claim) -> None:
        claims = self._claims.pop(claim.event.id) - 1
        if claims:
            self._claims[claim.event.id] = claims
        else:
            self.payload_bytes -= claim.event.size_bytes


class Schedule:
    """The schedule of one worker. All times are of one monotonic clock."""

    def __init__(self, options: WorkerOptions, remembered_max: int = _REMEMBERED_MAX) -> None:
        self._options = options
        self._remembered_max = remembered_max
        self._subscriptions: dict[int, ScheduledSubscription] = {}
        # Subscriptions that may claim, as two queues: unproven, proven.
        self._due: tuple[OrderedDict[int, ScheduledSubscription], OrderedDict[int, ScheduledSubscription]] = (
            OrderedDict(), OrderedDict(),
        )  # fmt: skip
        self._alarms: list[tuple[float, int]] = []
        self._holding: dict[int, ScheduledSubscription] = {}
        self._waiting = 0
        self._held = _HeldEvents()
        self._busy: set[tuple[int, str | None]] = set()
        self._slots = Slots(options.slots)
        self.paused = PausedSubscriptions(options.breaker)
        self._returned: list[Claim] = []

    @property
    def waiting(self) -> int:
        """Return the number of claims without a slot."""
        return self._waiting

    @property
    def in_flight(self) -> int:
        """Return the number of requests in flight."""
        return self._slots.used

    @property
    def payload_bytes(self) -> int:
        """Return the size of all events that claims hold, in bytes, with their headers."""
        return self._held.payload_bytes

    @property
    def has_returned(self) -> bool:
        """Return whether there are claims to release."""
        return bool(self._returned)

    @property
    def is_half_empty(self) -> bool:
        """Return whether half of ``claim_max`` is free; a smaller batch is not worth a statement."""
        return self._waiting <= self._options.claim_max // 2

    @property
    def may_claim(self) -> bool:
        """Return whether there is room for a batch, and something to look at: what waits may have become too late."""
        return self.is_half_empty and bool(self._waiting or self._due[True] or self._due[False])

    # --- what is due --------------------------------------------------------------------------------------------

    def mark_due(self, subscriptions: Iterable[int]) -> None:
        """Note that these subscriptions have due deliveries. A subscription that is marked again keeps its turn."""
        for id_ in subscriptions:
            subscription = self._subscription(id_)
            if not subscription.is_due:
                subscription.is_due = True
                self._place(subscription)

    def mark_due_at(self, id_: int, at: float, now: float) -> None:
        """Mark the subscription due at that time. Ignore times more than a minute away: the poll finds them."""
        if at <= now + _ALARM_SECONDS_MAX:
            heapq.heappush(self._alarms, (at, id_))

    def hold_back_until(self, id_: int, at: float, now: float) -> None:
        """Mark the subscription due once, at the time when its throttle lets it claim again."""
        subscription = self._subscription(id_)
        if at <= now + _ALARM_SECONDS_MAX and not now < subscription.asks_at <= at:
            subscription.asks_at = at
            self.mark_due_at(id_, at, now)

    def advance(self, now: float) -> set[int]:
        """Mark subscriptions due whose time has come. End pauses whose results are stored; return their subscriptions.

        Call it only while no claim is running: a claim that began earlier does not see the stored results.
        """
        while self._alarms and self._alarms[0][0] <= now:
            self.mark_due((heapq.heappop(self._alarms)[1],))
        ended = self.paused.end_recorded()
        for id_ in ended:
            self._place(self._subscription(id_))
        return ended

    def next_at(self) -> float | None:
        """Return the next time at which a subscription becomes due, or None."""
        return self._alarms[0][0] if self._alarms else None

    # --- claims -------------------------------------------------------------------------------------------------

    def wanted(self) -> dict[int, int]:
        """Return the number of deliveries to claim, by subscription. These are not due until they are marked again."""
        options = self._options
        room = min(options.claim_max - self._waiting, self._held.fitting(options.payload_bytes_max))
        if room <= 0:
            return {}
        unproven_room = self._slots.unproven_free - sum(
            len(one.waiting) for one in self._holding.values() if not one.is_proven
        )
        due = len(self._due[True]) + (len(self._due[False]) if unproven_room > 0 else 0)
        # While more than half waits, only subscriptions without a waiting claim ask, for a few: a receiver that hangs
        # with many claims delays no other.
        is_open = self.is_half_empty
        share = room // max(min(due, options.claim_subscriptions_max), 1) if is_open else 0
        wanted: dict[int, int] = {}
        passed: list[ScheduledSubscription] = []
        is_proven = True
        while room > 0 and len(wanted) < options.claim_subscriptions_max:
            subscription = self._next_due(is_proven=is_proven, unproven=unproven_room > 0)
            if subscription is None:
                break
            is_proven = not subscription.is_proven
            if subscription.waiting and not is_open:
                passed.append(subscription)
                continue
            most = room if subscription.is_proven else min(room, unproven_room)
            if count := self._ask(subscription, share, most):
                wanted[subscription.id] = count
                room -= count
                unproven_room -= 0 if subscription.is_proven else count
        for subscription in passed:
            self._place(subscription)
        return wanted

    def admit(self, claims: Iterable[Claim], paused: Iterable[int] = ()) -> None:
        """Queue claims behind earlier claims of their subscriptions. Claims of paused subscriptions are returned.

        ``paused``: subscriptions that were paused when the deliveries were claimed.
        """
        changed, were_paused = {}, frozenset(paused)
        for claim in claims:
            subscription = self._subscription(claim.subscriber.id)
            subscription.batch_max = claim.subscriber.batch_max
            subscription.waiting.append(claim)
            self._waiting += 1
            self._held.add(claim)
            changed[subscription.id] = subscription
        for subscription in changed.values():
            if subscription.id in self.paused or subscription.id in were_paused:
                self._return_waiting(subscription)
            self._place(subscription)

    def answered(self, asked: Mapping[int, int], found: Mapping[int, int]) -> None:
        """Mark subscriptions due that got as many claims as they asked for: there may be more."""
        self.mark_due(id_ for id_, most in asked.items() if found.get(id_, 0) >= most)

    def take_returned(self, now: float) -> list[Claim]:
        """Return the claims that the worker must release, and forget them."""
        for subscription in list(self._holding.values()):
            if self._is_too_late(subscription.waiting[0], now):
                self._return_late(subscription, now)
        returned, self._returned = self._returned, []
        for claim in returned:
            self._held.drop(claim)
        return returned

    def return_all(self) -> None:
        """Return all waiting claims, because the worker stops."""
        for subscription in list(self._holding.values()):
            self._return_waiting(subscription)
            self._place(subscription)

    # --- attempts -----------------------------------------------------------------------------------------------

    def start(self, now: float) -> Dispatch | None:
        """Start the next request and return it; return None if no waiting claim may start now."""
        while (subscription := self._slots.next()) is not None:
            place = self._startable(subscription)
            assert place is not None, "a subscription that waits for a slot has a claim that may start"
            claim = subscription.waiting[place]
            if self._is_too_late(claim, now):
                self._returned.append(subscription.waiting.pop(place))
                self._waiting -= 1
                self._place(subscription)
                continue
            seconds = self._deadline_seconds(claim)
            end = subscription.batch_end(place, now + seconds, self._busy)
            claims = subscription.waiting[place:end]
            del subscription.waiting[place:end]
            self._waiting -= len(claims)
            lanes = [lane for one in claims if (lane := one.lane) is not None]
            self._busy.update(lanes)
            subscription.in_flight += 1
            host, is_proven = claim.host, subscription.is_proven
            self._slots.take(host, is_proven=is_proven)
            latest_at = min([one.leased_until for one in claims]) - seconds
            dispatch = Dispatch(claims, seconds, latest_at, host, is_proven, lanes)
            self._place(subscription)
            return dispatch
        return None

    def finish(self, dispatch: Dispatch, outcome: Outcome | None) -> None:
        """Note that a request has ended; ``outcome`` None: it was cancelled. Return the claims of a too large batch."""
        subscription = self._free(dispatch)
        was_fast = subscription.is_fast
        subscription.learn(outcome, self._options.slots.per_subscription)
        if was_fast and not subscription.is_fast:
            self._return_waiting(subscription)
        if outcome is not None and dispatch.is_too_large(outcome):
            subscription.halve_batches(dispatch.claims[0].subscriber.version, len(dispatch.claims))
            self._returned += dispatch.claims
        else:
            for claim in dispatch.claims:
                self._held.drop(claim)
        self._place(subscription)

    def give_up(self, dispatch: Dispatch) -> None:
        """Return the claims of a request that was not sent, because it has become too late."""
        subscription = self._free(dispatch)
        self._returned += dispatch.claims
        self._place(subscription)

    # --- results ------------------------------------------------------------------------------------------------

    def note_result(self, result: Result) -> None:
        """Note that a result goes to the settlement. Pause its subscription until the result is stored, if needed."""
        if self.paused.begin(result):
            subscription = self._subscription(result.subscription_id)
            self._return_waiting(subscription)
            self._place(subscription)

    def settled(self, result: Result, now: float) -> None:
        """Note that a result is stored. Plan its retry, or mark its subscription due for the next event of the lane."""
        self.paused.settled(result)
        id_, decision = result.subscription_id, result.decision
        if result.breaker == "trip":  # the waiting claims were made before the breaker opened
            subscription = self._subscription(id_)
            self._return_waiting(subscription)
            self._place(subscription)
        if decision.action == "retry":
            self.mark_due_at(id_, now + decision.retry_seconds, now)
        elif result.is_in_lane or result.breaker is not None:
            # The next event of the lane has become its head, or a breaker has closed.
            self.mark_due((id_,))

    # --- parts --------------------------------------------------------------------------------------------------

    def _subscription(self, id_: int) -> ScheduledSubscription:
        found = self._subscriptions.get(id_)
        if found is None:
            if len(self._subscriptions) >= self._remembered_max:
                self._forget_idle()
            found = self._subscriptions[id_] = ScheduledSubscription(id_, self._options.slots.per_subscription)
        return found

    def _forget_idle(self) -> None:
        """Forget the state of idle subscriptions. Keep active ones, regardless of their number."""
        self._subscriptions = {
            id_: one for id_, one in self._subscriptions.items() if not one.is_idle or id_ in self.paused
        }
        self._remembered_max = max(self._remembered_max, 2 * len(self._subscriptions))

    def _place(self, subscription: ScheduledSubscription) -> None:
        """Update the queues that hold the subscription. Call it after each change of the subscription."""
        id_, is_paused = subscription.id, subscription.id in self.paused
        if subscription.is_due:  # else it is in no queue for claims
            self._due[not subscription.is_proven].pop(id_, None)
            if subscription.may_claim and not is_paused:
                self._due[subscription.is_proven].setdefault(id_, subscription)
            else:
                self._due[subscription.is_proven].pop(id_, None)
        if subscription.waiting:
            self._holding[id_] = subscription
        else:
            self._holding.pop(id_, None)
        is_full = subscription.in_flight >= subscription.window
        place = None if is_paused or is_full else self._startable(subscription)
        self._slots.place(subscription, None if place is None else subscription.waiting[place].host)

    def _free(self, dispatch: Dispatch) -> ScheduledSubscription:
        """Free the slot and the lanes of a request that has ended; return its subscription."""
        subscription = self._subscription(dispatch.claims[0].subscriber.id)
        self._slots.give(dispatch.host, was_proven=dispatch.was_proven)
        self._busy.difference_update(dispatch.lanes)
        subscription.in_flight -= 1
        return subscription

    def _startable(self, subscription: ScheduledSubscription) -> int | None:
        """Return the index of the first waiting claim whose lane is free, or None."""
        for place, claim in enumerate(subscription.waiting):
            if not claim.is_in_lane or claim.lane not in self._busy:
                return place
        return None

    def _next_due(self, *, is_proven: bool, unproven: bool) -> ScheduledSubscription | None:
        """Remove and return the first subscription of this queue, else of the other one."""
        for line in (is_proven, not is_proven):
            if self._due[line] and (line or unproven):
                return self._due[line].popitem(last=False)[1]
        return None

    def _ask(self, subscription: ScheduledSubscription, share: int, most: int) -> int:
        """Return the number of deliveries to claim; 0 if the claims that wait fill the subscription's share."""
        untried = max(self._options.slots.per_subscription // 4, subscription.batch_max, 1)
        ahead = max(share, untried) if subscription.is_fast else untried
        count = min(ahead - len(subscription.waiting), most)
        if count <= 0:
            subscription.ahead = ahead
            return 0
        subscription.is_due = False
        subscription.ahead = len(subscription.waiting) + count
        return count

    def _deadline_seconds(self, claim: Claim) -> float:
        return claim.subscriber.timeout_seconds or self._options.timeout_seconds

    def _is_too_late(self, claim: Claim, now: float) -> bool:
        """Return whether the claim's lease is too short for a whole attempt."""
        return now + self._deadline_seconds(claim) > claim.leased_until

    def _return_late(self, subscription: ScheduledSubscription, now: float) -> None:
        late = [claim for claim in subscription.waiting if self._is_too_late(claim, now)]
        subscription.waiting = [claim for claim in subscription.waiting if not self._is_too_late(claim, now)]
        self._waiting -= len(late)
        self._returned += late
        self._place(subscription)

    def _return_waiting(self, subscription: ScheduledSubscription) -> None:
        self._returned += subscription.waiting
        self._waiting -= len(subscription.waiting)
        subscription.waiting.clear()
