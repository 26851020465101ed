"""A model of what surrounds a schedule: the table of deliveries, receivers and a clock, in memory."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache

from egress.guard import GuardPolicy
from egress.url import parse_target
from tests.webhooks.test_message import event, subscriber
from webhooks.breaker import BreakerOptions
from webhooks.claim import Claim
from webhooks.outcome import Outcome
from webhooks.result import Result
from webhooks.retry import Decision
from webhooks.schedule import Dispatch, Schedule
from webhooks.subscriber import Subscriber
from webhooks.worker_options import SlotOptions, WorkerOptions

AT = datetime(2026, 1, 2, tzinfo=UTC)
DELIVERED = Outcome("delivered", 204, total_seconds=0.01)
SLOW = Outcome("delivered", 204, total_seconds=1.0)
FAILED = Outcome("server_error", 500, total_seconds=0.01)
THROTTLED = Outcome("throttled", 429, total_seconds=0.01)
TOO_LARGE = Outcome("client_error", 413, total_seconds=0.01)
SLOTS = SlotOptions(total=8, per_subscription=4, per_host=5)


def options(slots: SlotOptions = SLOTS, claim_max: int = 12, claim_subscriptions_max: int = 3) -> WorkerOptions:
    """Of a worker without a breaker; a claim may wait for five seconds."""
    return WorkerOptions(
        "w", "https://hub.example", (), timeout_seconds=10.0, lease_margin_seconds=5.0, claim_max=claim_max,
        claim_subscriptions_max=claim_subscriptions_max, slots=slots, breaker=BreakerOptions(failure_share=0),
    )  # fmt: skip


@cache
def receiver(id_: int, host: str, batch_max: int = 1, version: int = 1) -> Subscriber:
    """A subscription at a host."""
    target = parse_target(f"https://{host}.example/", GuardPolicy())
    return subscriber(
        id=id_, target=target, batch_max=batch_max, version=version, format="batch" if batch_max > 1 else "as_published"
    )


def claim(number: int, to: Subscriber, key: str | None = None, leased_until: float = 15.0, **more: object) -> Claim:
    """Of the event with this number; a key makes it one of a lane."""
    return Claim(
        event(id=number, key=key), to, 1, number, leased_until=leased_until, made_at=0.0, is_in_lane=key is not None,
        **more,  # type: ignore[arg-type]
    )  # fmt: skip


@dataclass
class Row:
    """A row of the table of deliveries."""

    number: int
    subscription: int
    lane: str | None
    due_at: float
    fence: int | None = None


@dataclass
class Model:
    """A worker with its schedule, without I/O; some of the ``receivers`` are ``ordered``."""

    receivers: dict[int, Subscriber]
    ordered: frozenset[int] = frozenset()
    given: WorkerOptions = field(default_factory=options)
    now: float = 0.0

    def __post_init__(self) -> None:
        self.schedule = Schedule(self.given)
        self.rows: dict[int, Row] = {}
        self.paused_until: dict[int, float] = {}
        self.resting: set[int] = set()
        self.waiting: dict[int, Claim] = {}
        self.flying: list[Dispatch] = []
        self.unsettled: list[Result] = []
        self.proven: dict[int, bool] = {}
        self.windows: dict[int, int] = {}
        self.broken: list[str] = []
        self.sent: list[tuple[int, str | None, int]] = []
        self._numbers = iter(range(1, 1_000_000))

    # --- what happens around the worker ---

    def publish(self, id_: int, key: str | None = None) -> None:
        """A delivery is made, and its subscription is marked due."""
        number = next(self._numbers)
        self.rows[number] = Row(number, id_, key if id_ in self.ordered else None, self.now)
        self.schedule.mark_due([id_])

    def end(self, place: int, outcome: Outcome) -> Dispatch:
        """A request in flight ends; its results wait for :meth:`settle`."""
        dispatch = self.flying.pop(place % len(self.flying))
        subscriber = dispatch.claims[0].subscriber
        if not dispatch.is_too_large(outcome):
            for claim in dispatch.claims:
                result = Result(
                    claim.event.id, subscriber.id, claim.fence, 1, AT, outcome, decision_after(outcome),
                    failed=outcome.kind != "delivered", is_in_lane=claim.is_in_lane,
                )  # fmt: skip
                self.schedule.note_result(result)
                self.unsettled.append(result)
                if result.decision.pause_seconds is not None:
                    self.resting.add(subscriber.id)
        self.schedule.finish(dispatch, outcome)
        self._learn(subscriber.id, outcome)
        return dispatch

    def settle(self) -> None:
        """All results that wait are stored."""
        results, self.unsettled = self.unsettled, []
        for result in results:
            row = self.rows.get(result.event_id)
            if result.decision.pause_seconds is not None:
                self.paused_until[result.subscription_id] = self.now + result.decision.pause_seconds
            if row is not None and row.fence == result.fence:
                if result.decision.action == "retry":
                    row.due_at, row.fence = self.now + result.decision.retry_seconds, None
                else:
                    del self.rows[row.number]
        for result in results:
            self.schedule.settled(result, self.now)

    def pass_time(self, seconds: float) -> None:
        """Time goes by, and the poll finds what has come due."""
        self.now += seconds
        self.schedule.mark_due({row.subscription for row in self.rows.values() if self._is_due(row)})

    # --- the worker ---

    def work(self) -> None:
        """Do what a worker does until it has to wait."""
        while True:
            self.schedule.advance(self.now)
            self.resting &= {result.subscription_id for result in self.unsettled}
            self._start()
            self._give_back()
            wanted = self.schedule.wanted()
            if not wanted:
                return
            if sum(most for id_, most in wanted.items() if not self.proven.get(id_)) > max(self._unproven_room(), 0):
                self.broken.append("claims of the unproven")
            found = self._claim(wanted)
            self.schedule.admit(found)
            self.schedule.answered(wanted, Counter(one.subscriber.id for one in found))

    def _start(self) -> None:
        while (dispatch := self.schedule.start(self.now)) is not None:
            id_ = dispatch.claims[0].subscriber.id
            if self.flights(lambda one, id_=id_: one.claims[0].subscriber.id == id_) >= self.window(id_):
                self.broken.append(f"window of {id_}")
            for claim in dispatch.claims:
                if self.now + self.given.timeout_seconds > claim.leased_until:
                    self.broken.append(f"lease of {claim.event.id}")
                del self.waiting[claim.fence]
                self.sent.append((claim.subscriber.id, claim.lane[1] if claim.lane else None, claim.event.id))
            self.flying.append(dispatch)

    def _give_back(self) -> None:
        for claim in self.schedule.take_returned(self.now):
            self.waiting.pop(claim.fence, None)
            row = self.rows.get(claim.event.id)
            if row is not None and row.fence == claim.fence:
                row.due_at, row.fence = self.now, None
            self.schedule.mark_due([claim.subscriber.id])

    def _claim(self, wanted: dict[int, int]) -> list[Claim]:
        found = []
        for id_, most in wanted.items():
            rows = [row for row in self.rows.values() if row.subscription == id_ and self._is_due(row)]
            for row in sorted(rows, key=lambda row: (row.due_at, row.number))[:most]:
                row.due_at, row.fence = self.now + 15.0, next(self._numbers)
                found.append(
                    claim(row.number, self.receivers[id_], row.lane, row.due_at)._replace(fence=row.fence)
                )  # fmt: skip
        self.waiting.update({one.fence: one for one in found})
        return sorted(found, key=lambda one: one.event.id)

    def _is_due(self, row: Row) -> bool:
        is_head = row.lane is None or not any(
            other.subscription == row.subscription and other.lane == row.lane and other.number < row.number
            for other in self.rows.values()
        )
        return is_head and row.due_at <= self.now and self.paused_until.get(row.subscription, 0.0) <= self.now

    def _learn(self, id_: int, outcome: Outcome) -> None:
        window = self.window(id_)
        self.proven[id_] = outcome.kind == "delivered"
        if outcome.kind in ("server_error", "throttled"):
            self.windows[id_] = max(window // 2, 1)
        elif outcome.kind == "delivered":
            self.windows[id_] = min(window + 1, self.given.slots.per_subscription)

    # --- what has to hold ---

    def window(self, id_: int) -> int:
        return self.windows.get(id_, self.given.slots.per_subscription)

    def flights(self, chosen: Callable[[Dispatch], bool] = lambda _: True) -> int:
        return sum(map(chosen, self.flying))

    def broken_limits(self) -> Iterator[str]:
        slots = self.given.slots
        yield from self.broken
        if self.flights() > slots.total:
            yield "in all"
        if self.flights(lambda one: not one.was_proven) > slots.total // 2:
            yield "unproven"
        for host in {one.host for one in self.flying}:
            if self.flights(lambda one, host=host: one.host == host) > slots.per_host:
                yield f"at {host}"
            if self.flights(lambda one, host=host: one.host == host and not one.was_proven) > slots.per_host // 2:
                yield f"unproven at {host}"
        for id_ in self.receivers:
            if self.flights(lambda one, id_=id_: one.claims[0].subscriber.id == id_) > slots.per_subscription:
                yield f"of {id_}"
        if len(self.waiting) > self.given.claim_max:
            yield "claims"

    def lanes_twice(self) -> list[object]:
        lanes = Counter(claim.lane for one in self.flying for claim in one.claims if claim.lane is not None)
        return [lane for lane, count in lanes.items() if count > 1]

    def unordered_lanes(self) -> list[object]:
        """Lanes in which an event was sent for the first time after a later one."""
        first: dict[object, list[int]] = {}
        for id_, key, number in self.sent:
            if key is not None and number not in first.setdefault((id_, key), []):
                first[id_, key].append(number)
        return [lane for lane, numbers in first.items() if numbers != sorted(numbers)]

    def forgotten_starts(self) -> list[int]:
        """Claims that wait although they may start."""
        return [one.event.id for one in self.waiting.values() if self._may_start(one)]

    def forgotten_claims(self) -> set[int]:
        """Subscriptions with something due and nothing waiting, while there is room for them."""
        if len(self.waiting) > self.given.claim_max // 2:
            return set()
        waiting = {one.subscriber.id for one in self.waiting.values()}
        unproven_room = self._unproven_room()
        return {
            row.subscription
            for row in self.rows.values()
            if self._is_due(row)
            and row.subscription not in waiting | self.resting
            and (self.proven.get(row.subscription) or unproven_room > 0)
        }

    def _unproven_room(self) -> int:
        room = self.given.slots.total // 2 - self.flights(lambda one: not one.was_proven)
        return room - sum(not self.proven.get(one.subscriber.id) for one in self.waiting.values())

    def _may_start(self, waits: Claim) -> bool:
        id_, slots = waits.subscriber.id, self.given.slots
        lanes = {claim.lane for one in self.flying for claim in one.claims}
        return (
            id_ not in self.resting
            and self.flights() < slots.total
            and self.flights(lambda one: one.claims[0].subscriber.id == id_) < self.window(id_)
            and self.flights(lambda one: one.host == waits.host) < slots.per_host
            and (waits.lane is None or waits.lane not in lanes)
            and self.now + self.given.timeout_seconds <= waits.leased_until
            and (self.proven.get(id_, False) or self._has_unproven_room(waits.host))
        )

    def _has_unproven_room(self, host: str) -> bool:
        slots = self.given.slots
        unproven = [one for one in self.flying if not one.was_proven]
        return len(unproven) < slots.total // 2 and sum(one.host == host for one in unproven) < slots.per_host // 2


def decision_after(outcome: Outcome) -> Decision:
    """A failure is tried again after five seconds; a 429 pauses the subscription for twenty."""
    if outcome.kind == "delivered":
        return Decision("delivered")
    if outcome.status == 413:
        return Decision("dead", dead_kind="declined")
    return Decision("retry", 5.0, pause_seconds=20.0 if outcome is THROTTLED else None)
