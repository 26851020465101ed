"""Denial: a publisher refuses, the hub revokes, a lease ends; the callback is told, and its answer does not matter."""

import json
from typing import Any

import pytest

from hub.form import Mode
from hub.revocation import revoke
from tests.hub.callback import answers, hang, reset
from tests.hub.rig import TOPIC, Rig, hub_rig
from tests.waiting import until

CALLBACKS = {"/ok": answers(200), "/404": answers(404), "/500": answers(500), "/reset": reset, "/hang": hang}


async def validated_by(rig: Rig, path: str = "/validator") -> None:
    """Registers a validator for the topic."""
    await rig.sql.execute(
        "INSERT INTO hookwire.topics (tenant, name, validator_url) VALUES ('default', 'a', $1)",
        rig.callbacks.url(path),
    )


async def public_id(rig: Rig) -> str:
    found: str = await rig.sql.fetchval("SELECT public_id FROM hookwire.subscriptions ORDER BY id DESC LIMIT 1")
    return found


async def told(rig: Rig) -> str:
    """The state of the only request of stage deny, once it is decided."""
    found: str = await until(
        lambda: rig.sql.fetchval("SELECT state FROM hookwire.intents WHERE stage = 'deny' AND decided_at IS NOT NULL")
    )
    return found


async def test_the_publisher_is_asked_before_the_callback(database_url: str) -> None:
    """WS-35, WS-36, TG-I: the validator call, then the verification GET."""
    async with hub_rig(database_url) as rig:
        await validated_by(rig)
        intent = await rig.ask(topic_url="http://hub.example/topics/%61", secret=b"s")
        targets_before = list(rig.callbacks.targets)
        async with rig.verifying():
            states = await rig.decided(intent)

        ((path, _, body),) = rig.callbacks.posted
        assert (targets_before, states, path, json.loads(body)) == (
            [], ["verified"], "/validator",
            {"callback": rig.callbacks.url(), "topic": "http://hub.example/topics/%61", "requester": None},
        )  # fmt: skip
        assert await rig.subscriptions() == [("/cb", "active", 1, "s")]


@pytest.mark.parametrize("status", [401, 403])
async def test_who_is_not_welcome_is_told_so_with_the_publisher_s_reason(database_url: str, status: int) -> None:
    """WS-35, WS-37, WS-69, HD-02, UD-09, TG-I: no challenge is sent, and nothing becomes active."""
    async with hub_rig(database_url) as rig, rig.verifying():
        await validated_by(rig)
        rig.callbacks.script["/validator"] = answers(status, b"members only\r\nsecond line")
        states = await rig.decided(await rig.ask(callback=rig.callbacks.url("/cb?a=%2f&b")))

        assert (states, rig.callbacks.queries(), await rig.subscriptions()) == (
            ["denied"],
            [{"a": ["/"], "b": [""], "hub.mode": ["denied"], "hub.topic": [TOPIC], "hub.reason": ["members only"]}],
            [],
        )


async def test_a_denied_renewal_leaves_the_subscription_as_it_was(database_url: str) -> None:
    """WS-19, WS-38: anybody can send a form in the subscriber's name, so a refused one takes nothing away."""
    async with hub_rig(database_url) as rig, rig.verifying():
        await rig.subscribed(secret=b"A")
        await validated_by(rig)
        rig.callbacks.script["/validator"] = answers(403)
        states = await rig.decided(await rig.ask(secret=b"B"))

        assert (states, await rig.subscriptions()) == (["denied"], [("/cb", "active", 1, "A")])


async def test_a_validator_without_an_answer_is_asked_again_and_then_the_request_fails(database_url: str) -> None:
    """WS-35: any status but 2xx, 401 and 403 is no decision."""
    async with hub_rig(database_url, verification_retries=(0.01,)) as rig, rig.verifying():
        await validated_by(rig)
        rig.callbacks.script["/validator"] = answers(500)
        states = await rig.decided(await rig.ask())

        reason = await rig.sql.fetchval("SELECT reason FROM hookwire.intents")
        assert (states, reason, len(rig.callbacks.posted), rig.callbacks.targets) == (
            ["failed"], "the topic's validator answered 500", 2, [],
        )  # fmt: skip


