"""webhooks/worker.py: what another process may take over is not sent, and is aborted when the membership ends."""

import asyncio
import json

import pytest

from db.errors import Unavailable
from tests.hostile.server import answer, hostile_server
from tests.waiting import until
from tests.webhooks.harness import Gated, Harness, delivery_harness
from tests.webhooks.test_worker_claims import Held, arrived, bodies


class Belonging:
    """A membership that ends when a test says so. ``now`` is the one for new claims."""

    id = 7

    def __init__(self, *, is_over: bool = False) -> None:
        self.is_over = is_over
        self.asked = 0
        self._requests: set[asyncio.Timeout] = set()

    def now(self) -> "Belonging | None":
        """This one for the first claims, and none from then on."""
        self.asked += 1
        return self if self.asked == 1 else None

    def holds(self) -> bool:
        return not self.is_over

    def begin(self, request: asyncio.Timeout) -> None:
        self._requests.add(request)

    def finish(self, request: asyncio.Timeout) -> None:
        self._requests.discard(request)

    def end(self) -> int:
        """End it, and abort its requests; return how many."""
        self.is_over = True
        requests, self._requests = self._requests, set()
        for request in requests:
            request.reschedule(0.0)
        return len(requests)


async def test_a_request_is_aborted_and_its_delivery_sent_again_as_another_attempt(database_url: str) -> None:
    """TO-01, TO-05: it may have arrived, so the attempt counts."""
    sink, member = Held(), Belonging()
    async with delivery_harness(database_url) as harness, hostile_server(sink) as server:
        await harness.subscribe(server.url())
        await harness.deliver(b"{}")
        async with harness.working(member=member.now):
            await arrived(server, 1)
            sink.release.set()
            aborted = member.end()
            await harness.drained()
        assert (aborted, bodies(server)) == (1, [b"{}", b"{}"])
        assert await harness.attempts("number", "outcome") == [(2, "delivered")]


async def test_what_was_aborted_waits_for_the_database(database_url: str) -> None:
    """TO-05: a membership ends while the database is away."""
    sink, member = Held(), Belonging()
    async with delivery_harness(database_url) as harness, hostile_server(sink) as server:
        await harness.subscribe(server.url())
        await harness.deliver(b"{}")
        away = Gated(harness.database)
        away.failing["delivery.abandon"] = Unavailable("it is away")
        async with harness.working(member=member.now, database=away):
            await arrived(server, 1)
            sink.release.set()
            member.end()
            await until(lambda: away.passed["delivery.abandon"] > 1)
            away.failing.clear()
            await harness.drained()
        assert await harness.attempts("number", "outcome") == [(2, "delivered")]


async def test_at_most_once_ends_as_unknown_when_its_request_is_aborted(database_url: str) -> None:
    """TO-05"""
    sink, member = Held(), Belonging()
    async with delivery_harness(database_url) as harness, hostile_server(sink) as server:
        await harness.subscribe(server.url(), at_most_once=True)
        await harness.deliver(b"{}")
        async with harness.working(member=member.now):
            await arrived(server, 1)
            member.end()
            await harness.drained()
        assert (bodies(server), await harness.attempts("outcome")) == ([b"{}"], [("unknown",)])


@pytest.mark.parametrize("kept", ["a lane", "a retry"])
async def test_what_nobody_takes_over_is_not_aborted(kept: str, database_url: str) -> None:
    """TO-03: a lane keeps its lease, and so does what was tried before."""
    sink, member = Held(), Belonging()
    async with delivery_harness(database_url) as harness, hostile_server(sink) as server:
        await harness.subscribe(server.url(), ordered=kept == "a lane")
        await harness.deliver(b"{}", key="k")
        if kept == "a retry":
            await harness.sql.execute("UPDATE hookwire.deliveries SET attempts = 1")
        async with harness.working(member=member.now):
            await arrived(server, 1)
            aborted = member.end()
            sink.release.set()
            await harness.drained()
        assert (aborted, bodies(server)) == (0, [b"{}"])


async def test_what_others_may_have_taken_over_is_given_back_unsent(database_url: str) -> None:
    """TO-04: the membership ended between the claim and the request. The attempt does not count."""
    sink, member = Held(), Belonging(is_over=True)
    sink.release.set()
    async with delivery_harness(database_url) as harness, hostile_server(sink) as server:
        await harness.subscribe(server.url())
        await harness.deliver(b"{}")
        async with harness.working(member=member.now):
            await harness.drained()
        assert (bodies(server), await harness.attempts("number")) == ([b"{}"], [(1,)])
        assert member.asked > 1


async def test_the_head_of_a_lane_in_an_aborted_batch_keeps_its_lease(database_url: str) -> None:
    """TO-03: the receiver may still work on it. Its repeat, and the next event after that, would be an inversion."""
    sink, member = Held(), Belonging()
    held = "SELECT fence, due_at FROM hookwire.deliveries WHERE lane = 'k'"
    async with delivery_harness(database_url) as harness, hostile_server(sink) as server:
        await harness.subscribe(server.url(), format="batch", batch_max=10, ordered=True)
        await harness.deliver(b'"in a lane"', key="k")
        await harness.deliver(b'"free"')
        async with harness.working(member=member.now, die=True):
            await arrived(server, 1)
            before = await harness.sql.fetchrow(held)
            sink.release.set()
            aborted = member.end()
            await arrived(server, 2)
            first, second = (json.loads(body) for body in bodies(server)[:2])
            assert (aborted, len(first), len(second)) == (1, 2, 1)
            assert await harness.sql.fetchrow(held) == before


async def test_a_delivery_that_failed_is_no_members_any_more(database_url: str) -> None:
    """An old release that claims it again says nothing of members. Nobody may take that claim over."""
    sink, member = Held(answer(500)), Belonging()
    sink.release.set()
    async with delivery_harness(database_url) as harness, hostile_server(sink) as server:
        await harness.subscribe(server.url())
        await harness.deliver(b"{}")
        async with harness.working(member=member.now, schedule_seconds=(3_600, 3_600)):
            await until(lambda: _is_unclaimed(harness))
        assert await harness.sql.fetchval("SELECT member FROM hookwire.deliveries") is None


async def _is_unclaimed(harness: Harness) -> bool:
    return bool(await harness.sql.fetchval("SELECT fence IS NULL AND attempts > 0 FROM hookwire.deliveries"))
