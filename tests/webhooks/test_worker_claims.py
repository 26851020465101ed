"""webhooks/worker.py: claims, leases, lanes, slots, stops, and a database that goes away."""

import asyncio
import time
from collections import Counter
from typing import Any

import pytest

from db.errors import Unavailable
from tests.hostile.server import Conversation, HostileServer, answer, hang, hostile_server
from tests.waiting import lasts, until
from tests.webhooks.harness import WAIT_SECONDS_MAX as WAIT
from tests.webhooks.harness import Gated, Harness, delivery_harness
from webhooks.schedule import Dispatch, Schedule

OK = answer(204)
HOUR = 3600


class Held:
    """A sink that notes each request at once and answers when it is told to."""

    def __init__(self, reply: bytes = OK) -> None:
        self.release = asyncio.Event()
        self.now = self.most = 0
        self._reply = reply

    async def __call__(self, conversation: Conversation) -> None:
        while True:
            await conversation.read_request()
            self.now += 1
            self.most = max(self.most, self.now)
            await self.release.wait()
            self.now -= 1
            await conversation.send(self._reply)


def bodies(server: HostileServer) -> list[bytes]:
    return [request.body for request in server.requests]


async def arrived(server: HostileServer, requests: int) -> None:
    await server.until(lambda s: len(s.requests) >= requests, WAIT)


# --- claims and leases ------------------------------------------------------------------------------------------


async def test_an_attempt_counts_before_its_request_leaves(database_url: str) -> None:
    """WH-R11: one that kills its worker counts too."""
    sink = Held()
    async with delivery_harness(database_url) as harness, hostile_server(sink) as server:
        subscription = await harness.subscribe(server.url())
        (event,) = await harness.deliver(b"{}")
        async with harness.working(die=True):
            await arrived(server, 1)
            assert await harness.deliveries() == [(event, subscription, 1, True)]
        assert await harness.deliveries() == [(event, subscription, 1, True)]


async def test_a_delivery_that_nothing_waits_behind_is_the_last_that_is_asked_for(database_url: str) -> None:
    """Another claim after it would find nothing, for each event of a trickle."""
    async with delivery_harness(database_url) as harness, hostile_server() as server:
        subscription = await harness.subscribe(server.url())
        await harness.deliver(b"{}")
        inner, harness.database = harness.database, Gated(harness.database)
        counting = harness.database
        async with harness.working(poll_seconds=HOUR) as worker:
            for _ in range(3):
                await harness.drained()
                harness.database = inner
                await harness.deliver(b"{}")
                harness.database = counting
                worker.mark_due([subscription])
            await harness.drained()
        assert counting.passed["delivery.claim"] == 4


async def test_another_worker_takes_over_a_dead_one_s_claims_after_their_lease(database_url: str) -> None:
    """WH-19, WH-I03, F14: not before."""
    sink = Held()
    lease: dict[str, Any] = {"timeout_seconds": 0.3, "lease_margin_seconds": 0.3}
    async with delivery_harness(database_url) as harness, hostile_server(sink) as server:
        await harness.subscribe(server.url())
        await harness.deliver(b"{}")
        began = time.monotonic()
        async with harness.working(die=True, **lease):
            await arrived(server, 1)
        sink.release.set()
        async with harness.working(name="w2", **lease):
            await harness.drained()
        assert time.monotonic() - began > 0.55
        assert await harness.attempts("number", "worker", "decision", "trigger") == [(2, "w2", "delivered", "retry")]


async def test_a_late_settlement_changes_nothing(database_url: str) -> None:
    """WH-T04, WH-I03: the first worker comes back after a second one has delivered under a claim of its own."""
    replies = [answer(500)]

    async def script(conversation: Conversation) -> None:
        while True:
            await conversation.read_request()
            await conversation.send(replies.pop() if replies else OK)

    async with delivery_harness(database_url) as harness, hostile_server(script) as server:
        subscription = await harness.subscribe(server.url(), timeout_seconds=0.2)
        await harness.deliver(b"{}")
        first = Gated(harness.database)
        first.gates["delivery.settle"] = asyncio.Event()
        late = {"database": first, "name": "w1", "schedule_seconds": (), "poll_seconds": HOUR}
        async with harness.working(lease_margin_seconds=0.1, **late) as worker:
            worker.mark_due([subscription])
            await arrived(server, 1)
            await harness.sql.execute("UPDATE hookwire.subscriptions SET timeout_seconds = 60")  # w2 may be slow
            async with harness.working(lease_margin_seconds=0.1, name="w2"):
                await harness.drained()
            first.gates["delivery.settle"].set()
        assert await harness.attempts("number", "worker", "decision") == [(2, "w2", "delivered")]
        assert await harness.dead_letters() == []


