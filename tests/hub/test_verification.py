"""Requests against a real database and a scripted subscriber: what is asked, and what becomes of it."""

import asyncio

import pytest

from app.log import configure_logging
from egress.client import Client, ConnectFailed, Request, Response
from egress.guard import GuardPolicy
from egress.resolver import ThreadResolver
from hub.form import FormRefused, Mode
from tests.hub.callback import after, answers, hang, reset
from tests.hub.harness import POLICY, TOPIC, hub_harness
from tests.waiting import until

BEHAVIOURS = {
    "/echo-200": answers(200),
    "/echo-201": answers(201, headers="Content-Type: application/octet-stream\r\n"),
    "/echo-202": answers(202, headers="Content-Type: text/plain\r\n"),
    "/empty-204": answers(204, b""),
    "/wrong-body": answers(200, b"no"),
    "/302": answers(302, headers="Location: /echo-200\r\n"),
    "/404": answers(404),
    "/410": answers(410),
    "/500": answers(500),
    "/reset": reset,
    "/endless": answers(200, b"x" * 10_000_000),
    "/hang": hang,
}
CONFIRMING = {"/echo-200", "/echo-201", "/echo-202"}


class Gated:
    """An outbound port that holds each answer back until it may pass."""

    def __init__(self) -> None:
        self._client = Client(POLICY, ThreadResolver())
        self.answered = asyncio.Event()
        self.gate = asyncio.Event()

    async def send(self, request: Request) -> Response:
        response = await self._client.send(request)
        self.answered.set()
        await self.gate.wait()
        return response

    async def aclose(self) -> None:
        await self._client.aclose()


class Unreachable:
    """An outbound port without a network."""

    def __init__(self) -> None:
        self.challenges: list[str] = []

    async def send(self, request: Request) -> Response:
        self.challenges.append(request.target.raw.partition("hub.challenge=")[2].partition("&")[0])
        raise ConnectFailed("the connection was refused")

    async def aclose(self) -> None:
        return


# --- what counts as a confirmation ------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("active", [False, True], ids=["new", "active"])
async def test_only_a_success_that_echoes_the_challenge_changes_anything(
    database_url: str, mode: Mode, active: bool
) -> None:
    """TG-A; WS-18, WS-19, WS-40, WS-43..WS-46, F38: 12 behaviours x subscribe/unsubscribe x new/active."""
    async with hub_harness(database_url) as harness:
        async with harness.verifying():
            for path in BEHAVIOURS if active else ():
                await harness.subscribed(callback=harness.callbacks.url(path), secret=b"A")
        harness.callbacks.script |= BEHAVIOURS
        harness.callbacks.targets.clear()

        async with harness.verifying():
            intents = [
                await harness.ask(mode, harness.callbacks.url(path), secret=b"B")
                for path in BEHAVIOURS
                if path != "/hang"
            ]
            await harness.decided(*intents)
        async with harness.verifying(verification_deadline_seconds=0.2):
            intents.append(await harness.ask(mode, harness.callbacks.url("/hang"), secret=b"B"))
            states = await harness.decided(*intents)

        assert states == ["verified" if path in CONFIRMING else "failed" for path in BEHAVIOURS]
        untouched = ("active", 1, "A") if active else None
        confirmed = ("active", 2 if active else 1, "B")
        if mode is Mode.UNSUBSCRIBE:
            confirmed = ("deleted", 2, None) if active else None
        found = {path: rest for path, *rest in await harness.subscriptions()}
        assert {path: tuple(found[path]) if path in found else None for path in BEHAVIOURS} == {
            path: confirmed if path in CONFIRMING else untouched for path in BEHAVIOURS
        }
        # One GET each: an HTTP answer is final, and the redirect's target got none (WS-44).
        assert [len(harness.callbacks.queries(path)) for path in BEHAVIOURS] == [1] * len(BEHAVIOURS)


async def test_a_callback_that_cannot_be_reached_is_tried_thrice_and_then_never_active(database_url: str) -> None:
    """WS-42, WS-46."""
    outbound = Unreachable()
    async with hub_harness(database_url, verification_retries=(0.01, 0.02)) as harness, harness.verifying(outbound):
        states = await harness.decided(await harness.ask())

        assert (states, len(set(outbound.challenges)), await harness.subscriptions()) == (["failed"], 3, [])


