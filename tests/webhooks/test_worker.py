"""webhooks/worker.py on a real database and real sinks: what an answer means, for its delivery and its subscription."""

import asyncio
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest

from tests.hostile.authority import Authority
from tests.hostile.server import Conversation, Received, Script, answer, hostile_server
from tests.waiting import until
from tests.webhooks.harness import WAIT_SECONDS_MAX, Harness, delivery_harness

HOUR = 3600
OK = answer(204)


def held(received: list[bytes], release: asyncio.Event, reply: bytes = OK) -> Script:
    """Note each request at once, answer only when released."""

    async def script(conversation: Conversation) -> None:
        while True:
            request = await conversation.read_request()
            received.append(request.body)
            await release.wait()
            await conversation.send(reply)

    return script


def by_body(answers: dict[bytes, list[bytes]], default: bytes = OK) -> Script:
    """Give each body its own answers, one after the other."""

    async def script(conversation: Conversation) -> None:
        while True:
            request = await conversation.read_request()
            mine = answers.get(request.body)
            await conversation.send(mine.pop(0) if mine else default)

    return script


def bodies(requests: list[Received]) -> list[bytes]:
    return [request.body for request in requests]


async def wait_seconds(harness: Harness, event: int) -> float:
    """How far ahead a delivery is due, by the database's clock at its settlement."""
    due = await harness.sql.fetchval(
        "SELECT d.due_at - a.started_at FROM hookwire.deliveries d JOIN hookwire.attempts a"
        " USING (event_id, subscription_id) WHERE event_id = $1 ORDER BY a.number DESC LIMIT 1",
        event,
    )
    assert isinstance(due, timedelta)
    return due.total_seconds()


# --- the status matrix ------------------------------------------------------------------------------------------

DELIVERED = ("delivered", "delivered", "active")
RETRY = "retry"
SILENT = ("/hang", "/drip-head")
MATRIX: list[tuple[str, tuple[str, str, str]]] = [
    *((f"/status/{code}", DELIVERED) for code in (200, 201, 202, 203, 204, 299)),
    *((f"/redirect/{code}", ("redirect", RETRY, "active")) for code in (301, 302, 303, 307, 308)),
    *((f"/status/{code}", ("client_error", RETRY, "active")) for code in (400, 401, 404, 408, 415, 425)),
    ("/status/413", ("client_error", "dead", "active")),
    ("/status/410", ("gone", "dead", "gone")),
    *((f"/status/{code}", ("throttled", RETRY, "active")) for code in (429, 502, 504)),
    *((f"/status/{code}", ("server_error", RETRY, "active")) for code in (500, 503)),
    ("/hang", ("timeout", RETRY, "active")),
    ("/drip-head", ("timeout", RETRY, "active")),
    ("/reset-now", ("connect", RETRY, "active")),
    ("/close-now", ("connect", RETRY, "active")),
    ("/garbage", ("bad_response", RETRY, "active")),
    ("/endless", DELIVERED),
    ("/bomb", DELIVERED),
    ("/reset-in-body", DELIVERED),
]


@pytest.mark.parametrize("protocol", ["webhook", "websub"])
async def test_each_status_has_the_outcome_that_the_matrix_names(database_url: str, protocol: str) -> None:
    """WH-T11, WS-55..WS-60, DL-1, DL-4, DL-5, TG-D.

    Kind, decision and subscription's state of every answer; nothing follows a redirect. Only what never answers has a
    short deadline, so that no other outcome depends on the machine's speed."""
    async with delivery_harness(database_url) as harness, hostile_server() as server:
        make = harness.subscribe if protocol == "webhook" else harness.subscribe_websub
        deadlines = dict.fromkeys(SILENT, 0.3)
        paths = {await make(server.url(path), timeout_seconds=deadlines.get(path)): path for path, _ in MATRIX}
        (event,) = await harness.deliver(b"{}")
        async with harness.working(schedule_seconds=(HOUR,), timeout_seconds=WAIT_SECONDS_MAX):
            await harness.settled(len(paths))
            await until_quiet(harness)
        found = {
            paths[subscription]: (outcome, decision, state)
            for subscription, outcome, decision, state in await harness.sql.fetch(
                "SELECT s.id, a.outcome, a.decision, s.state FROM hookwire.attempts a"
                " JOIN hookwire.subscriptions s ON s.id = a.subscription_id"
            )
        }
        assert found == dict(MATRIX)
        dead = Counter(kind for _, kind, _, _ in await harness.dead_letters())
        assert dead == Counter(declined=1, gone=1)
        open_ones = {paths[subscription] for _, subscription, *_ in await harness.deliveries()}
        assert open_ones == {path for path, (_, decision, _) in MATRIX if decision == RETRY}
        assert all(request.target != b"/ok" for request in server.requests)
        assert 0.8 * HOUR < await wait_seconds(harness, event) < 1.2 * HOUR + 60


