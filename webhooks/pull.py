"""Pull: deliveries that a subscriber fetches instead of having them POSTed.

::

    waiting --dequeue--> leased --ack--> delivered
       ^                   | |  `-nack, dead--> dead letter
       |                   | `--extend--> leased for longer
       `--nack, lease over-'

The rows, the lease, the fence and the settlement are those of the workers' own deliveries. A receipt names a delivery
and the fence of its fetch. It is stale once another client has fetched it. A delivery that was returned, or whose lease
ended, ``attempts_max`` times becomes a dead letter, so nothing loops for ever.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from db.pool import Database, Row
from event.event import Event
from webhooks.contents import Contents
from webhooks.incidents.known import KnownIncidents
from webhooks.outcome import Outcome
from webhooks.result import Result
from webhooks.retry import DELIVERED, Decision
from webhooks.settlement import write_results

__all__ = ["ATTEMPTS_MAX", "Fetched", "Pull", "PullReceipt", "parse_receipt"]

ATTEMPTS_MAX = 20
_RECEIPT = re.compile(r"rcp_([0-9]{1,18})_([0-9]{1,18})_([0-9]{1,18})")


@dataclass(frozen=True, slots=True)
class PullReceipt:
    """Which delivery was fetched, and under which fence."""

    event_id: int
    subscription_id: int
    fence: int

    def __str__(self) -> str:
        return f"rcp_{self.event_id}_{self.subscription_id}_{self.fence}"


@dataclass(frozen=True, slots=True)
class Fetched:
    """A delivery in the hands of a subscriber, until ``leased_until``."""

    receipt: PullReceipt
    attempts: int
    leased_until: datetime
    event: Event


def parse_receipt(text: str) -> PullReceipt | None:
    """Return the receipt of this text; None for any other text."""
    match = _RECEIPT.fullmatch(text)
    return PullReceipt(int(match[1]), int(match[2]), int(match[3])) if match else None


class Pull:
    """The verbs; subscriptions are known by their number. The attempts have ``name`` as the worker's name."""

    def __init__(self, database: Database, contents: Contents, name: str) -> None:
        self._database = database
        self._contents = contents
        self._name = name
        self._incidents = KnownIncidents()

    async def dequeue(self, subscription: int, most: int, lease_seconds: float, bytes_max: int) -> list[Fetched]:
        """Fetch due deliveries, oldest first, within limits of number and bytes; the rest stays due.

        Raise :class:`db.errors.HeldBack` where the standby fence holds them back: they stay due.
        """
        rows = await self._database.fetch_fenced(
            "pull.dequeue", subscription, most, lease_seconds, release=partial(self._release, subscription)
        )
        await self._dead_letter_worn([row for row in rows if row["attempts"] > ATTEMPTS_MAX], subscription)
        held = sorted((row for row in rows if row["attempts"] <= ATTEMPTS_MAX), key=lambda row: row["event_id"])
        if not held:
            return []
        found, lost = await self._contents.get([row["event_id"] for row in held], bytes_max)
        events = _within(found, bytes_max)
        await self._put_back(held, events.keys(), lost, subscription)
        return [
            Fetched(
                PullReceipt(row["event_id"], subscription, row["fence"]),
                row["attempts"],
                row["leased_until"],
                events[row["event_id"]],
            )
            for row in held
            if row["event_id"] in events
        ]

    async def give_back(self, subscription: int, fetched: Sequence[Fetched]) -> None:
        """Release deliveries that no subscriber has seen: they are due at once, and the attempt does not count."""
        receipts = [one.receipt for one in fetched]
        await self._release(subscription, [{"event_id": one.event_id, "fence": one.fence} for one in receipts])

    async def ack(self, subscription: int, receipts: Sequence[PullReceipt]) -> set[PullReceipt]:
        """Acknowledge these; return those that were still held."""
        return await self._settle(subscription, receipts, DELIVERED, Outcome("delivered", None))

    async def nack(
        self,
        subscription: int,
        receipts: Sequence[PullReceipt],
        delay_seconds: float,
        reason: str | None,
        *,
        dead: bool,
    ) -> set[PullReceipt]:
        """Return these for a while, or give them up; return those that were still held."""
        decision = Decision("dead", dead_kind="aborted") if dead else Decision("retry", retry_seconds=delay_seconds)
        return await self._settle(subscription, receipts, decision, Outcome("rejected", None, detail=reason))

    async def extend(
        self, subscription: int, receipts: Sequence[PullReceipt], lease_seconds: float
    ) -> set[PullReceipt]:
        """Hold these for so long from now; return those that were still held."""
        async with self._database.transaction() as transaction:
            await transaction.fetch("pull.held", subscription, *_columns(receipts))
            rows = await transaction.fetch("pull.extend", subscription, *_columns(receipts), lease_seconds)
        return {PullReceipt(row["event_id"], subscription, row["fence"]) for row in rows}

    async def _settle(
        self, subscription: int, receipts: Sequence[PullReceipt], decision: Decision, outcome: Outcome
    ) -> set[PullReceipt]:
        at = datetime.now(UTC)
        worn = Decision("dead", dead_kind="exhausted")
        first = [Result(one.event_id, subscription, one.fence, 0, at, outcome, decision) for one in receipts[:1]]
        incidents = await self._incidents.of(self._database, first)
        async with self._database.transaction() as transaction:
            held = await transaction.fetch("pull.held", subscription, *_columns(receipts))
            results = [
                Result(
                    row["event_id"], subscription, row["fence"], 0, at, outcome,
                    worn if decision.action == "retry" and row["attempts"] >= ATTEMPTS_MAX else decision,
                )
                for row in held
            ]  # fmt: skip
            if results:
                await write_results(transaction, results, self._name, incidents=incidents * len(results))
        return {PullReceipt(row["event_id"], subscription, row["fence"]) for row in held}

    async def _dead_letter_worn(self, rows: Sequence[Row], subscription: int) -> None:
        outcome = Outcome("lease_over", None, detail=f"fetched {ATTEMPTS_MAX} times and never settled")
        receipts = [PullReceipt(row["event_id"], subscription, row["fence"]) for row in rows]
        if receipts:
            await self._settle(subscription, receipts, Decision("dead", dead_kind="exhausted"), outcome)

    async def _put_back(
        self, held: Sequence[Row], found: Collection[int], lost: Collection[int], subscription: int
    ) -> None:
        """Release deliveries that were not read; those without contents become dead letters."""
        if unread := [row for row in held if row["event_id"] not in found and row["event_id"] not in lost]:
            await self._release(subscription, unread)
        if gone := [row for row in held if row["event_id"] in lost]:
            await self._database.execute(
                "delivery.dead_letter_orphans", *_leases(subscription, gone), "the event is gone"
            )

    async def _release(self, subscription: int, rows: Sequence[Row]) -> None:
        await self._database.execute("delivery.release", *_leases(subscription, rows))


def _within(found: Mapping[int, Event], bytes_max: int) -> dict[int, Event]:
    """Return the lowest events, up to the one that crosses ``bytes_max``, whether they were cached or read."""
    within, size = {}, 0
    for id_ in sorted(found):
        if size >= bytes_max:
            break
        within[id_] = found[id_]
        size += found[id_].size_bytes
    return within


def _leases(subscription: int, rows: Sequence[Row]) -> tuple[list[int], list[int], list[int]]:
    return [row["event_id"] for row in rows], [subscription] * len(rows), [row["fence"] for row in rows]


def _columns(receipts: Sequence[PullReceipt]) -> tuple[list[int], list[int]]:
    return [receipt.event_id for receipt in receipts], [receipt.fence for receipt in receipts]
