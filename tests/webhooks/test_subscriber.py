"""webhooks/subscriber.py: a subscription ready to be sent to, cached by version."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.waiting import until
from tests.webhooks.harness import POLICY, Gated, Harness, delivery_harness
from webhooks.signature import hub_key, new_key, parse_key
from webhooks.subscriber import Subscribers


@asynccontextmanager
async def opened(database_url: str, cached_max: int = 100) -> AsyncIterator[tuple[Harness, Gated, Subscribers]]:
    async with delivery_harness(database_url) as harness:
        counting = Gated(harness.database)
        yield harness, counting, Subscribers(counting, harness.box, POLICY, cached_max)


CALLBACK = "http://127.0.0.1:8000/a?x=%7E"


async def test_an_api_subscription_is_read_with_its_keys_opened(database_url: str) -> None:
    async with opened(database_url) as (harness, _, subscribers):
        identity = await harness.subscribe(CALLBACK, retry_schedule_seconds=[1, 2], timeout_seconds=3.5)
        found = (await subscribers.get([(identity, 2)]))[identity]
        assert (found.protocol, found.version, found.schedule, found.timeout_seconds, found.hub_secret) == (
            "webhook", 2, [1, 2], 3.5, None,
        )  # fmt: skip
        assert found.target is not None
        assert (found.target.raw, [key.text() for key in found.keys]) == (CALLBACK, [harness.secrets[identity]])


async def test_a_websub_secret_is_both_signatures_key(database_url: str) -> None:
    """WH-S15."""
    async with opened(database_url) as (harness, _, subscribers):
        identity = await harness.subscribe_websub(CALLBACK, "schl\u00fcssel", signature_method="sha512")
        found = (await subscribers.get([(identity, 1)]))[identity]
        assert (found.hub_secret, found.signature_method) == ("schl\u00fcssel".encode(), "sha512")
        assert found.keys[0].sign(b"x") == hub_key("schl\u00fcssel").sign(b"x")


async def test_newest_keys_sign_first_expired_ones_not_at_all_and_never_more_than_ten(database_url: str) -> None:
    """WH-S17."""
    async with opened(database_url) as (harness, _, subscribers):
        identity = await harness.subscribe(CALLBACK)
        keys = {number: new_key().text() for number in range(2, 14)}
        for number, key in keys.items():
            await harness.keep_secret(identity, number, key)
        await harness.sql.execute(
            "UPDATE hookwire.subscription_secrets SET expires_at = now() - interval '1 s' WHERE number = 12"
        )
        found = (await subscribers.get([(identity, 1)]))[identity]
        assert [parse_key(keys[n]).sign(b"x") for n in (13, 11, 10, 9, 8, 7, 6, 5, 4, 3)] == [
            key.sign(b"x") for key in found.keys
        ]


@pytest.mark.parametrize("callback", ["http://10.0.0.1:8000/", "ftp://a.example/", "http://127.0.0.1:25/"])
async def test_a_callback_that_the_policy_no_longer_allows_says_why(database_url: str, callback: str) -> None:
    async with opened(database_url) as (harness, _, subscribers):
        identity = await harness.subscribe(callback)
        found = (await subscribers.get([(identity, 1)]))[identity]
        assert (found.target, found.refusal_kind, found.refusal != "") == (None, "blocked", True)


async def test_a_secret_that_does_not_open_is_our_own_fault_and_nobody_else_s(database_url: str) -> None:
    """SE-03."""
    async with opened(database_url) as (harness, _, subscribers):
        broken, moved, sound = [await harness.subscribe(CALLBACK) for _ in range(3)]
        await harness.sql.execute(
            "UPDATE hookwire.subscription_secrets SET key_id = 'lost' WHERE subscription_id = $1", broken
        )
        await harness.sql.execute(
            "UPDATE hookwire.subscription_secrets SET sealed ="
            " (SELECT sealed FROM hookwire.subscription_secrets WHERE subscription_id = $2) WHERE subscription_id = $1",
            moved,
            sound,
        )
        found = await subscribers.get([(broken, 1), (moved, 1), (sound, 1)])
        assert {one.id: (one.target is None, one.refusal_kind, len(one.keys)) for one in found.values()} == {
            broken: (True, "internal", 0),
            moved: (True, "internal", 0),
            sound: (False, "blocked", 1),
        }


async def test_a_subscriber_is_read_again_only_when_its_version_has_changed(database_url: str) -> None:
    """WS-104."""
    async with opened(database_url) as (harness, counting, subscribers):
        identity = await harness.subscribe(CALLBACK)
        for _ in range(3):
            await subscribers.get([(identity, 1)])
        await harness.change(identity, callback="http://127.0.0.1:8000/new")
        found = (await subscribers.get([(identity, 2)]))[identity]
        assert found.target is not None
        assert (found.target.raw, counting.passed["subscription.for_delivery"]) == ("http://127.0.0.1:8000/new", 2)


async def test_nothing_is_believed_for_longer_than_thirty_seconds(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """WH-S18: a key may have expired meanwhile."""
    async with opened(database_url) as (harness, counting, subscribers):
        identity = await harness.subscribe(CALLBACK)
        await subscribers.get([(identity, 1)])
        now = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: now + 31)
        await subscribers.get([(identity, 1)])
        assert counting.passed["subscription.for_delivery"] == 2


async def test_a_cache_that_is_emptied_meanwhile_loses_no_subscriber(database_url: str) -> None:
    async with opened(database_url, cached_max=3) as (harness, gated, subscribers):
        identities = [await harness.subscribe(CALLBACK) for _ in range(5)]
        await subscribers.get([(identities[0], 1)])
        gated.gates["subscription.for_delivery"] = gate = asyncio.Event()
        waiting = asyncio.create_task(subscribers.get([(identities[0], 1), (identities[1], 1)]))
        await until(lambda: gated.passed["subscription.for_delivery"] == 2)
        subscribers._cached.clear()
        gate.set()
        assert set(await waiting) == {identities[0], identities[1]}


async def test_the_cache_is_bounded(database_url: str) -> None:
    async with opened(database_url, cached_max=3) as (harness, _, subscribers):
        identities = [await harness.subscribe(CALLBACK) for _ in range(5)]
        for identity in identities:
            found = await subscribers.get([(identity, 1), (identities[0], 1)])
            assert set(found) == {identity, identities[0]}
            assert len(subscribers._cached) <= 3