async def test_a_target_that_the_guard_refuses_is_not_tried_again(database_url: str) -> None:
    """WS-100: the name passed the static check, its address does not pass at connect time."""
    strict = Client(GuardPolicy(allow_high_ports=True), ThreadResolver(lookup=lambda _: ["127.0.0.1"]))
    async with hub_harness(database_url, verification_retries=(60.0,)) as harness, harness.verifying(strict):
        states = await harness.decided(await harness.ask(callback=harness.callbacks.url(host="rebound.example")))

        reason = await harness.sql.fetchval("SELECT reason FROM hookwire.intents")
        assert (states, reason, harness.callbacks.targets) == (["failed"], "the target is not allowed", [])


# --- what is asked ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("callback", "start"),
    [
        ("/cb", "/cb?hub.mode="),
        ("/cb?", "/cb?hub.mode="),
        ("/cb?foo=bar&red=fish", "/cb?foo=bar&red=fish&hub.mode="),
        ("/cb?x=1&", "/cb?x=1&&hub.mode="),
        ("/cb?^z=y&a=b&a=a", "/cb?^z=y&a=b&a=a&hub.mode="),
        ("/a/../cb?a=%2f+%20&%7E", "/a/../cb?a=%2f+%20&%7E&hub.mode="),
        ("/cb?a&b=&=c", "/cb?a&b=&=c&hub.mode="),
        ('/cb?a="q"', '/cb?a="q"&hub.mode='),
        ("/cb?é", "/cb?%C3%A9&hub.mode="),
        ("/cb?hub.challenge=imahacker&hub.mode=x", "/cb?hub.challenge=imahacker&hub.mode=x&hub.mode="),
    ],
)
async def test_a_callback_s_own_query_comes_first_byte_for_byte(database_url: str, callback: str, start: str) -> None:
    """TG-B; WS-24, WS-25, WS-27."""
    async with hub_harness(database_url) as harness, harness.verifying():
        await harness.ask(callback=harness.callbacks.url(callback))
        await harness.callbacks.wait_for(1)

        assert harness.callbacks.targets[0][: len(start)] == start


async def test_the_topic_goes_back_as_it_was_sent(database_url: str) -> None:
    """WS-23, WS-40, WS-41, WS-53: compared after decoding, echoed undecoded, advertised in its canonical form."""
    async with hub_harness(database_url) as harness, harness.verifying():
        await harness.subscribed(topic_url="HTTP://Hub.Example/topics/%61", lease_seconds=120, verify_token="t&t")
        await harness.decided(await harness.ask(Mode.UNSUBSCRIBE))

        first, second = harness.callbacks.queries()
        challenges = [query.pop("hub.challenge") for query in (first, second)]
        row = await harness.sql.fetchrow("SELECT topic, topic_url, state, ordered FROM hookwire.subscriptions")
        assert challenges[0] != challenges[1]
        assert first == {
            "hub.mode": ["subscribe"],
            "hub.topic": ["HTTP://Hub.Example/topics/%61"],
            "hub.lease_seconds": ["120"],
            "hub.verify_token": ["t&t"],
        }
        assert second == {"hub.mode": ["unsubscribe"], "hub.topic": [TOPIC]}
        assert tuple(row) == ("a", TOPIC, "deleted", True)


@pytest.mark.parametrize(("wish", "lease_seconds"), [(None, 300), (1, 60), (10**12, 600), (120, 120)])
async def test_the_lease_is_told_bounded_and_counted_from_the_get(
    database_url: str, wish: int | None, lease_seconds: int
) -> None:
    """TG-C; WS-03, WS-41, WS-47, WS-49."""
    bounds = {"lease_seconds_default": 300, "lease_seconds_max": 600}
    async with hub_harness(database_url, **bounds) as harness, harness.verifying():
        gate = asyncio.Event()
        harness.callbacks.script["/cb"] = after(gate, answers(200))
        before = await harness.sql.fetchval("SELECT clock_timestamp()")
        intent = await harness.ask(lease_seconds=wish)
        await harness.callbacks.wait_for(1)
        asked = await harness.sql.fetchval("SELECT clock_timestamp()")
        gate.set()
        await harness.decided(intent)

        lease_until = await harness.sql.fetchval("SELECT lease_until FROM hookwire.subscriptions")
        assert harness.callbacks.queries()[0]["hub.lease_seconds"] == [str(lease_seconds)]
        assert 0 <= (lease_until - before).total_seconds() - lease_seconds <= (asked - before).total_seconds()


