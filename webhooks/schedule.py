"""Schedule: which subscription may claim how many deliveries, and which claim starts next. Pure: time is a parameter.

::

    mark_due, alarms -> due --wanted--> (claim.py) --admit--> waiting --start--> (attempt.py) --finish--> settled
                         ^                                       |
                         '------------- (release) <-- returned --'

A claim takes a batch for several subscriptions at once, each no more than it has shown it can take: a subscription that
answers fast is read ahead; those that have not lately succeeded, all together, get no more than there are slots for
them. They are due in a line of their own, so that a thousand dead callbacks neither fill the memory nor are looked at
before the living.

A claim that waits and cannot be sent any more is returned, to be released uncounted: when its lease has become too
short for a whole attempt (RR-10), when its subscription is paused, has ended, or is no longer fast.

What holds at any time (tests/webhooks/test_schedule.py):

* limits: no more attempts at once than the slots of the worker, the host and the subscription; no more claims and bytes
  than the memory is given;
* lanes: of a key in an ordered subscription one claim is in flight, and they start in the order of their events;
* work conserving: while a claim may start, :meth:`Schedule.start` finds it; while there is room for what is due,
  :meth:`Schedule.wanted` asks for it;
* no starvation: subscriptions and hosts take turns, and what can never start holds no place in a line.
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
"""Retries that are further away are left to the poll."""
_REMEMBERED_MAX = 100_000
_TOO_LARGE = 413


class Dispatch(NamedTuple):
    """The claims that go in one request, how long it may take, and the slot that it has."""

    claims: Sequence[Claim]
    deadline_seconds: float
    host: str
    was_proven: bool

    def is_too_large(self, outcome: Outcome) -> bool:
        """Whether the answer says something of the batch and nothing of its events: they go again, in smaller ones."""
        return outcome.status == _TOO_LARGE and len(self.claims) > 1


class _HeldEvents:
    """Events that a claim holds, waiting or in flight; those that several claims share count once."""

    def __init__(self) -> None:
        self._claims: dict[int, int] = {}
        self.payload_bytes = 0

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
        # Subscriptions that may claim: unproven, proven.
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
        """Claims without a slot."""
        return self._waiting

    @property
    def in_flight(self) -> int:
        """Requests in flight."""
        return self._slots.used

    @property
    def payload_bytes(self) -> int:
        """Of all events that a claim holds, with their headers."""
        return self._held.payload_bytes

    @property
    def has_returned(self) -> bool:
        """Whether there are claims to release."""
        return bool(self._returned)

    @property
    def is_half_empty(self) -> bool:
        """Whether there is room for a claim that is worth its statement."""
        return self._waiting <= self._options.claim_max // 2

    # --- what is due --------------------------------------------------------------------------------------------

    def mark_due(self, subscriptions: Iterable[int]) -> None:
        """These have something to deliver now. A subscription that is marked again keeps its place."""
        for id_ in subscriptions:
            subscription = self._subscription(id_)
            if not subscription.is_due:
                subscription.is_due = True
                self._place(subscription)

    def mark_due_at(self, id_: int, at: float, now: float) -> None:
        """It has something to deliver then. The poll finds what is further away than a minute."""
        if at <= now + _ALARM_SECONDS_MAX:
            heapq.heappush(self._alarms, (at, id_))

    def hold_back_until(self, id_: int, at: float, now: float) -> None:
        """A throttle holds it back until then: ask again at that time, once."""
        subscription = self._subscription(id_)
        if at <= now + _ALARM_SECONDS_MAX and not now < subscription.asks_at <= at:
            subscription.asks_at = at
            self.mark_due_at(id_, at, now)

    def advance(self, now: float) -> set[int]:
        """Mark due what has come due by time; end the pauses that are stored, and return their subscriptions.

        Call it only with no claim under way: a claim that was asked for before a pause was stored does not see it.
        """
        while self._alarms and self._alarms[0][0] <= now:
            self.mark_due((heapq.heappop(self._alarms)[1],))
        ended = self.paused.end_recorded()
        for id_ in ended:
            self._place(self._subscription(id_))
        return ended

    def next_at(self) -> float | None:
        """When something comes due by itself; None: nothing does."""
        return self._alarms[0][0] if self._alarms else None

    # --- claims -------------------------------------------------------------------------------------------------

    def wanted(self) -> dict[int, int]:
        """Return how many deliveries to claim for which subscriptions; these are not due until marked again."""
        options = self._options
        room = options.claim_max - self._waiting
        if not self.is_half_empty or self.payload_bytes >= options.payload_bytes_max:
            return {}
        unproven_room = self._slots.unproven_free - sum(
            len(one.waiting) for one in self._holding.values() if not one.is_proven
        )
        due = len(self._due[True]) + (len(self._due[False]) if unproven_room > 0 else 0)
        share = room // max(min(due, options.claim_subscriptions_max), 1)
        wanted: dict[int, int] = {}
        is_proven = True
        while room > 0 and len(wanted) < options.claim_subscriptions_max:
            subscription = self._next_due(is_proven=is_proven, unproven=unproven_room > 0)
            if subscription is None:
                break
            is_proven = not subscription.is_proven
            most = room if subscription.is_proven else min(room, unproven_room)
            if count := self._ask(subscription, share, most):
                wanted[subscription.id] = count
                room -= count
                unproven_room -= 0 if subscription.is_proven else count
        return wanted

    def admit(self, claims: Iterable[Claim], paused: Iterable[int] = ()) -> None:
        """Queue claims behind the others of their subscriptions; return those of subscriptions that are paused.

        ``paused``: subscriptions that were paused when the claims were made, beside those that are paused now.
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
        """Ask again for subscriptions that got as many as they asked for: there may be more."""
        self.mark_due(id_ for id_, most in asked.items() if found.get(id_, 0) >= most)

    def take_returned(self, now: float) -> list[Claim]:
        """Hand over the claims that have to be released."""
        for subscription in list(self._holding.values()):
            if self._is_too_late(subscription.waiting[0], now):
                self._return_late(subscription, now)
        returned, self._returned = self._returned, []
        for claim in returned:
            self._held.drop(claim)
        return returned

    def return_all(self) -> None:
        """Return everything that waits, because the worker stops."""
        for subscription in list(self._holding.values()):
            self._return_waiting(subscription)
            self._place(subscription)

    # --- attempts -----------------------------------------------------------------------------------------------

    def start(self, now: float) -> Dispatch | None:
        """Start the next request; None: nothing that waits may start now."""
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
            self._busy.update(one.lane for one in claims if one.lane is not None)
            subscription.in_flight += 1
            self._slots.take(claim.host, is_proven=subscription.is_proven)
            dispatch = Dispatch(claims, seconds, claim.host, subscription.is_proven)
            self._place(subscription)
            return dispatch
        return None

    def finish(self, dispatch: Dispatch, outcome: Outcome | None) -> None:
        """A request has ended; None: it was cut off. The claims of a batch that was too large are returned."""
        subscriber = dispatch.claims[0].subscriber
        subscription = self._subscription(subscriber.id)
        self._slots.give(dispatch.host, was_proven=dispatch.was_proven)
        self._busy.difference_update(one.lane for one in dispatch.claims if one.lane is not None)
        subscription.in_flight -= 1
        was_fast = subscription.is_fast
        subscription.learn(outcome, self._options.slots.per_subscription)
        if was_fast and not subscription.is_fast:
            self._return_waiting(subscription)
        if outcome is not None and dispatch.is_too_large(outcome):
            subscription.halve_batches(subscriber.version, len(dispatch.claims))
            self._returned += dispatch.claims
        else:
            for claim in dispatch.claims:
                self._held.drop(claim)
        self._place(subscription)

    # --- results ------------------------------------------------------------------------------------------------

    def note_result(self, result: Result) -> None:
        """A result goes to the settlement: its subscription is paused until it is stored, if it has to be."""
        if self.paused.begin(result):
            subscription = self._subscription(result.subscription_id)
            self._return_waiting(subscription)
            self._place(subscription)

    def settled(self, result: Result, now: float) -> None:
        """A result is stored: plan its retry, or look for what waited behind it."""
        self.paused.settled(result)
        id_, decision = result.subscription_id, result.decision
        if result.breaker == "trip":  # what waits here has not passed the open breaker
            subscription = self._subscription(id_)
            self._return_waiting(subscription)
            self._place(subscription)
        if decision.action == "retry":
            self.mark_due_at(id_, now + decision.retry_seconds, now)
        elif result.is_in_lane or result.breaker is not None:
            # The next event of the lane has become its head just now, or a breaker has closed.
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
        """What idle subscriptions have shown is learned again; those that are active stay, however many."""
        self._subscriptions = {
            id_: one for id_, one in self._subscriptions.items() if not one.is_idle or id_ in self.paused
        }
        self._remembered_max = max(self._remembered_max, 2 * len(self._subscriptions))

    def _place(self, subscription: ScheduledSubscription) -> None:
        """Put it into the lines where it belongs, and out of the others, after any change."""
        id_, is_paused = subscription.id, subscription.id in self.paused
        if subscription.is_due:  # else it is in no line for claims
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

    def _startable(self, subscription: ScheduledSubscription) -> int | None:
        """The first claim whose lane is free."""
        for place, claim in enumerate(subscription.waiting):
            if claim.lane is None or claim.lane not in self._busy:
                return place
        return None

    def _next_due(self, *, is_proven: bool, unproven: bool) -> ScheduledSubscription | None:
        """Take the first subscription out of this line, or out of the other one."""
        for line in (is_proven, not is_proven):
            if self._due[line] and (line or unproven):
                return self._due[line].popitem(last=False)[1]
        return None

    def _ask(self, subscription: ScheduledSubscription, share: int, most: int) -> int:
        """How many to claim for it; 0: it has its share already, and is due again when half of that has started."""
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
        """Whether its lease is too short for a whole attempt."""
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
