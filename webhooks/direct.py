"""Direct: deliveries that a publishing commit of this process has made and claimed for its worker (ADR 47).

::

    publisher --make--> offer --> the commit makes deliveries, with lease and fence --take--> attempt
                          |
                          '--> None while something waits for a slot: the events go by the outbox

An offer holds the terms on which the worker takes deliveries. A subscription may be paused during a commit that
has not seen the pause. So each offer notes every subscription that was paused since it was made.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from weakref import WeakSet

import structlog
from prometheus_client import Counter

from db.errors import DatabaseError
from db.pool import Row
from webhooks.claim import DeliveryMember
from webhooks.paused_subscriptions import PausedSubscriptions
from webhooks.worker_options import WorkerOptions

__all__ = ["Offer", "Offers"]

_log = structlog.get_logger(__name__)


class Offer:
    """The terms of one commit. ``made_at`` is monotonic: leases count from before the commit. ``paused``: subscriptions
    that were paused at any time since then. ``member``: the membership for which the deliveries are claimed."""

    __slots__ = ("__weakref__", "_taken", "lease_margin_seconds", "made_at", "member", "paused", "timeout_seconds")

    def __init__(
        self, options: WorkerOptions, paused: Iterable[int], member: DeliveryMember | None,
        taken: Callable[[Offer, Sequence[Row]], None],
    ) -> None:  # fmt: skip
        self.member = member
        self.timeout_seconds = options.timeout_seconds
        self.lease_margin_seconds = options.lease_margin_seconds
        self.made_at = time.monotonic()
        self.paused = set(paused)
        self._taken = taken

    @property
    def member_id(self) -> int | None:
        """Return the number that the claims get."""
        return None if self.member is None else self.member.id

    def take(self, claims: Sequence[Row]) -> None:
        """Hand over the deliveries that the commit has claimed, as rows of ``delivery.claim``."""
        if claims:
            self._taken(self, claims)


class Offers:
    """The offers of one worker. ``has_room`` returns whether deliveries can start at once. ``attempt`` starts them."""

    def __init__(
        self,
        options: WorkerOptions,
        paused: PausedSubscriptions,
        has_room: Callable[[], bool],
        attempt: Callable[[Offer, Sequence[Row]], Awaitable[None]],
        deliveries: Counter,
        note: Callable[[Collection[int]], None] = lambda _: None,
        member: Callable[[], DeliveryMember | None] = lambda: None,
    ) -> None:
        self._options = options
        self._paused = paused
        self._has_room = has_room
        self._attempt = attempt
        self._deliveries = deliveries
        self._note = note
        self._member = member
        self._tasks: asyncio.TaskGroup | None = None
        self._made: WeakSet[Offer] = WeakSet()

    @contextmanager
    def among(self, tasks: asyncio.TaskGroup) -> Iterator[None]:
        """Make offers while the block runs, and attempts in these tasks. Deliveries taken later are due when their
        lease ends.
        """
        self._tasks = tasks
        try:
            yield
        finally:
            self._tasks = None

    def make(self) -> Offer | None:
        """Return an offer for one commit; None while the worker has no room."""
        if self._tasks is None or not self._has_room():
            return None
        offer = Offer(self._options, self._paused.subscriptions(), self._member(), self._take)
        self._made.add(offer)
        return offer

    def note_ended_pauses(self, ended: Iterable[int]) -> None:
        """Add subscriptions whose pause has just ended to open offers: their commits may have begun during the
        pause.
        """
        for offer in self._made:
            offer.paused.update(ended)

    def _take(self, offer: Offer, claims: Sequence[Row]) -> None:
        self._note({row["fence"] for row in claims})
        self._deliveries.inc(len(claims))
        if (tasks := self._tasks) is not None:
            tasks.create_task(self._begin(offer, claims))

    async def _begin(self, offer: Offer, claims: Sequence[Row]) -> None:
        try:
            await self._attempt(offer, claims)
        except DatabaseError as error:
            _log.warning("direct_deliveries_wait", deliveries=len(claims), error=str(error), until="their lease ends")