# --- renewals, withdrawals, ends --------------------------------------------------------------------------------------


async def test_a_renewal_replaces_secret_method_and_lease_entirely(database_url_both: str) -> None:
    """WS-04, WS-18, WH-S19: the last one has no secret, so nothing is signed any more."""
    async with hub_harness(database_url_both) as harness, harness.verifying():
        seen = []
        for more in ({"secret": b"A"}, {"secret": b"B", "signature_method": "sha1"}, {}):
            await harness.subscribed(**more)
            method = await harness.sql.fetchval("SELECT signature_method FROM hookwire.subscriptions")
            seen.append((method, await harness.subscriptions()))

        assert seen == [
            ("sha256", [("/cb", "active", 1, "A")]),
            ("sha1", [("/cb", "active", 2, "B")]),
            ("sha256", [("/cb", "active", 3, None)]),
        ]


async def test_callbacks_that_differ_only_in_escapes_are_one_subscription(database_url: str) -> None:
    """WS-20, WS-23: the spelling of the latest request is the one that is used."""
    async with hub_harness(database_url) as harness, harness.verifying():
        for callback in ("/cb?u=~1", "/cb?u=%7E1", "/cb?u=~2"):
            await harness.subscribed(callback=harness.callbacks.url(callback))

        assert await harness.subscriptions() == [("/cb?u=%7E1", "active", 2, None), ("/cb?u=~2", "active", 1, None)]


async def test_twenty_identical_requests_at_once_make_one_subscription(database_url: str) -> None:
    """WS-04, TG-H."""
    async with hub_harness(database_url) as harness, harness.verifying():
        intents = await asyncio.gather(*(harness.ask() for _ in range(20)))
        states = await harness.decided(*intents)

        challenges = {query["hub.challenge"][0] for query in harness.callbacks.queries()}
        assert (states, len(challenges), len(await harness.subscriptions())) == (["verified"] * 20, 20, 1)


async def test_a_withdrawal_drops_what_was_owed_and_what_was_secret(database_url: str) -> None:
    """WS-05, DL-10."""
    async with hub_harness(database_url) as harness, harness.verifying():
        await harness.subscribed(secret=b"A")
        await harness.owe(3)
        await harness.decided(await harness.ask(Mode.UNSUBSCRIBE))

        owed = await harness.sql.fetchval("SELECT count(*) FROM hookwire.deliveries")
        assert (await harness.subscriptions(), owed) == ([("/cb", "deleted", 2, None)], 0)


async def test_who_comes_back_gets_a_new_subscription(database_url: str) -> None:
    """UD-04: what fell into the time without a subscription is not owed."""
    async with hub_harness(database_url) as harness, harness.verifying():
        await harness.subscribed(secret=b"A")
        await harness.decided(await harness.ask(Mode.UNSUBSCRIBE))
        await harness.subscribed(secret=b"B")

        assert await harness.subscriptions() == [("/cb", "deleted", 2, None), ("/cb", "active", 1, "B")]


async def test_withdrawing_what_does_not_exist_is_verified_and_does_nothing(database_url: str) -> None:
    """WS-28, HD-10."""
    async with hub_harness(database_url) as harness, harness.verifying():
        states = await harness.decided(await harness.ask(Mode.UNSUBSCRIBE))

        assert (states, await harness.subscriptions()) == (["verified"], [])


async def test_an_ended_lease_ends_the_subscription_and_drops_its_queue(database_url: str) -> None:
    """TG-C, WS-48, DL-10: also deliveries that an overlapping fan-out adds afterwards."""
    async with hub_harness(database_url, lease_seconds_min=1) as harness, harness.verifying():
        await harness.subscribed(secret=b"A", lease_seconds=1)
        await harness.owe(3)

        async def expired() -> bool:
            return await harness.subscriptions() == [("/cb", "expired", 2, None)]

        async def nothing_owed() -> bool:
            return await harness.sql.fetchval("SELECT count(*) FROM hookwire.deliveries") == 0

        await until(expired)
        await until(nothing_owed)
        await harness.owe(2)
        await until(nothing_owed)