async def test_what_waits_longer_than_its_lease_allows_is_given_back_unsent_and_uncounted(database_url: str) -> None:
    """RR-10: the lease is checked before the first byte leaves."""
    sink = Held()
    async with delivery_harness(database_url) as harness, hostile_server(sink) as server:
        subscription = await harness.subscribe(server.url(), timeout_seconds=20.0)
        await harness.deliver(b"1", b"2")
        slots = {"total": 8, "per_subscription": 4, "per_host": 1}
        async with harness.working(lease_margin_seconds=0.2, slots=slots):
            await arrived(server, 1)
            await until(lambda: claimed(harness, 2))
            await lasts(0.3)  # the claims' margin passes
            sink.release.set()
            await harness.drained()
        assert sorted(bodies(server)) == [b"1", b"2"]
        assert await harness.attempts("number", "decision", subscription=subscription) == [(1, "delivered")] * 2


async def test_what_a_stopped_process_had_started_is_given_back_unsent(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RR-10: the lease ended between the start of an attempt and its first byte; others may have sent later events."""
    started: list[Dispatch] = []

    def stopped_after(schedule: Schedule, now: float) -> Dispatch | None:
        if (dispatch := start(schedule, now)) is None:
            return None
        started.append(dispatch)
        return dispatch._replace(latest_at=now - 1.0) if len(started) == 1 else dispatch

    start = Schedule.start
    async with delivery_harness(database_url) as harness, hostile_server() as server:
        subscription = await harness.subscribe(server.url())
        await harness.deliver(b"1")
        harness.database = counting = Gated(harness.database)
        monkeypatch.setattr(Schedule, "start", stopped_after)
        async with harness.working():
            await harness.drained()
        assert (counting.passed["delivery.release"], bodies(server)) == (1, [b"1"])
        assert await harness.attempts("number", "decision", subscription=subscription) == [(1, "delivered")]


async def claimed(harness: Harness, number: int) -> bool:
    return sum(has_claim for *_, has_claim in await harness.deliveries()) == number


async def test_what_came_due_elsewhere_is_found_by_polling(database_url: str) -> None:
    """WH-02: nobody told this worker."""
    async with delivery_harness(database_url) as harness, hostile_server() as server:
        await harness.subscribe(server.url("/ok"))
        async with harness.working():
            await harness.deliver(b"1")
            await harness.settled(1)
            await harness.deliver(b"2")
            await harness.settled(2)
        assert bodies(server) == [b"1", b"2"]


async def test_what_the_worker_is_told_of_is_sent_without_polling(database_url: str) -> None:
    async with delivery_harness(database_url) as harness, hostile_server() as server:
        await harness.subscribe(server.url("/ok"))
        async with harness.working(poll_seconds=HOUR) as worker:
            for number in range(1, 4):
                await harness.publish(b"%d" % number)
                await harness.fan_out(due=worker.mark_due)
                await harness.settled(number)
        assert bodies(server) == [b"1", b"2", b"3"]


async def test_news_that_come_during_a_claim_are_not_forgotten(database_url: str) -> None:
    async with delivery_harness(database_url) as harness, hostile_server() as server:
        subscription = await harness.subscribe(server.url("/ok"))
        gated = Gated(harness.database)
        gated.gates["subscription.for_delivery"] = asyncio.Event()  # between the claim and what follows from it
        await harness.deliver(b"1")
        async with harness.working(database=gated, poll_seconds=HOUR) as worker:
            worker.mark_due([subscription])
            await until(lambda: claimed(harness, 1))
            await harness.publish(b"2")
            await harness.fan_out(due=worker.mark_due)
            gated.gates["subscription.for_delivery"].set()
            await harness.settled(2)
        assert bodies(server) == [b"1", b"2"]


@pytest.mark.parametrize(
    "columns",
    [
        {"state": "disabled"},
        {"state": "deleted"},
        {"state": "gone"},
        {"lease_until": None, "state": "expired"},
    ],
    ids=str,
)
async def test_what_is_queued_for_a_subscription_that_ended_is_not_sent(
    database_url: str, columns: dict[str, Any]
) -> None:
    """WH-I10, WS-44."""
    async with delivery_harness(database_url) as harness, hostile_server() as server:
        ended = await harness.subscribe(server.url("/ok/ended"))
        await harness.subscribe(server.url("/ok/other"))
        await harness.deliver(b"{}")
        await harness.change(ended, **columns)
        async with harness.working():
            await harness.settled(1)
        assert [request.target for request in server.requests] == [b"/ok/other"]


async def test_after_the_end_of_its_lease_a_websub_subscription_gets_nothing(database_url: str) -> None:
    """WS-48."""
    async with delivery_harness(database_url) as harness, hostile_server() as server:
        ended = await harness.subscribe_websub(server.url("/ok/ended"))
        await harness.subscribe(server.url("/ok/other"))
        await harness.deliver(b"{}")
        await harness.sql.execute("UPDATE hookwire.subscriptions SET lease_until = now() WHERE id = $1", ended)
        async with harness.working():
            await harness.settled(1)
        assert [request.target for request in server.requests] == [b"/ok/other"]


# --- what is wrong with one delivery concerns it alone ----------------------------------------------------------


async def test_a_delivery_whose_event_is_gone_is_buried_and_the_others_go_on(database_url: str) -> None:
    """WH-13."""
    async with delivery_harness(database_url) as harness, hostile_server() as server:
        await harness.subscribe(server.url("/ok"))
        lost, _ = await harness.deliver(b"lost", b"kept")
        await harness.sql.execute("DELETE FROM hookwire.events WHERE id = $1", lost)
        async with harness.working():
            await harness.drained()
        assert (bodies(server), await harness.dead_letters()) == ([b"kept"], [(lost, "internal", 0, None)])


async def test_a_subscription_whose_secret_does_not_open_gets_nothing_unsigned(database_url: str) -> None:
    """SE-03, WH-13: retried, for the operator may bring the key back; then a dead letter of our own making."""
    async with delivery_harness(database_url) as harness, hostile_server() as server:
        subscription = await harness.subscribe(server.url("/ok/sealed"))
        await harness.subscribe(server.url("/ok/open"))
        await harness.sql.execute(
            "UPDATE hookwire.subscription_secrets SET key_id = 'lost' WHERE subscription_id = $1", subscription
        )
        (event,) = await harness.deliver(b"{}")
        async with harness.working(schedule_seconds=(0,)):
            await harness.drained()
        assert [request.target for request in server.requests] == [b"/ok/open"]
        assert await harness.dead_letters() == [(event, "internal", 2, None)]
        assert await harness.attempts("outcome", "detail", subscription=subscription) == [
            ("internal", "a sealed secret cannot be opened")
        ] * 2  # fmt: skip


async def test_a_settlement_that_the_database_refuses_stops_no_other(database_url: str) -> None:
    """WH-12: the refused one comes due again by its lease."""
    async with delivery_harness(database_url) as harness, hostile_server() as server:
        await harness.subscribe(server.url("/ok"))
        refused, *rest = await harness.deliver(*(b"%d" % n for n in range(8)))
        await harness.sql.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
            " $$BEGIN RAISE 'not this one' USING ERRCODE = 'data_exception'; END$$;"
            "CREATE TRIGGER refused BEFORE INSERT ON hookwire.attempts FOR EACH ROW"
            f" WHEN (new.event_id = {refused} AND new.number = 1) EXECUTE FUNCTION refuse()"
        )
        async with harness.working(lease_margin_seconds=HOUR):
            await arrived(server, 8)
            await harness.settled(len(rest))
            await harness.sql.execute("UPDATE hookwire.deliveries SET due_at = now()")  # the end of its lease
            await harness.drained()
        assert Counter(bodies(server)) == {b"0": 2} | {b"%d" % n: 1 for n in range(1, 8)}
        assert len(await harness.attempts("number")) == len(rest) + 1


async def test_large_contents_are_read_a_few_at_a_time(database_url: str) -> None:
    """WH-23: what memory has no room for is given back, uncounted, and sent in its turn."""
    async with delivery_harness(database_url) as harness, hostile_server() as server:
        await harness.subscribe(server.url("/ok"))
        payloads = [b"%02d" % n + bytes(100_000) for n in range(30)]
        await harness.deliver(*payloads)
        async with harness.working(payload_bytes_max=250_000) as worker:
            most = 0
            while await harness.deliveries():
                most = max(most, worker._schedule.payload_bytes)
                await asyncio.sleep(0)
        assert sorted(bodies(server)) == payloads
        assert {number for (number,) in await harness.attempts("number")} == {1}
        assert 0 < most < 450_000


# --- ordered lanes ----------------------------------------------------------------------------------------------


async def test_an_ordered_subscription_has_one_delivery_of_a_key_in_flight(database_url: str) -> None:
    """WH-O02: other keys, and events without one, flow beside it."""
    sink = Held()
    async with delivery_harness(database_url) as harness, hostile_server(sink) as server:
        await harness.subscribe(server.url(), ordered=True)
        await harness.deliver(b"a1", b"a2", b"a3", key="a")
        await harness.deliver(b"b1", b"b2", key="b")
        await harness.deliver(b"-", b"-")
        async with harness.working():
            await arrived(server, 4)
            assert sorted(bodies(server)) == [b"-", b"-", b"a1", b"b1"]
            sink.release.set()
            await harness.drained()
        in_order = {key: [body for body in bodies(server) if body[:1] == key] for key in (b"a", b"b")}
        assert in_order == {b"a": [b"a1", b"a2", b"a3"], b"b": [b"b1", b"b2"]}


async def test_a_failing_head_holds_back_its_key_alone_and_the_order_is_kept(database_url: str) -> None:
    """WH-01, WH-O02, WH-O03: also over several workers, retries and a dead letter."""
    refusals = {b"a1": 2, b"a3": 9}

    async def script(conversation: Conversation) -> None:
        while True:
            request = await conversation.read_request()
            left = refusals.get(request.body, 0)
            refusals[request.body] = left - 1
            await conversation.send(answer(500) if left > 0 else OK)

    async with delivery_harness(database_url) as harness, hostile_server(script) as server:
        await harness.subscribe(server.url(), ordered=True)
        for number in range(1, 6):
            for key in "abc":
                await harness.deliver(f"{key}{number}".encode(), key=key)
        async with harness.working(name="w1"), harness.working(name="w2"):
            await harness.drained()
        seen = {key: [body for body in bodies(server) if body[:1] == key] for key in (b"a", b"b", b"c")}
        assert seen == {
            b"a": [b"a1"] * 3 + [b"a2"] + [b"a3"] * 3 + [b"a4", b"a5"],
            b"b": [b"b%d" % n for n in range(1, 6)],
            b"c": [b"c%d" % n for n in range(1, 6)],
        }
        assert [kind for _, kind, *_ in await harness.dead_letters()] == ["exhausted"]


# --- slots ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("slots", "most"),
    [
        ({"total": 6, "per_subscription": 9, "per_host": 9}, 3),
        ({"total": 20, "per_subscription": 2, "per_host": 12}, 6),
        ({"total": 20, "per_subscription": 9, "per_host": 10}, 5),
    ],
    ids=["in all, while nobody is proven", "per subscription", "per host, while nobody is proven"],
)
async def test_no_more_attempts_run_at_once_than_there_are_slots(
    database_url: str, slots: dict[str, int], most: int
) -> None:
    """WH-I01: three subscriptions on one host."""
    sink = Held()
    async with delivery_harness(database_url) as harness, hostile_server(sink) as server:
        for name in "abc":
            await harness.subscribe(server.url(f"/{name}"))
        await harness.deliver(*(b"%d" % n for n in range(10)))
        async with harness.working(slots=slots):
            await arrived(server, most)
            for _ in range(3):  # one round trip of the poll and more
                await harness.sql.fetchval("SELECT pg_sleep(0.05)")
            assert (sink.now, sink.most) == (most, most)
            sink.release.set()
            await harness.drained()
        assert len(server.requests) == 30


async def test_dead_subscribers_leave_room_for_the_living(database_url: str) -> None:
    """WH-26, WH-I01, DL-11, F28: sixty hang, each with a backlog, in a worker whose queue would hold a third of it."""
    slots = {"total": 8, "per_subscription": 4, "per_host": 100}
    async with delivery_harness(database_url) as harness, hostile_server(hang) as dead, hostile_server() as server:
        await harness.subscribe(server.url("/ok"))
        await harness.deliver(b"first")
        async with harness.working(slots=slots, claim_max=20, timeout_seconds=30) as worker:
            await harness.settled()
            for number in range(60):
                await harness.subscribe(dead.url(f"/{number}"), topic="dead")
            await harness.publish(*(b"%d" % n for n in range(10)), topic="dead")
            await harness.fan_out(due=worker.mark_due)
            await arrived(dead, 4)
            await harness.publish(*(b"%d" % n for n in range(50)))
            await harness.fan_out(due=worker.mark_due)
            async with asyncio.timeout(20):
                await arrived(server, 51)
            assert len(dead.requests) == 4
            worker.stop()
            for conversation in tuple(dead.tasks):  # so that the attempts in flight end
                conversation.cancel()


async def test_the_living_are_claimed_for_at_their_first_event_whoever_stands_before_them(database_url: str) -> None:
    """WH-I01: sixty dead wait for a slot, a look reaches four, and nobody notifies twice."""
    slots = {"total": 8, "per_subscription": 4, "per_host": 100}
    async with delivery_harness(database_url) as harness, hostile_server(hang) as dead, hostile_server() as server:
        await harness.subscribe(server.url("/ok"))
        await harness.deliver(b"first")
        options = {"claim_subscriptions_max": 1, "timeout_seconds": 300, "poll_seconds": HOUR}
        async with harness.working(slots=slots, **options) as worker:
            await harness.settled()
            for number in range(60):
                await harness.subscribe(dead.url(f"/{number}"), topic="dead")
            await harness.publish(b"x", topic="dead")
            await harness.fan_out(due=worker.mark_due)
            await arrived(dead, 4)
            await harness.publish(b"second")
            await harness.fan_out(due=worker.mark_due)
            await arrived(server, 2)
            worker.stop()
            for conversation in tuple(dead.tasks):  # so that the attempts in flight end
                conversation.cancel()


async def test_who_has_nothing_more_keeps_nobody_waiting(database_url: str) -> None:
    """After a burst all its subscribers are asked about once more; an event that comes meanwhile waits for no other."""
    sink = Held()
    async with delivery_harness(database_url) as harness, hostile_server(sink) as server:
        for number in range(20):
            await harness.subscribe(server.url(f"/{number}"), topic="burst")
        await harness.subscribe(server.url("/ok"))
        await harness.deliver(b"first", topic="burst")
        async with harness.working(claim_subscriptions_max=2, poll_seconds=HOUR) as worker:
            await arrived(server, 20)
            sink.release.set()  # all succeed at once
            await harness.settled(20)
            await harness.publish(b"second")
            await harness.fan_out(due=worker.mark_due)
            await arrived(server, 21)


async def test_a_hot_topic_takes_its_share_and_no_more(database_url: str) -> None:
    """WH-I11: a single delivery, the latest of all, is made before a twentieth of the backlog of another topic."""
    async with delivery_harness(database_url) as harness, hostile_server() as server:
        for name in "abcd":
            await harness.subscribe(server.url(f"/ok?{name}"), topic="hot")
        await harness.subscribe(server.url("/ok?quiet"))
        await harness.deliver(*[b"x"] * 500, topic="hot")
        await harness.deliver(b"x")
        async with harness.working(claim_max=40):
            await harness.drained()
        places = [place for place, request in enumerate(server.requests) if request.target == b"/ok?quiet"]
        assert (len(server.requests), len(places), places[0] < 100) == (2001, 1, True)


async def test_a_subscriber_that_dies_with_a_full_queue_gives_it_back(database_url: str) -> None:
    """It was fast and was read ahead; its failures must not keep others from being claimed."""
    alive = asyncio.Event()

    async def script(conversation: Conversation) -> None:
        while True:
            await conversation.read_request()
            await conversation.send(answer(500) if alive.is_set() else OK)

    async with delivery_harness(database_url) as harness, hostile_server(script) as dying:
        subscription = await harness.subscribe(dying.url())
        await harness.deliver(b"first")
        slots = {"total": 4, "per_subscription": 1}
        async with harness.working(slots=slots, claim_max=40, schedule_seconds=(HOUR,)) as worker:
            await harness.settled()
            alive.set()
            await harness.publish(*(b"%d" % n for n in range(30)))
            await harness.fan_out(due=worker.mark_due)
            await harness.settled(31)
            assert worker._schedule.waiting == 0
        assert [attempts for _, _, attempts, _ in await harness.deliveries(subscription)] == [1] * 30


# --- stopping, and a database that goes away --------------------------------------------------------------------


async def test_a_soft_stop_finishes_what_is_in_flight_and_gives_back_the_rest_uncounted(database_url: str) -> None:
    """WH-R11."""
    sink = Held()
    async with delivery_harness(database_url) as harness, hostile_server(sink) as server:
        subscription = await harness.subscribe(server.url())
        await harness.deliver(*(b"%d" % n for n in range(12)))
        slots = {"total": 8, "per_subscription": 16, "per_host": 4}
        async with harness.working(slots=slots) as worker:
            await arrived(server, 2)
            await until(lambda: claimed(harness, 4))
            worker.stop()
            sink.release.set()
        left = await harness.deliveries(subscription)
        assert (len(server.requests), len(await harness.attempts("number"))) == (2, 2)
        assert {(attempts, has_claim) for _, _, attempts, has_claim in left} == {(0, False)}
        assert len(left) == 10
        due = await harness.sql.fetchval("SELECT count(*) FROM hookwire.deliveries WHERE due_at <= now()")
        assert due == 10


async def test_an_idle_worker_stops_at_once(database_url: str) -> None:
    async with delivery_harness(database_url) as harness, harness.working(poll_seconds=HOUR):
        await asyncio.sleep(0)


async def test_results_wait_while_the_database_is_away_and_nothing_is_sent_twice(database_url: str) -> None:
    """F42: the outage is longer than the lease; what was sent is put on record before anything is claimed again."""
    sink = Held()
    async with delivery_harness(database_url) as harness, hostile_server(sink) as server:
        await harness.subscribe(server.url(), timeout_seconds=60.0)
        gated = Gated(harness.database)
        gated.failing["delivery.settle"] = Unavailable("the test has taken the database away")
        await harness.deliver(*(b"%d" % n for n in range(20)))
        async with harness.working(database=gated):
            await arrived(server, 20)  # before the first result: from then on nothing is claimed
            sink.release.set()
            await until(lambda: tried(gated, "delivery.settle", 3))
            await harness.sql.execute("UPDATE hookwire.deliveries SET due_at = now()")  # the leases end
            polls = gated.passed["delivery.due_subscriptions"]
            await until(lambda: tried(gated, "delivery.due_subscriptions", polls + 3))
            assert (len(server.requests), len(await harness.attempts("number"))) == (20, 0)
            gated.failing.clear()
            await harness.drained()
        assert (len(server.requests), len(await harness.attempts("number"))) == (20, 20)


async def tried(gated: Gated, name: str, times: int) -> bool:
    return gated.passed[name] >= times


@pytest.mark.parametrize("name", ["delivery.claim", "delivery.due_subscriptions", "delivery.events"])
async def test_a_database_that_was_away_is_asked_again(database_url: str, name: str) -> None:
    async with delivery_harness(database_url) as harness, hostile_server() as server:
        await harness.subscribe(server.url("/ok"), timeout_seconds=3.0)
        gated = Gated(harness.database)
        gated.failing[name] = Unavailable("the test has taken the database away")
        await harness.deliver(b"{}")
        async with harness.working(database=gated, lease_margin_seconds=0.1):
            await until(lambda: tried(gated, name, 1))
            gated.failing.clear()
            await harness.drained()
        assert bodies(server) == [b"{}"]


async def test_a_poll_that_failed_late_is_repeated_soon(database_url: str) -> None:
    """A poll rests for twenty times its duration; one that the database did not answer is no measure of that."""
    async with delivery_harness(database_url) as harness, hostile_server() as server:
        await harness.subscribe(server.url("/ok"), timeout_seconds=60.0)
        gated = Gated(harness.database)
        name = "delivery.due_subscriptions"
        gated.gates[name], gated.failing[name] = asyncio.Event(), Unavailable("the test has taken the database away")
        await harness.deliver(b"{}")
        async with harness.working(database=gated, lease_margin_seconds=0.1):
            await until(lambda: tried(gated, name, 1))
            await lasts(2)
            gated.gates.pop(name).set()
            await until(lambda: gated.passed[name] == 2)
            gated.failing.clear()
            async with asyncio.timeout(20):
                await harness.drained()
        assert bodies(server) == [b"{}"]
