"""webhooks/direct.py: offers that a worker makes to publishing commits, and what it takes by them."""

import asyncio
from collections.abc import Sequence

from prometheus_client import CollectorRegistry

from db.errors import Unavailable
from db.pool import Row
from tests.webhooks.test_paused_subscriptions import THROTTLED, paused
from webhooks.direct import Offer, Offers
from webhooks.metrics import DeliveryMetrics
from webhooks.paused_subscriptions import PausedSubscriptions
from webhooks.worker_options import WorkerOptions

OPTIONS = WorkerOptions("w1", "http://hub.example", (1,), timeout_seconds=3.0, lease_margin_seconds=2.0)
CLAIM = {"event_id": 1, "fence": 7, "subscription_id": 7}


class Taker:
    """What a worker does with what it takes. ``error``: it fails."""

    def __init__(self, resting: PausedSubscriptions | None = None, error: Exception | None = None) -> None:
        self.taken: list[tuple[list[object], set[int]]] = []
        self.has_room = True
        self.metrics = DeliveryMetrics(CollectorRegistry())
        self._error = error
        self.noted: set[int] = set()
        self.offers = Offers(
            OPTIONS, resting or paused(), lambda: self.has_room, self._attempt, self.metrics.direct, self.noted.update
        )

    async def _attempt(self, offer: Offer, claims: Sequence[Row]) -> None:
        if self._error is not None:
            raise self._error
        self.taken.append(([row["event_id"] for row in claims], offer.paused))

    @property
    def counted(self) -> float:
        return float(self.metrics.direct._value.get())


async def test_what_a_commit_has_claimed_is_attempted_on_the_terms_of_its_offer() -> None:
    taker = Taker()
    async with asyncio.TaskGroup() as tasks:
        with taker.offers.among(tasks):
            offer = taker.offers.make()
            assert offer is not None
            offer.take([CLAIM])
            assert taker.noted == {7}  # before the publisher has its answer
            offer.take([])
    lease = (offer.timeout_seconds, offer.lease_margin_seconds)
    assert (lease, taker.taken, taker.counted) == ((3.0, 2.0), [([1], set())], 1.0)


async def test_there_is_no_offer_without_room_nor_before_and_after_the_work() -> None:
    taker = Taker()
    found = [taker.offers.make()]
    async with asyncio.TaskGroup() as tasks:
        with taker.offers.among(tasks):
            taker.has_room = False
            found.append(taker.offers.make())
            taker.has_room = True
            late = taker.offers.make()
        found.append(taker.offers.make())
    assert late is not None
    late.take([CLAIM])  # its worker has stopped: it is due when its lease ends
    await asyncio.sleep(0)
    assert (found, taker.taken) == ([None, None, None], [])


async def test_an_offer_knows_every_subscription_that_was_paused_since_it_was_made() -> None:
    """WH-R07: the commit may have read the subscription before the pause, and be answered after its end."""
    resting = paused()
    taker = Taker(resting)
    async with asyncio.TaskGroup() as tasks:
        with taker.offers.among(tasks):
            before = taker.offers.make()
            resting.begin(THROTTLED)
            during = taker.offers.make()
            resting.settled(THROTTLED)
            taker.offers.note_ended_pauses(resting.end_recorded())
            after = taker.offers.make()
    assert [offer.paused for offer in (before, during, after) if offer is not None] == [{7}, {7}, set()]


async def test_what_cannot_be_read_waits_for_its_lease() -> None:
    """FC-06: a database that is away ends no worker."""
    taker = Taker(error=Unavailable("away"))
    async with asyncio.TaskGroup() as tasks:
        with taker.offers.among(tasks):
            offer = taker.offers.make()
            assert offer is not None
            offer.take([CLAIM])
    assert taker.counted == 1.0