async def until_quiet(harness: Harness) -> None:
    """Waits until the ends of subscriptions, which follow the settlement, are on record."""

    async def gone() -> bool:
        return bool(
            await harness.sql.fetchval("SELECT EXISTS (SELECT FROM hookwire.subscriptions WHERE state = 'gone')")
        )

    await until(gone)


async def test_a_target_that_refuses_the_connection_is_retried(database_url: str, free_port: int) -> None:
    """WH-T11."""
    async with delivery_harness(database_url) as harness:
        await harness.subscribe(f"http://127.0.0.1:{free_port}/")
        await harness.deliver(b"{}")
        async with harness.working(schedule_seconds=(HOUR,)):
            await harness.settled()
        assert await harness.attempts("outcome", "decision", "status") == [("connect", "retry", None)]


async def test_a_handshake_that_fails_is_retried(database_url: str, tmp_path: Path) -> None:
    """WH-14, WH-T11: the certificate is nobody's that we know."""
    tls = Authority(tmp_path).context("127.0.0.1")
    async with delivery_harness(database_url) as harness, hostile_server(tls=tls) as server:
        await harness.subscribe(server.url("/ok"))
        await harness.deliver(b"{}")
        async with harness.working(schedule_seconds=(HOUR,), timeout_seconds=2.0):
            await harness.settled()
        assert await harness.attempts("outcome", "decision", "status") == [("tls", "retry", None)]


async def test_a_target_that_the_guard_refuses_gets_no_packet_and_is_retried(database_url: str) -> None:
    """WH 4.1 `blocked`: at the URL check and at the address check."""
    async with delivery_harness(database_url) as harness:
        await harness.subscribe("http://10.0.0.1:8000/")
        await harness.subscribe("http://127.0.0.1:5432/")
        await harness.deliver(b"{}")
        async with harness.working(schedule_seconds=(HOUR,)):
            await harness.settled(2)
        assert await harness.attempts("outcome", "decision", "connect_seconds") == [("blocked", "retry", None)] * 2


async def test_an_attempt_leaves_a_row_that_tells_all_of_it(database_url: str) -> None:
    """WH-P06, WH-R14."""
    fields = ("Retry-After: 7", "Content-Type: text/plain", "Webhook-Delivery: whatever", "X-Other: 1")
    async with (
        delivery_harness(database_url) as harness,
        hostile_server(by_body({}, answer(503, b"why", *fields))) as server,
    ):
        subscription = await harness.subscribe(server.url("/"))
        (event,) = await harness.deliver(b"{}")
        async with harness.working(schedule_seconds=(1,), name="worker-7"):
            await harness.settled()
        row = await harness.sql.fetchrow("SELECT * FROM hookwire.attempts")
        timed = ("started_at", "connect_seconds", "first_byte_seconds", "total_seconds")
        times = [row[name] for name in timed[1:]]
        assert (times == sorted(times), all(seconds > 0 for seconds in times)) == (True, True)
        assert {name: value for name, value in row.items() if name not in timed} == {
            "event_id": event, "subscription_id": subscription, "number": 1, "tenant": "default", "status": 503,
            "outcome": "server_error", "decision": "retry", "trigger": "first", "worker": "worker-7",
            "address": "127.0.0.1", "detail": None, "response_body": b"why",
            "response_headers": '{"retry-after": "7", "content-type": "text/plain", "webhook-delivery": "whatever"}',
        }  # fmt: skip
        last = await harness.sql.fetchrow("SELECT last_outcome, last_status, attempts FROM hookwire.deliveries")
        assert tuple(last) == ("server_error", 503, 1)


