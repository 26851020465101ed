"""Denial: a publisher refuses, the hub revokes, a lease ends; the callback is told, and its answer does not matter."""

import json
from typing import Any

import pytest

from hub.form import Mode
from hub.revocation import revoke
from tests.hub.callback import answers, hang, reset
from tests.hub.harness import TOPIC, Harness, hub_harness
from tests.waiting import until

CALLBACKS = {"/ok": answers(200), "/404": answers(404), "/500": answers(500), "/reset": reset, "/hang": hang}


async def validated_by(harness: Harness, path: str = "/validator") -> None:
    """Registers a validator for the topic."""
    await harness.sql.execute(
        "INSERT INTO hookwire.topics (tenant, name, validator_url) VALUES ('default', 'a', $1)",
        harness.callbacks.url(path),
    )


async def public_id(harness: Harness) -> str:
    found: str = await harness.sql.fetchval("SELECT public_id FROM hookwire.subscriptions ORDER BY id DESC LIMIT 1")
    return found


async def told(harness: Harness) -> str:
    """The state of the only request of stage deny, once it is decided."""
    found: str = await until(
        lambda: harness.sql.fetchval(
            "SELECT state FROM hookwire.intents WHERE stage = 'deny' AND decided_at IS NOT NULL"
        )
    )
    return found


async def test_the_publisher_is_asked_before_the_callback(database_url: str) -> None:
    """WS-35, WS-36, TG-I: the validator call, then the verification GET."""
    async with hub_harness(database_url) as harness:
        await validated_by(harness)
        intent = await harness.ask(topic_url="http://hub.example/topics/%61", secret=b"s")
        targets_before = list(harness.callbacks.targets)
        async with harness.verifying():
            states = await harness.decided(intent)

        ((path, _, body),) = harness.callbacks.posted
        assert (targets_before, states, path, json.loads(body)) == (
            [], ["verified"], "/validator",
            {"callback": harness.callbacks.url(), "topic": "http://hub.example/topics/%61", "requester": None},
        )  # fmt: skip
        assert await harness.subscriptions() == [("/cb", "active", 1, "s")]


@pytest.mark.parametrize("status", [401, 403])
async def test_who_is_not_welcome_is_told_so_with_the_publisher_s_reason(database_url: str, status: int) -> None:
    """WS-35, WS-37, WS-69, HD-02, UD-09, TG-I: no challenge is sent, and nothing becomes active."""
    async with hub_harness(database_url) as harness, harness.verifying():
        await validated_by(harness)
        harness.callbacks.script["/validator"] = answers(status, b"members only\r\nsecond line")
        states = await harness.decided(await harness.ask(callback=harness.callbacks.url("/cb?a=%2f&b")))

        assert (states, harness.callbacks.queries(), await harness.subscriptions()) == (
            ["denied"],
            [{"a": ["/"], "b": [""], "hub.mode": ["denied"], "hub.topic": [TOPIC], "hub.reason": ["members only"]}],
            [],
        )


async def test_a_denied_renewal_leaves_the_subscription_as_it_was(database_url: str) -> None:
    """WS-19, WS-38: anybody can send a form in the subscriber's name, so a refused one takes nothing away."""
    async with hub_harness(database_url) as harness, harness.verifying():
        await harness.subscribed(secret=b"A")
        await validated_by(harness)
        harness.callbacks.script["/validator"] = answers(403)
        states = await harness.decided(await harness.ask(secret=b"B"))

        assert (states, await harness.subscriptions()) == (["denied"], [("/cb", "active", 1, "A")])


async def test_a_validator_without_an_answer_is_asked_again_and_then_the_request_fails(database_url: str) -> None:
    """WS-35: any status but 2xx, 401 and 403 is no decision."""
    async with hub_harness(database_url, verification_retries=(0.01,)) as harness, harness.verifying():
        await validated_by(harness)
        harness.callbacks.script["/validator"] = answers(500)
        states = await harness.decided(await harness.ask())

        reason = await harness.sql.fetchval("SELECT reason FROM hookwire.intents")
        assert (states, reason, len(harness.callbacks.posted), harness.callbacks.targets) == (
            ["failed"], "the topic's validator answered 500", 2, [],
        )  # fmt: skip


