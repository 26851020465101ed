"""Claim: a delivery that this worker holds under a lease, with its event and its subscriber.

The module also claims and releases deliveries in the database.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple, Protocol

import structlog

from db.pool import Database, Row
from event.event import Event
from webhooks.condition import DeadKind
from webhooks.contents import Contents
from webhooks.lifetime import ttl_seconds
from webhooks.outcome import Outcome
from webhooks.result import Result
from webhooks.retry import Decision
from webhooks.subscriber import Subscriber, Subscribers
from webhooks.worker_options import WorkerOptions

__all__ = ["Claim", "ClaimAnswer", "Claimer", "DeliveryMember", "claim_of"]

_log = structlog.get_logger(__name__)


class DeliveryMember(Protocol):
    """The membership of this process in those that deliver. When it ends, another process may take its claims over."""

    id: int

    def holds(self) -> bool:
        """Return whether nobody else may have taken over by now."""
        ...

    def begin(self, request: asyncio.Timeout) -> None:
        """Abort this request when the membership ends."""
        ...

    def finish(self, request: asyncio.Timeout) -> None:
        """Leave the request alone from now on."""
        ...


class Claim(NamedTuple):
    """A claimed delivery.

    ``position`` is the next attempt's place in the retry schedule, from 1; ``fence`` is the claim's token.
    ``leased_until``, ``planned_at`` and ``made_at`` are monotonic seconds. An attempt that is made early because new
    content came has ``planned_at``, the time at which the schedule continues. ``is_replay``: an operator asked to send
    the event again. ``is_in_lane``: the subscription keeps the order of the key. ``is_probe``: an open breaker lets
    this delivery pass. ``member``: another process may take the claim over when this membership ends; None: it is kept
    until its lease ends.
    """

    event: Event
    subscriber: Subscriber
    position: int
    fence: int
    leased_until: float
    made_at: float
    planned_at: float | None = None
    is_replay: bool = False
    is_in_lane: bool = False
    is_probe: bool = False
    member: DeliveryMember | None = None

    @property
    def host(self) -> str:
        """Return the host that the attempt connects to; it is empty if the URL may not be called."""
        target = self.subscriber.target
        return target.host if target is not None else ""

    @property
    def lane(self) -> tuple[int, str | None] | None:
        """Return subscription and key; one claim of each pair is in flight at a time. None if there is no order."""
        return (self.subscriber.id, self.event.key) if self.is_in_lane else None


def claim_of(row: Row, event: Event, subscriber: Subscriber, asked_at: float, member: DeliveryMember | None) -> Claim:
    """Return the claim in a row of ``delivery.claim``, that this member has made. ``asked_at`` is the monotonic time of
    the query. Nobody takes over what is in a lane, or what was tried before.
    """
    wait = row["planned_seconds"]
    return Claim(
        event,
        subscriber,
        row["schedule_position"],
        row["fence"],
        leased_until=asked_at + row["lease_seconds"],
        made_at=asked_at - row["age_seconds"],
        planned_at=None if wait is None else asked_at + wait,
        is_replay=row["is_replay"],
        is_in_lane=row["is_in_lane"],
        is_probe=row["is_probe"],
        member=None if row["is_in_lane"] or row["schedule_position"] > 1 else member,
    )


class ClaimAnswer(NamedTuple):
    """The result of a claim.

    ``claims`` can be sent; they are in the order of their events. ``unsent`` are results of deliveries that end without
    an attempt. ``found`` is the number of rows of each subscription. ``held_back`` holds the monotonic times until
    which throttles hold back subscriptions. The events of ``orphans`` no longer exist; ``surplus`` did not fit into
    memory.
    """

    claims: Sequence[Claim] = ()
    unsent: Sequence[Result] = ()
    found: Mapping[int, int] = Counter()
    held_back: Sequence[tuple[int, float]] = ()
    orphans: Sequence[Row] = ()
    surplus: Sequence[Row] = ()


class Claimer:
    """Claim deliveries for one worker, and release them. ``note`` gets the fences of its claims. ``member`` returns the
    membership for which they are made, if there is one.
    """

    def __init__(
        self, database: Database, subscribers: Subscribers, contents: Contents, options: WorkerOptions,
        note: Callable[[Collection[int]], None] = lambda _: None,
        member: Callable[[], DeliveryMember | None] = lambda: None,
    ) -> None:  # fmt: skip
        self._database = database
        self._subscribers = subscribers
        self._contents = contents
        self._options = options
        self._note = note
        self._member = member

    async def claim(self, wanted: Mapping[int, int], bytes_max: int) -> ClaimAnswer:
        """Claim up to ``wanted`` deliveries of each subscription, and read their contents, up to ``bytes_max``.

        Claims that do not pass the standby fence are released.
        """
        asked_at, member = time.monotonic(), self._member()
        answer = await self._database.fetch_fenced(
            "delivery.claim", list(wanted), list(wanted.values()), self._options.timeout_seconds,
            self._options.lease_margin_seconds, None if member is None else member.id, release=self._release_new,
        )  # fmt: skip
        held_back = [
            (row["subscription_id"], asked_at + row["wait_seconds"]) for row in answer if row["event_id"] is None
        ]
        claimed = [row for row in answer if row["event_id"] is not None]
        self._note({row["fence"] for row in claimed})
        return (await self.answer(claimed, asked_at, bytes_max, member))._replace(held_back=held_back)

    async def answer(
        self, claimed: Sequence[Row], asked_at: float, bytes_max: int, member: DeliveryMember | None
    ) -> ClaimAnswer:
        """Read the contents of deliveries that this worker has claimed, and sort them into a :class:`ClaimAnswer`."""
        if not claimed:
            return ClaimAnswer()
        rows = sorted(claimed, key=lambda row: row["event_id"])
        subscribers = await self._subscribers.get((row["subscription_id"], row["version"]) for row in rows)
        events, lost = await self._contents.get((row["event_id"] for row in rows), bytes_max)
        claims, unsent = [], []
        orphans: list[Row] = []
        surplus: list[Row] = []
        for row in rows:
            event, subscriber = events.get(row["event_id"]), subscribers[row["subscription_id"]]
            if row["is_held"] and subscriber.at_most_once:
                unsent.append(_lost_track(row))
            elif event is None:
                (orphans if row["event_id"] in lost else surplus).append(row)
            elif row["age_seconds"] > (ttl_seconds(event) or math.inf):
                unsent.append(_expired(row))
            else:
                claims.append(claim_of(row, event, subscriber, asked_at, member))
        found = Counter(row["subscription_id"] for row in rows)
        return ClaimAnswer(claims, unsent, found, orphans=orphans, surplus=surplus)

    async def dead_letter(self, orphans: Sequence[Row]) -> None:
        """End deliveries whose event no longer exists."""
        _log.error("events_lost", deliveries=len(orphans), first=orphans[0]["event_id"])
        await self._database.execute("delivery.dead_letter_orphans", *_columns(orphans), "its event no longer exists")

    async def _release_new(self, answer: Sequence[Row]) -> None:
        """Release what no worker had before. Nothing else tells that a delivery, which is sent at most once, may have
        been sent by a worker that died.
        """
        if rows := [row for row in answer if row["event_id"] is not None and not row["is_held"]]:
            await self.release_rows(rows)

    async def release_rows(self, rows: Sequence[Row]) -> None:
        """Release claimed rows: they are due at once, and the attempt does not count."""
        await self._database.execute("delivery.release", *_columns(rows))

    async def release(self, claims: Sequence[Claim]) -> None:
        """Release claims: their deliveries are due at once, and the attempt does not count."""
        await self._database.execute("delivery.release", *_names(claims))

    async def abandon(self, claims: Sequence[Claim]) -> None:
        """Abandon claims whose requests were aborted: their deliveries are due at once, and may have arrived."""
        await self._database.execute("delivery.abandon", *_names(claims))


def _lost_track(row: Row) -> Result:
    """Return the result of a delivery that a lost worker may have sent, so that it is never sent again."""
    detail = "its worker ended before the outcome was stored; it may have arrived"
    return _unsent(row, Outcome("unknown", None, detail), "internal")


def _expired(row: Row) -> Result:
    """Return the result of a delivery whose event has outlived its publisher's time to live."""
    return _unsent(row, Outcome("expired", None, "its time to live has ended"), "too_late")


def _unsent(row: Row, outcome: Outcome, dead_kind: DeadKind) -> Result:
    decision = Decision("dead", dead_kind=dead_kind)
    at = datetime.now(UTC)
    return Result(
        row["event_id"], row["subscription_id"], row["fence"], row["version"], at, outcome, decision,
        is_in_lane=row["is_in_lane"],
    )  # fmt: skip


def _names(claims: Sequence[Claim]) -> tuple[list[int], list[int], list[int]]:
    return (
        [claim.event.id for claim in claims],
        [claim.subscriber.id for claim in claims],
        [claim.fence for claim in claims],
    )


def _columns(rows: Sequence[Row]) -> tuple[list[int], list[int], list[int]]:
    return (
        [row["event_id"] for row in rows],
        [row["subscription_id"] for row in rows],
        [row["fence"] for row in rows],
    )