# --- when again -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "fields", "seconds"),
    [
        (503, ["Retry-After: 120"], 120),
        (500, ["Retry-After: 120"], 120),
        (429, ["Retry-After: 120"], 120),
        (404, ["Retry-After: 120"], 120),
        (503, ["Retry-After: 1000000000"], 3600),
        (503, ["Retry-After: -5"], 50),
        (503, ["Retry-After: soon"], 50),
        (503, ["Retry-After: Wed, 21 Oct 2015 07:28:00 GMT"], 50),
        (503, ["Retry-After: Fri, 31 Dec 2055 23:59:59 GMT"], 3600),
        (503, ["Retry-After: 90", "Retry-After: 120"], 120),
        (503, ["Retry-After: 10"], 50),
        (503, [], 50),
    ],
)
async def test_the_next_attempt_is_not_before_retry_after(
    database_url: str, status: int, fields: list[str], seconds: float
) -> None:
    """WH-T10, WH-R05, WH-R06: with the least jitter; garbage and the past mean the schedule's 50 s."""
    async with (
        delivery_harness(database_url) as harness,
        hostile_server(by_body({}, answer(status, b"", *fields))) as server,
    ):
        await harness.subscribe(server.url("/"))
        (event,) = await harness.deliver(b"{}")
        async with harness.working(schedule_seconds=(50,), chance=lambda: 0.5 if seconds == 50 else 0.0):
            await harness.settled()
        assert seconds <= await wait_seconds(harness, event) < seconds + 5


async def test_jitter_moves_the_pause_by_a_fifth_both_ways(database_url: str) -> None:
    """WH-R02."""
    async with delivery_harness(database_url) as harness, hostile_server() as server:
        await harness.subscribe(server.url("/status/500"))
        waits = []
        for chance in (0.0, 0.999999):
            (event,) = await harness.deliver(b"{}")
            async with harness.working(schedule_seconds=(1000,), chance=lambda chance=chance: chance):
                await harness.settled(len(waits) + 1)
            waits.append(round(await wait_seconds(harness, event), -1))
        assert waits == [800, 1200]


async def test_a_subscription_s_own_schedule_and_deadline_count(database_url: str) -> None:
    """WH-R01, WH-R12."""
    async with delivery_harness(database_url) as harness, hostile_server() as server:
        await harness.subscribe(server.url("/hang"), retry_schedule_seconds=[500], timeout_seconds=0.1)
        (event,) = await harness.deliver(b"{}")
        async with harness.working(schedule_seconds=(0,), timeout_seconds=30):
            await harness.settled()
        (seconds,) = (await harness.attempts("total_seconds"))[0]
        assert 0.1 <= seconds < 30
        assert 500 <= await wait_seconds(harness, event) < 510


async def test_a_delivery_that_is_too_old_for_another_attempt_is_a_dead_letter_with_that_reason(
    database_url: str,
) -> None:
    """WH-R01, WH-R08: by the subscription's own limit; the other one goes by the hub's."""
    slow = answer(503, b"", "Retry-After: 300")
    async with delivery_harness(database_url) as harness, hostile_server(by_body({}, slow)) as server:
        own = await harness.subscribe(server.url("/"), retry_age_seconds_max=200)
        other = await harness.subscribe(server.url("/"))
        (event,) = await harness.deliver(b"{}")
        async with harness.working(schedule_seconds=(HOUR,), age_seconds_max=2 * HOUR):
            await harness.settled(2)
        dead = await harness.sql.fetch("SELECT subscription_id, kind, detail FROM hookwire.dead_letters")
        assert [tuple(letter) for letter in dead] == [
            (own, "too_late", "Retry-After names a time after the age limit of 200 s")
        ]
        assert [row[:2] for row in await harness.deliveries()] == [(event, other)]


async def test_a_retry_after_is_not_believed_past_the_end_of_a_lease(database_url: str) -> None:
    """WH-R06: so that what is due when the lease ends is not owed beyond it."""
    slow = answer(503, b"", "Retry-After: 3000")
    async with delivery_harness(database_url) as harness, hostile_server(by_body({}, slow)) as server:
        subscription = await harness.subscribe_websub(server.url("/"))
        await harness.sql.execute(
            "UPDATE hookwire.subscriptions SET lease_until = now() + interval '100 s' WHERE id = $1", subscription
        )
        (event,) = await harness.deliver(b"{}")
        async with harness.working(schedule_seconds=(10,), chance=lambda: 0.0):
            await harness.settled()
        assert 90 <= await wait_seconds(harness, event) <= 100


async def test_why_a_delivery_waits_is_on_its_row(database_url: str) -> None:
    """WH-R14: class, code, duration and next time of the last attempt, in one query."""
    async with delivery_harness(database_url) as harness, hostile_server() as server:
        await harness.subscribe(server.url("/status/503"))
        await harness.deliver(b"{}")
        async with harness.working(schedule_seconds=(HOUR,)):
            await harness.settled()
        row = await harness.sql.fetchrow(
            "SELECT last_outcome, last_status, last_seconds > 0 AS took, due_at > now() AS later"
            " FROM hookwire.deliveries"
        )
        assert tuple(row) == ("server_error", 503, True, True)