async def test_old_requests_and_full_buckets_are_forgotten(database_url: str) -> None:
    async with hub_harness(database_url) as harness:
        async with harness.verifying():
            await harness.subscribed()
        await harness.sql.execute("UPDATE hookwire.intents SET decided_at = now() - interval '25 hours'")
        await harness.sql.execute("UPDATE hookwire.verification_buckets SET refilled_at = now() - interval '2 hours'")

        async def forgotten() -> bool:
            counts = (
                "SELECT (SELECT count(*) FROM hookwire.intents) + (SELECT count(*) FROM hookwire.verification_buckets)"
            )
            return await harness.sql.fetchval(counts) == 0

        async with harness.verifying():
            await until(forgotten)


# --- order of acceptance, crashes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("newer", Mode)
async def test_an_older_request_that_still_waits_is_superseded_by_a_newer_verified_one(
    database_url: str, newer: Mode
) -> None:
    """WS-103, TG-H."""
    async with hub_harness(database_url, verification_retries=(3600.0,)) as harness:
        older = await harness.ask(secret=b"A")
        async with harness.verifying(Unreachable()):
            await until(
                lambda: harness.sql.fetchval("SELECT attempts = 1 AND state = 'requested' FROM hookwire.intents")
            )
        async with harness.verifying():
            states = await harness.decided(older, await harness.ask(newer, secret=b"B"))

        stays = [("/cb", "active", 1, "B")] if newer is Mode.SUBSCRIBE else []
        assert (states, await harness.subscriptions()) == (["superseded", "verified"], stays)


async def test_requests_of_one_pair_are_asked_about_one_after_the_other(database_url: str) -> None:
    """WS-103: subscribe with a slow echo, then unsubscribe with a fast one."""
    async with hub_harness(database_url) as harness, harness.verifying():
        gate = asyncio.Event()
        harness.callbacks.script["/cb"] = after(gate, answers(200))
        first = await harness.ask()
        await harness.callbacks.wait_for(1)
        harness.callbacks.script["/cb"] = answers(200)
        second = await harness.ask(Mode.UNSUBSCRIBE)
        elsewhere = await harness.ask(Mode.UNSUBSCRIBE, harness.callbacks.url("/other"))
        await harness.decided(elsewhere)
        asked_meanwhile = len(harness.callbacks.queries())
        gate.set()
        states = await harness.decided(first, second)

        assert (asked_meanwhile, states, await harness.subscriptions()) == (
            1,
            ["verified", "verified"],
            [("/cb", "deleted", 2, None)],
        )


async def test_what_a_dead_process_left_is_asked_again_and_its_late_outcome_is_dropped(database_url: str) -> None:
    """WS-84, WS-42: the claim's end makes the row due; the number of the claim is the fence."""
    frozen = Gated()
    async with hub_harness(database_url, verification_slots=1) as harness, harness.verifying(frozen):
        intent = await harness.ask(secret=b"A")
        await asyncio.wait_for(frozen.answered.wait(), 20)
        await harness.sql.execute("UPDATE hookwire.intents SET due_at = now()")  # as if the claim's time were up
        healthy = harness.service(Client(POLICY, ThreadResolver()))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(healthy.run())
            states = await harness.decided(intent)
            healthy.stop()
        frozen.gate.set()
        await harness.decided(await harness.ask(callback=harness.callbacks.url("/sentinel")))

        challenges = {query["hub.challenge"][0] for query in harness.callbacks.queries()}
        assert (states, len(challenges)) == (["verified"], 2)
        assert await harness.subscriptions() == [("/cb", "active", 1, "A"), ("/sentinel", "active", 1, None)]


async def test_a_cancelled_service_leaves_its_requests_open(database_url: str) -> None:
    """A hard stop in the middle of a GET; ⟲ rows."""
    async with hub_harness(database_url) as harness:
        harness.callbacks.script["/cb"] = hang
        intent = await harness.ask()
        service = asyncio.create_task(harness.service(Client(POLICY, ThreadResolver())).run())
        await harness.callbacks.wait_for(1)
        service.cancel()
        await asyncio.wait([service], timeout=20)
        left = await harness.sql.fetchval("UPDATE hookwire.intents SET due_at = now() RETURNING state")
        harness.callbacks.script.clear()
        async with harness.verifying():
            assert (left, await harness.decided(intent)) == ("verifying", ["verified"])


async def test_a_soft_stop_finishes_what_is_under_way(database_url: str) -> None:
    async with hub_harness(database_url) as harness:
        gate = asyncio.Event()
        harness.callbacks.script["/cb"] = after(gate, answers(200))
        async with harness.verifying():
            intent = await harness.ask()
            await harness.callbacks.wait_for(1)
            asyncio.get_running_loop().call_soon(gate.set)

        assert await harness.decided(intent) == ["verified"]