async def test_an_unsubscription_is_nobody_s_to_allow(database_url: str) -> None:
    """WS-39, HD-19."""
    async with hub_rig(database_url) as rig, rig.verifying():
        await rig.subscribed()
        await validated_by(rig)
        await rig.decided(await rig.ask(Mode.UNSUBSCRIBE))

        assert (rig.callbacks.posted, await rig.subscriptions()) == ([], [("/cb", "deleted", 2, None)])


@pytest.mark.parametrize("path", CALLBACKS)
async def test_a_revoked_subscription_ends_whatever_its_callback_says(database_url: str, path: str) -> None:
    """WS-37, WS-38, DL-10, TG-I: its secret and its queue are gone at once; one GET tells it."""
    async with hub_rig(database_url) as rig, rig.verifying(verification_deadline_seconds=0.5):
        await rig.subscribed(callback=rig.callbacks.url(path), secret=b"s")
        await rig.owe(3)
        rig.callbacks.script |= CALLBACKS
        rig.callbacks.targets.clear()
        revoked = await revoke(rig.hub, await public_id(rig), "spam")
        owed = await rig.sql.fetchval("SELECT count(*) FROM hookwire.deliveries")

        assert (revoked, owed, await rig.subscriptions()) == (True, 0, [(path, "denied", 2, None)])
        assert (await told(rig), rig.callbacks.queries(path)) == (
            "denied",
            [{"hub.mode": ["denied"], "hub.topic": [TOPIC], "hub.reason": ["spam"]}],
        )


async def test_a_denial_survives_the_process_that_gave_it(database_url: str) -> None:
    """WS-38, WS-84: nobody verifies while it is revoked; who starts later tells the callback."""
    async with hub_rig(database_url) as rig:
        async with rig.verifying():
            await rig.subscribed()
        rig.callbacks.targets.clear()
        await revoke(rig.hub, await public_id(rig), "")
        async with rig.verifying():
            state = await told(rig)

        assert (state, rig.callbacks.queries()) == ("denied", [{"hub.mode": ["denied"], "hub.topic": [TOPIC]}])


async def test_a_renewal_under_way_does_not_outlive_a_revocation(database_url: str) -> None:
    """WS-38, WS-103: what was asked before is superseded; who asks afterwards may come back (UD-19)."""
    async with hub_rig(database_url) as rig:
        async with rig.verifying():
            await rig.subscribed()
        renewal = await rig.ask()
        await revoke(rig.hub, await public_id(rig), "")
        async with rig.verifying():
            states = await rig.decided(renewal)
            ended = await rig.subscriptions()
            await rig.subscribed()

        assert (states, ended) == (["superseded"], [("/cb", "denied", 2, None)])
        assert await rig.subscriptions() == [("/cb", "denied", 2, None), ("/cb", "active", 1, None)]


async def test_what_is_not_active_cannot_be_revoked(database_url: str) -> None:
    async with hub_rig(database_url) as rig:
        assert await revoke(rig.hub, "sub_unknown", "") is False


@pytest.mark.parametrize(("options", "modes"), [({}, []), ({"tell_lease_end": True}, ["denied"])])
async def test_the_end_of_a_lease_is_told_where_the_operator_wants_it(
    database_url: str, options: dict[str, Any], modes: list[str]
) -> None:
    """WS-107: off by default."""
    async with hub_rig(database_url, **options) as rig, rig.verifying():
        await rig.subscribed()
        rig.callbacks.targets.clear()
        await rig.sql.execute("UPDATE hookwire.subscriptions SET lease_until = now()")
        await until(lambda: rig.sql.fetchval("SELECT true FROM hookwire.subscriptions WHERE state = 'expired'"))
        if modes:
            await told(rig)

        assert [query["hub.mode"][0] for query in rig.callbacks.queries()] == modes