async def test_a_4xx_or_a_410_means_what_the_subscription_says(database_url: str) -> None:
    """WH-R03, WH-R09."""
    async with delivery_harness(database_url) as harness, hostile_server() as server:
        final = await harness.subscribe(server.url("/status/404"), on_4xx="give_up")
        kept = await harness.subscribe(server.url("/status/410"), on_410="as_4xx")
        (event,) = await harness.deliver(b"{}")
        async with harness.working(schedule_seconds=(HOUR,)):
            await harness.settled(2)
        assert (await harness.dead_letters(), await harness.deliveries()) == (
            [(event, "declined", 1, 404)],
            [(event, kept, 1, False)],
        )
        assert [await harness.subscription(one) for one in (final, kept)] == [("active", None)] * 2


async def test_failures_are_repeated_by_the_schedule_until_one_succeeds(database_url: str) -> None:
    """WH-T03, WH-09, WS-59: the same body and id each time, delivered once; the timestamp is the attempt's."""
    replies = [answer(500), answer(404), OK]
    async with delivery_harness(database_url) as harness, hostile_server(by_body({b"{}": replies})) as server:
        await harness.subscribe(server.url("/"))
        (event,) = await harness.deliver(b"{}")
        async with harness.working(schedule_seconds=(0, 0)):
            await harness.drained()
        assert await harness.attempts("number", "status", "decision", "trigger") == [
            (1, 500, "retry", "first"),
            (2, 404, "retry", "retry"),
            (3, 204, "delivered", "retry"),
        ]
        assert {(r.body, r.header("webhook-id")) for r in server.requests} == {(b"{}", await event_id(harness, event))}


async def event_id(harness: Harness, event: int) -> bytes:
    return f"evt_abcd2345_{event}".encode()


async def test_an_exhausted_schedule_is_a_dead_letter_and_the_subscription_stays(database_url: str) -> None:
    """WH-24, WH-R13, WS-60, DL-7."""
    async with delivery_harness(database_url) as harness, hostile_server() as server:
        subscription = await harness.subscribe(server.url("/status/500"))
        (event,) = await harness.deliver(b"{}")
        async with harness.working(schedule_seconds=(0, 0)):
            await harness.drained()
        assert await harness.dead_letters() == [(event, "exhausted", 3, 500)]
        assert [decision for (decision,) in await harness.attempts("decision")] == ["retry", "retry", "dead"]
        assert (await harness.subscription(subscription), len(server.requests)) == (("active", None), 3)


# --- what an answer means for the subscription ------------------------------------------------------------------


async def test_a_410_ends_the_subscription_and_buries_what_it_was_owed(database_url: str) -> None:
    """WH-R09: also what this worker had claimed already; another subscription goes on."""
    async with delivery_harness(database_url) as harness, hostile_server() as server:
        subscription = await harness.subscribe(server.url("/status/410"))
        other = await harness.subscribe(server.url("/ok"))
        events = await harness.deliver(*(b"%d" % n for n in range(30)))
        async with harness.working(slots={"per_subscription": 1}):
            await harness.drained()
        gone = [request for request in server.requests if request.target == b"/status/410"]
        letters = await harness.dead_letters()
        assert (len(gone), await harness.subscription(subscription)) == (1, ("gone", "answered 410"))
        assert ([(e, kind) for e, kind, *_ in letters], await harness.subscription(other)) == (
            [(e, "gone") for e in events],
            ("active", None),
        )
        assert await harness.attempts("outcome", subscription=subscription) == [("gone",)]


async def test_a_410_drops_what_a_websub_subscription_was_owed(database_url: str) -> None:
    """DL-2, WS-56: the answered one is a dead letter, the queue is not."""
    async with delivery_harness(database_url) as harness, hostile_server() as server:
        subscription = await harness.subscribe_websub(server.url("/status/410"))
        first, *_ = await harness.deliver(*(b"%d" % n for n in range(5)), key="k")
        async with harness.working():
            await harness.drained()
        assert (await harness.dead_letters(), await harness.subscription(subscription)) == (
            [(first, "gone", 1, 410)],
            ("gone", "answered 410"),
        )


