"""hub/subscriptions.py: the API's verbs on a real database."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg
import pytest

from db.pool import PoolOptions, open_database
from db.secret_box import SecretBox
from db.statements import STATEMENTS
from hub.subscriptions import NewSubscription, Subscriptions, SubscriptionUpdate
from webhooks.signature import new_key
from webhooks.subscriber import secret_context

CALLBACK = "https://subscriber.example/hook?x=%7E"


@dataclass
class Harness:
    subscriptions: Subscriptions
    box: SecretBox
    sql: asyncpg.Connection

    async def kept_secret(self, identity: int) -> str:
        row = await self.sql.fetchrow(
            "SELECT * FROM hookwire.subscription_secrets WHERE subscription_id = $1", identity
        )
        return self.box.open(row["key_id"], row["sealed"], secret_context(identity, row["number"])).decode()

    async def owe(self, identity: int, *events: int) -> None:
        for event in events:
            await self.sql.execute(
                "INSERT INTO hookwire.deliveries (event_id, subscription_id, due_at, created_at, tenant, attempts)"
                " VALUES ($1, $2, now(), now(), 'default', 2)",
                event,
                identity,
            )


@asynccontextmanager
async def opened(database_url: str) -> AsyncIterator[Harness]:
    database = await open_database(PoolOptions(database_url))
    sql = await asyncpg.connect(database_url)
    box = SecretBox({"k": os.urandom(32)}, "k")
    try:
        yield Harness(Subscriptions(database, box), box, sql)
    finally:
        await sql.close()
        await database.aclose()


def picked(row: Any, *names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


async def test_a_new_subscription_is_active_and_keeps_its_secret_sealed(database_url: str) -> None:
    """WH-S08, SE-03; the callback stays as it was given (WS-62)."""
    async with opened(database_url) as harness:
        row, secret = await harness.subscriptions.create(NewSubscription("orders.*", CALLBACK, ordered=True))
        stored = await harness.sql.fetchrow("SELECT * FROM hookwire.subscriptions")
        assert picked(stored, "id", "topic", "callback", "state", "ordered", "version", "tenant", "lease_until") == (
            row["id"], "orders.*", CALLBACK, "active", True, 1, "default", None,
        )  # fmt: skip
        assert (await harness.kept_secret(row["id"]), secret[:6], row["public_id"][:4]) == (secret, "whsec_", "sub_")
        sealed = await harness.sql.fetchval("SELECT sealed FROM hookwire.subscription_secrets")
        assert secret.encode() not in sealed


async def test_a_secret_of_one_s_own_is_kept_and_nonsense_is_refused(database_url: str) -> None:
    async with opened(database_url) as harness:
        own = new_key().text()
        row, secret = await harness.subscriptions.create(NewSubscription("t", CALLBACK, secret=own))
        assert (secret, await harness.kept_secret(row["id"])) == (own, own)
        with pytest.raises(ValueError, match="whsec_"):
            await harness.subscriptions.create(NewSubscription("t", CALLBACK, secret="whsec_c2hvcnQ="))
        assert await harness.sql.fetchval("SELECT count(*) FROM hookwire.subscriptions") == 1


async def test_a_subscription_may_be_made_disabled(database_url: str) -> None:
    """WH-16."""
    async with opened(database_url) as harness:
        row, _ = await harness.subscriptions.create(NewSubscription("t", CALLBACK, state="disabled"))
        assert row["state"] == "disabled"


@pytest.mark.parametrize(
    ("change", "columns"),
    [
        (SubscriptionUpdate(topic="a.#"), {"topic": "a.#"}),
        (SubscriptionUpdate(topic="plain"), {"topic": "plain", "topic_regex": None}),
        (SubscriptionUpdate(callback="https://other.example/"), {"callback": "https://other.example/"}),
        (SubscriptionUpdate(state="disabled"), {"state": "disabled", "state_reason": "by request"}),
        (SubscriptionUpdate(ordered=True, timeout_seconds=3.0), {"ordered": True, "timeout_seconds": 3.0}),
        (SubscriptionUpdate(retry_schedule_seconds=[]), {"retry_schedule_seconds": []}),
        (SubscriptionUpdate(), {}),
    ],
    ids=str,
)
async def test_a_change_touches_what_it_names_and_raises_the_version(
    database_url: str, change: SubscriptionUpdate, columns: dict[str, Any]
) -> None:
    """WS-104: workers notice by the version."""
    async with opened(database_url) as harness:
        row, _ = await harness.subscriptions.create(NewSubscription("a.*", CALLBACK))
        before = dict(await harness.sql.fetchrow("SELECT * FROM hookwire.subscriptions"))
        await harness.subscriptions.change(row["public_id"], change)
        after = dict(await harness.sql.fetchrow("SELECT * FROM hookwire.subscriptions"))
        changed = {name: value for name, value in after.items() if value != before[name]}
        changed.pop("updated_at")
        changed.pop("disabled_after_id", None)
        if change.topic == "a.#":
            assert changed.pop("topic_regex") is not None
        assert changed == columns | {"version": 2}


async def test_activating_again_forgets_the_reason_and_the_pause(database_url: str) -> None:
    async with opened(database_url) as harness:
        row, _ = await harness.subscriptions.create(NewSubscription("t", CALLBACK))
        await harness.sql.execute(
            "UPDATE hookwire.subscriptions"
            " SET state = 'gone', state_reason = 'answered 410', paused_until = now() + interval '1 hour'"
        )
        again = await harness.subscriptions.change(row["public_id"], SubscriptionUpdate(state="active"))
        assert again is not None
        assert picked(again, "state", "state_reason", "paused_until", "version") == ("active", None, None, 2)


async def test_deleting_turns_what_was_owed_into_dead_letters_and_ends_the_subscription_for_good(
    database_url: str,
) -> None:
    """WH-06, WH-I10."""
    async with opened(database_url) as harness:
        row, _ = await harness.subscriptions.create(NewSubscription("t", CALLBACK))
        await harness.owe(row["id"], 1, 2)
        deleted = [await harness.subscriptions.delete(row["public_id"]) for _ in range(2)]
        dead = await harness.sql.fetch("SELECT event_id, kind, attempts, detail FROM hookwire.dead_letters ORDER BY 1")
        assert (deleted, [tuple(letter) for letter in dead]) == (
            [True, False],
            [(1, "gone", 2, "subscription deleted"), (2, "gone", 2, "subscription deleted")],
        )
        assert await harness.sql.fetchval("SELECT count(*) FROM hookwire.deliveries") == 0
        assert await harness.subscriptions.get(row["public_id"]) is None
        assert await harness.subscriptions.change(row["public_id"], SubscriptionUpdate(state="active")) is None
        assert await harness.sql.fetchval("SELECT count(*) FROM hookwire.subscription_secrets") == 0


async def test_an_end_does_not_wait_for_all_that_is_owed(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """WH-06: millions would take longer than a statement may; clean-up does the rest."""
    monkeypatch.setattr("hub.subscriptions._CANCEL_MAX", 2)
    async with opened(database_url) as harness:
        row, _ = await harness.subscriptions.create(NewSubscription("t", CALLBACK))
        await harness.owe(row["id"], 1, 2, 3)
        await harness.subscriptions.delete(row["public_id"])
        counts = "SELECT (SELECT count(*) FROM hookwire.deliveries), (SELECT count(*) FROM hookwire.dead_letters)"
        at_once = tuple(await harness.sql.fetchrow(counts))
        await harness.sql.fetchval(STATEMENTS["delivery.cancel_ended"], [row["id"]], 5_000)

        assert (at_once, tuple(await harness.sql.fetchrow(counts))) == ((1, 2), (0, 3))


async def test_a_websub_subscription_is_changed_by_subscribing_only(database_url: str) -> None:
    async with opened(database_url) as harness:
        await harness.sql.execute(
            "INSERT INTO hookwire.subscriptions (public_id, protocol, topic, callback, state)"
            " VALUES ('sub_w', 'websub', 't', 'https://a.example/', 'active')"
        )
        assert await harness.subscriptions.change("sub_w", SubscriptionUpdate(state="disabled")) is None


async def test_subscriptions_made_at_the_same_time_have_ids_of_their_own(database_url: str) -> None:
    async with opened(database_url) as harness:
        made = await asyncio.gather(*(harness.subscriptions.create(NewSubscription("t", CALLBACK)) for _ in range(20)))
        assert len({row["public_id"] for row, _ in made}) == 20