async def test_a_request_whose_secret_cannot_be_read_any_more_fails_without_a_get(database_url: str) -> None:
    """SE-03: the subscriber must not get unsigned deliveries instead."""
    async with hub_harness(database_url) as harness:
        intent = await harness.ask(secret=b"A")
        await harness.sql.execute("UPDATE hookwire.intents SET key_id = 'lost'")
        async with harness.verifying():
            states = await harness.decided(intent)

        assert (states, harness.callbacks.targets, await harness.subscriptions()) == (["failed"], [], [])


# --- third parties ----------------------------------------------------------------------------------------------------


async def test_a_host_is_asked_one_thing_of_a_mode_at_a_time(database_url: str) -> None:
    """WS-101, AB-01: while one host hangs, another is asked (DL-11)."""
    async with hub_harness(database_url) as harness, harness.verifying():
        gate = asyncio.Event()
        for number in range(4):
            harness.callbacks.script[f"/{number}"] = after(gate, answers(200))
        held = [
            await harness.ask(mode, harness.callbacks.url(f"/{number}"))
            for number, mode in enumerate([Mode.SUBSCRIBE, Mode.SUBSCRIBE, Mode.UNSUBSCRIBE, Mode.UNSUBSCRIBE])
        ]
        await harness.callbacks.wait_for(2)
        free = await harness.ask(callback=harness.callbacks.url("/free", host="127.0.0.2"))
        free_states = await harness.decided(free)
        gate.set()
        await harness.decided(*held)

        assert free_states == ["verified"]
        assert harness.callbacks.open_most == {
            "127.0.0.1 subscribe": 1,
            "127.0.0.1 unsubscribe": 1,
            "127.0.0.2 subscribe": 1,
        }


async def test_surplus_requests_for_one_host_are_refused_for_a_while(database_url: str) -> None:
    """WS-101, F37: 40 requests at once, 10 a minute; another host is not affected."""
    async with hub_harness(database_url, verifications_per_minute_host=10) as harness, harness.verifying():
        started_at = asyncio.get_running_loop().time()
        results = await asyncio.gather(
            *(harness.ask(callback=harness.callbacks.url(f"/{number}")) for number in range(40)), return_exceptions=True
        )
        refused = [result for result in results if isinstance(result, FormRefused)]
        accepted = [result for result in results if isinstance(result, int)]
        await harness.decided(*accepted, await harness.ask(callback=harness.callbacks.url("/x", host="127.0.0.2")))

        refilled = (asyncio.get_running_loop().time() - started_at) * 10 / 60
        assert 10 <= len(accepted) <= 10 + refilled
        assert len(accepted) + len(refused) == 40
        assert len(harness.callbacks.targets) == len(accepted) + 1
        assert {(r.status, r.parameter, 1 <= (r.retry_after_seconds or 0) <= 6) for r in refused} == {
            (429, "hub.callback", True)
        }


async def test_surplus_requests_of_one_tenant_are_refused_for_a_while(database_url: str) -> None:
    """AB-01; what is refused leaves no trace in the host's bucket."""
    async with hub_harness(database_url, verifications_per_minute_tenant=1) as harness:
        await harness.ask()
        with pytest.raises(FormRefused) as refused:
            await harness.ask(callback=harness.callbacks.url(host="127.0.0.2"))

        hosts = await harness.sql.fetch("SELECT host FROM hookwire.verification_buckets WHERE tenant = ''")
        assert (refused.value.status, [row["host"] for row in hosts]) == (429, ["127.0.0.1"])


async def test_repeated_gets_are_paid_for_by_later_requests(database_url: str) -> None:
    """WS-101: two retries cost two tokens."""
    async with hub_harness(database_url, verification_retries=(0.01, 0.01), verifications_per_minute_host=3) as harness:
        async with harness.verifying(Unreachable()):
            await harness.decided(await harness.ask())
        with pytest.raises(FormRefused) as refused:
            await harness.ask(callback=harness.callbacks.url("/other"))

        assert refused.value.status == 429


