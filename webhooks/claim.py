"""Claim: a delivery that this worker holds under a lease, with its event and its subscriber; how it is taken and given
back in the database."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import structlog

from db.pool import Database, Row
from event.event import Event
from webhooks.contents import Contents
from webhooks.lifetime import ttl_seconds
from webhooks.outcome import Outcome
from webhooks.result import Result
from webhooks.retry import Decision
from webhooks.subscriber import Subscriber, Subscribers
from webhooks.worker_options import WorkerOptions

__all__ = ["Claim", "ClaimAnswer", "Claimer", "claim_of"]

_log = structlog.get_logger(__name__)


class Claim(NamedTuple):
    """``position`` is the place in the retry schedule of the attempt to come, from 1; ``fence`` is the claim's token.

    ``leased_until``, ``planned_at`` and ``made_at`` are monotonic. ``planned_at`` is when the schedule goes on, for an
    attempt out of turn, made because new content came; else None. ``is_replay``: somebody asked for it to be sent
    again. ``is_in_lane``: others wait behind it for its key. ``is_probe``: it is the one that an open
    breaker lets pass.
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

    @property
    def host(self) -> str:
        """The host that the attempt connects to; empty when nothing may be sent."""
        target = self.subscriber.target
        return target.host if target is not None else ""

    @property
    def lane(self) -> tuple[int, str | None] | None:
        """Subscription and key, of which one claim at a time is in flight; None without an order."""
        return (self.subscriber.id, self.event.key) if self.is_in_lane else None


def claim_of(row: Row, event: Event, subscriber: Subscriber, asked_at: float) -> Claim:
    """The claim in a row of ``delivery.claim``, which was asked for at this monotonic time."""
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
    )


class ClaimAnswer(NamedTuple):
    """What the database answered to a claim.

    ``claims`` can be sent, in the order of their events. ``unsent`` end without an attempt. ``found``: how many rows
    each subscription got; ``held_back``: until which monotonic times throttles hold some back. The contents of
    ``orphans`` no longer exist; ``surplus`` did not fit into memory.
    """

    claims: Sequence[Claim] = ()
    unsent: Sequence[Result] = ()
    found: Mapping[int, int] = Counter()
    held_back: Sequence[tuple[int, float]] = ()
    orphans: Sequence[Row] = ()
    surplus: Sequence[Row] = ()


class Claimer:
    """Claims deliveries for one worker, and gives them back."""

    def __init__(
        self, database: Database, subscribers: Subscribers, contents: Contents, options: WorkerOptions
    ) -> None:
        self._database = database
        self._subscribers = subscribers
        self._contents = contents
        self._options = options

    async def claim(self, wanted: Mapping[int, int], bytes_max: int) -> ClaimAnswer:
        """Claim so many deliveries of each subscription, and read up to so many bytes of contents."""
        asked_at = time.monotonic()
        answer = await self._database.fetch(
            "delivery.claim", list(wanted), list(wanted.values()), self._options.timeout_seconds,
            self._options.lease_margin_seconds,
        )  # fmt: skip
        held_back = [
            (row["subscription_id"], asked_at + row["wait_seconds"]) for row in answer if row["event_id"] is None
        ]
        claimed = [row for row in answer if row["event_id"] is not None]
        return (await self.answer(claimed, asked_at, bytes_max))._replace(held_back=held_back)

    async def answer(self, claimed: Sequence[Row], asked_at: float, bytes_max: int) -> ClaimAnswer:
        """Read the contents of deliveries that are claimed for this worker, and decide which can be sent."""
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
                claims.append(claim_of(row, event, subscriber, asked_at))
        found = Counter(row["subscription_id"] for row in rows)
        return ClaimAnswer(claims, unsent, found, orphans=orphans, surplus=surplus)

    async def dead_letter(self, orphans: Sequence[Row]) -> None:
        """End deliveries whose event no longer exists."""
        _log.error("events_lost", deliveries=len(orphans), first=orphans[0]["event_id"])
        await self._database.execute("delivery.dead_letter_orphans", *_columns(orphans), "its event no longer exists")

    async def release_rows(self, rows: Sequence[Row]) -> None:
        """Make due at once, and uncount, rows of the claim."""
        await self._database.execute("delivery.release", *_columns(rows))

    async def release(self, claims: Sequence[Claim]) -> None:
        """Make due at once, and uncount, what was claimed and will not be sent from here."""
        await self._database.execute(
            "delivery.release",
            [claim.event.id for claim in claims],
            [claim.subscriber.id for claim in claims],
            [claim.fence for claim in claims],
        )


def _lost_track(row: Row) -> Result:
    """It was claimed before and nobody knows whether it was sent, so it is never sent again (WH-O06)."""
    detail = "its worker ended before the outcome was on record; it may have arrived"
    return _unsent(row, Outcome("unknown", None, detail), "internal")


def _expired(row: Row) -> Result:
    """Its publisher does not want it to be delivered any more (WH-A04)."""
    return _unsent(row, Outcome("expired", None, "its time to live has ended"), "exhausted")


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