async def test_an_unsubscription_is_nobody_s_to_allow(database_url: str) -> None:
    """WS-39, HD-19."""
    async with hub_harness(database_url) as harness, harness.verifying():
        await harness.subscribed()
        await validated_by(harness)
        await harness.decided(await harness.ask(Mode.UNSUBSCRIBE))

        assert (harness.callbacks.posted, await harness.subscriptions()) == ([], [("/cb", "deleted", 2, None)])


@pytest.mark.parametrize("path", CALLBACKS)
async def test_a_revoked_subscription_ends_whatever_its_callback_says(database_url: str, path: str) -> None:
    """WS-37, WS-38, DL-10, TG-I: its secret and its queue are gone at once; one GET tells it."""
    async with hub_harness(database_url) as harness, harness.verifying(verification_deadline_seconds=0.5):
        await harness.subscribed(callback=harness.callbacks.url(path), secret=b"s")
        await harness.owe(3)
        harness.callbacks.script |= CALLBACKS
        harness.callbacks.targets.clear()
        revoked = await revoke(harness.hub, await public_id(harness), "spam")
        owed = await harness.sql.fetchval("SELECT count(*) FROM hookwire.deliveries")

        assert (revoked, owed, await harness.subscriptions()) == (True, 0, [(path, "denied", 2, None)])
        assert (await told(harness), harness.callbacks.queries(path)) == (
            "denied",
            [{"hub.mode": ["denied"], "hub.topic": [TOPIC], "hub.reason": ["spam"]}],
        )


async def test_a_denial_survives_the_process_that_gave_it(database_url: str) -> None:
    """WS-38, WS-84: nobody verifies while it is revoked; who starts later tells the callback."""
    async with hub_harness(database_url) as harness:
        async with harness.verifying():
            await harness.subscribed()
        harness.callbacks.targets.clear()
        await revoke(harness.hub, await public_id(harness), "")
        async with harness.verifying():
            state = await told(harness)

        assert (state, harness.callbacks.queries()) == ("denied", [{"hub.mode": ["denied"], "hub.topic": [TOPIC]}])


async def test_a_renewal_under_way_does_not_outlive_a_revocation(database_url: str) -> None:
    """WS-38, WS-103: what was asked before is superseded; who asks afterwards may come back (UD-19)."""
    async with hub_harness(database_url) as harness:
        async with harness.verifying():
            await harness.subscribed()
        renewal = await harness.ask()
        await revoke(harness.hub, await public_id(harness), "")
        async with harness.verifying():
            states = await harness.decided(renewal)
            ended = await harness.subscriptions()
            await harness.subscribed()

        assert (states, ended) == (["superseded"], [("/cb", "denied", 2, None)])
        assert await harness.subscriptions() == [("/cb", "denied", 2, None), ("/cb", "active", 1, None)]


async def test_what_is_not_active_cannot_be_revoked(database_url: str) -> None:
    async with hub_harness(database_url) as harness:
        assert await revoke(harness.hub, "sub_unknown", "") is False


@pytest.mark.parametrize(("options", "modes"), [({}, []), ({"tell_lease_end": True}, ["denied"])])
async def test_the_end_of_a_lease_is_told_where_the_operator_wants_it(
    database_url: str, options: dict[str, Any], modes: list[str]
) -> None:
    """WS-107: off by default."""
    async with hub_harness(database_url, **options) as harness, harness.verifying():
        await harness.subscribed()
        harness.callbacks.targets.clear()
        await harness.sql.execute("UPDATE hookwire.subscriptions SET lease_until = now()")
        await until(lambda: harness.sql.fetchval("SELECT true FROM hookwire.subscriptions WHERE state = 'expired'"))
        if modes:
            await told(harness)

        assert [query["hub.mode"][0] for query in harness.callbacks.queries()] == modes