async def test_a_pair_that_keeps_failing_waits_longer_and_longer(database_url: str) -> None:
    """AB-01: from the third failure in a row on; other pairs do not wait, and a success ends it."""
    async with hub_harness(database_url) as harness:
        harness.callbacks.script["/cb"] = answers(404)
        async with harness.verifying():
            for _ in range(3):
                await harness.decided(await harness.ask())
        await harness.ask()
        await harness.ask(callback=harness.callbacks.url("/other"))
        await harness.sql.execute("UPDATE hookwire.intents SET state = 'verified' WHERE id = 3")
        await harness.ask()

        delays = await harness.sql.fetch(
            "SELECT round(extract(epoch FROM due_at - created_at)) FROM hookwire.intents WHERE id > 3 ORDER BY id"
        )
        assert [row[0] for row in delays] == [1, 0, 0]


# --- acceptance -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "answer"),
    [
        ({"topic_url": "http://elsewhere.example/feed"}, (403, "hub.topic")),
        ({"topic_url": "http://hub.example/hub"}, (400, "hub.topic")),
        ({"topic_url": "javascript:x"}, (400, "hub.topic")),
        ({"topic_url": f"{TOPIC}#f"}, (400, "hub.topic")),
        ({"callback": "ftp://cb.example/"}, (400, "hub.callback")),
        ({"callback": "/relative"}, (400, "hub.callback")),
        ({"callback": "http://u:p@cb.example/"}, (400, "hub.callback")),
        ({"callback": "http://cb.example/#f"}, (400, "hub.callback")),
        ({"callback": "http://cb.example/\r\nX: y"}, (400, "hub.callback")),
        ({"callback": "http://cb.example/" + "x" * 2048}, (400, "hub.callback")),
        ({"callback": "http://10.0.0.1/"}, (403, "hub.callback")),
        ({"callback": "http://169.254.169.254/"}, (403, "hub.callback")),
        ({"callback": "http://localhost/"}, (403, "hub.callback")),
    ],
)
async def test_static_checks_refuse_before_anything_is_stored(
    database_url: str, wrong: dict[str, str], answer: tuple[int, str]
) -> None:
    """TG-F, WS-21, WS-27, WS-32, WS-69, B-26..B-28."""
    async with hub_harness(database_url) as harness:
        with pytest.raises(FormRefused) as refused:
            await harness.ask(**wrong)

        stored = await harness.sql.fetchval("SELECT count(*) FROM hookwire.intents")
        assert ((refused.value.status, refused.value.parameter), stored) == (answer, 0)


async def test_where_topics_are_registered_an_unknown_one_is_not_found(database_url: str) -> None:
    """UD-07, table 2.1."""
    async with hub_harness(database_url) as harness:
        await harness.sql.execute("UPDATE hookwire.installation SET topics_auto_create = false")
        await harness.sql.execute("INSERT INTO hookwire.topics (name) VALUES ('known')")
        await harness.ask(topic_url="http://hub.example/topics/known")
        with pytest.raises(FormRefused) as refused:
            await harness.ask()

        assert (refused.value.status, refused.value.parameter) == (404, "hub.topic")


async def test_secrets_are_sealed_while_they_wait_and_forgotten_when_decided(database_url: str) -> None:
    """SG-7, SE-03."""
    async with hub_harness(database_url) as harness:
        intent = await harness.ask(secret=b"canary", verify_token="t")
        waiting = await harness.sql.fetchrow("SELECT key_id, sealed, verify_token FROM hookwire.intents")
        async with harness.verifying():
            await harness.decided(intent)
        decided = await harness.sql.fetchrow("SELECT key_id, sealed, verify_token FROM hookwire.intents")

        assert b"canary" not in waiting["sealed"]
        assert (waiting["key_id"], tuple(decided)) == ("k", (None, None, None))


async def test_no_callback_and_no_secret_is_ever_logged(database_url: str, capfd: pytest.CaptureFixture[str]) -> None:
    """WS-106: through success, failure and refusal."""
    configure_logging("json", "info")
    async with hub_harness(database_url) as harness, harness.verifying():
        harness.callbacks.script["/canary-no"] = answers(404)
        ok = await harness.ask(
            callback=harness.callbacks.url("/canary-yes?key=canary"), secret=b"canary", verify_token="canary"
        )
        no = await harness.ask(callback=harness.callbacks.url("/canary-no?key=canary"), secret=b"canary")
        with pytest.raises(FormRefused) as refused:
            await harness.ask(callback="http://10.0.0.1/canary")
        await harness.decided(ok, no)

    written = "".join(capfd.readouterr())
    assert ("intent_verified" in written, "intent_failed" in written) == (True, True)
    assert "canary" not in written + refused.value.text
