"""Claim: a delivery that this worker holds under a lease; and all of them: who waits for a slot, what they weigh."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import NamedTuple

from db.pool import Row
from event.cloudevents import is_opaque
from event.event import Event
from webhooks.subscriber import Subscriber

__all__ = ["Claim", "Claims", "claim_of"]

_BATCH_BYTES_MAX = 1024 * 1024


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


class Claims:
    """The claims of one worker. A claim is put in, taken out of the queue for its attempt, and dropped at its end."""

    def __init__(self) -> None:
        self._queues: OrderedDict[int, deque[Claim]] = OrderedDict()
        self._waiting = 0
        self._shares: dict[int, int] = {}
        self.payload_bytes = 0
        """Of all events that a claim holds, with their headers, waiting or in flight; shared ones count once."""

    @property
    def waiting(self) -> int:
        """Claims without a slot."""
        return self._waiting

    def waiting_of(self, subscription: int) -> int:
        """Those of one subscription."""
        return len(self._queues.get(subscription, ()))

    @property
    def subscriptions_waiting(self) -> int:
        """How many subscriptions have claims without a slot."""
        return len(self._queues)

    def subscriptions(self) -> list[int]:
        """Who has claims without a slot, in turn."""
        return list(self._queues)

    def next_subscription(self) -> int:
        """Whose turn it is; it goes to the end."""
        subscription = next(iter(self._queues))
        self._queues.move_to_end(subscription)
        return subscription

    def put(self, claim: Claim) -> None:
        """Queue a claim behind the others of its subscription."""
        self._queues.setdefault(claim.subscriber.id, deque()).append(claim)
        self._waiting += 1
        shares = self._shares.get(claim.event.id, 0)
        self._shares[claim.event.id] = shares + 1
        if not shares:
            self.payload_bytes += claim.event.size_bytes

    def first(self, subscription: int) -> Claim | None:
        """The one to attempt next."""
        queue = self._queues.get(subscription)
        return queue[0] if queue else None

    def take(self, subscription: int) -> Claim:
        """Take the first one out of the queue; it stays held until it is dropped."""
        queue = self._queues[subscription]
        claim = queue.popleft()
        self._waiting -= 1
        if not queue:
            del self._queues[subscription]
        return claim

    def take_batch(self, subscription: int, most: int, leased_beyond: float) -> list[Claim]:
        """Take what may go in one request: the first claim and others behind it, ``most`` in all.

        Their leases last beyond that monotonic time, their subscriber is the same, and payloads with headers have a
        mebibyte at most. What is opaque goes alone.
        """
        first = self.take(subscription)
        taken, weight = [first], first.event.size_bytes
        while not is_opaque(first.event) and len(taken) < most and (claim := self.first(subscription)) is not None:
            weight += claim.event.size_bytes
            is_changed = claim.subscriber.version != first.subscriber.version
            if is_changed or is_opaque(claim.event) or claim.leased_until < leased_beyond or weight > _BATCH_BYTES_MAX:
                break
            taken.append(self.take(subscription))
        return taken

    def take_all(self, subscription: int) -> list[Claim]:
        """Take a subscription's whole queue."""
        queue = self._queues.pop(subscription, ())
        self._waiting -= len(queue)
        return list(queue)

    def drop(self, claim: Claim) -> None:
        """Its attempt has ended, or it is given back."""
        shares = self._shares[claim.event.id] - 1
        if shares:
            self._shares[claim.event.id] = shares
        else:
            del self._shares[claim.event.id]
            self.payload_bytes -= claim.event.size_bytes