async def test_a_410_of_an_address_that_was_changed_meanwhile_ends_nothing(database_url: str) -> None:
    """WH-I10: the answer is the old callback's."""
    release = asyncio.Event()
    received: list[bytes] = []
    async with (
        delivery_harness(database_url) as harness,
        hostile_server(held(received, release, answer(410))) as server,
    ):
        subscription = await harness.subscribe(server.url("/"))
        await harness.deliver(b"{}")
        async with harness.working():
            await server.until(lambda _: bool(received))
            await harness.change(subscription, callback=server.url("/new"))
            release.set()
            await harness.settled()
        assert await harness.subscription(subscription) == ("active", None)


@pytest.mark.parametrize(("fields", "seconds"), [(["Retry-After: 300"], 300), ([], 60)])
async def test_a_429_pauses_the_whole_subscription(database_url: str, fields: list[str], seconds: float) -> None:
    """WH-R07: nothing more is sent, also not what was claimed already, and waiting costs no attempts."""
    throttled = by_body({}, answer(429, b"", *fields))
    async with (
        delivery_harness(database_url) as harness,
        hostile_server(throttled) as server,
        hostile_server() as other,
    ):
        subscription = await harness.subscribe(server.url("/"))
        await harness.subscribe(other.url("/ok"))
        first, *rest = await harness.deliver(*(b"%d" % n for n in range(30)))
        async with harness.working(slots={"per_subscription": 1}, schedule_seconds=(0, 0)):
            await harness.settled(31)
            await until(lambda: given_back(harness, subscription))
        paused = await harness.sql.fetchval(
            "SELECT extract(epoch FROM paused_until - now())::float FROM hookwire.subscriptions WHERE id = $1",
            subscription,
        )
        assert (len(server.requests), seconds - 20 < paused <= seconds) == (1, True)
        assert await harness.deliveries(subscription) == [
            (first, subscription, 1, False),
            *((event, subscription, 0, False) for event in rest),
        ]


async def given_back(harness: Harness, subscription: int) -> bool:
    return not any(claimed for *_, claimed in await harness.deliveries(subscription))


async def test_after_its_pause_a_subscription_is_sent_to_again(database_url: str) -> None:
    replies = [answer(429, b"", "Retry-After: 1")]
    async with delivery_harness(database_url) as harness, hostile_server(by_body({b"a": replies})) as server:
        await harness.subscribe(server.url("/"))
        await harness.deliver(b"a", b"b")
        started = time.monotonic()
        async with harness.working(slots={"per_subscription": 1}):
            await harness.drained()
        assert (sorted(bodies(server.requests)), time.monotonic() - started >= 1) == ([b"a", b"a", b"b"], True)


async def test_abort_message_ends_the_delivery_alone(database_url: str) -> None:
    """WH-07, WH-R10: on a failure; on a success it means nothing."""
    reply = {b"bad": [answer(422, b"", "Webhook-Delivery: Abort-Message")]}
    fine = answer(200, b"", "Webhook-Delivery: abort-message")
    async with delivery_harness(database_url) as harness, hostile_server(by_body(reply, fine)) as server:
        subscription = await harness.subscribe(server.url("/"))
        bad, _ = await harness.deliver(b"bad", b"good")
        async with harness.working(schedule_seconds=(HOUR,)):
            await harness.drained()
        assert (await harness.dead_letters(), await harness.subscription(subscription)) == (
            [(bad, "aborted", 1, 422)],
            ("active", None),
        )


@pytest.mark.parametrize(("status", "decision", "left"), [(200, "delivered", 2), (500, "retry", 3)])
async def test_disable_stops_the_subscription_and_the_delivery_goes_as_the_status_says(
    database_url: str, status: int, decision: str, left: int
) -> None:
    """WH-R10, WH-10: what it is owed waits and is there when it is enabled again."""
    reply = answer(status, b"", "Webhook-Delivery: disable")
    async with delivery_harness(database_url) as harness, hostile_server(by_body({}, reply)) as server:
        subscription = await harness.subscribe(server.url("/"))
        await harness.deliver(b"1", b"2", b"3")
        async with harness.working(slots={"per_subscription": 1}, schedule_seconds=(0,)):
            await harness.settled()
            await until(lambda: given_back(harness, subscription))
        assert await harness.subscription(subscription) == ("disabled", "asked_by_receiver")
        assert (await harness.attempts("decision"), len(await harness.deliveries()), len(server.requests)) == (
            [(decision,)],
            left,
            1,
        )
        await harness.change(subscription, state="active", callback=server.url("/"))
        async with harness.working(slots={"per_subscription": 1}, schedule_seconds=(0,)):
            await harness.settled(2)
