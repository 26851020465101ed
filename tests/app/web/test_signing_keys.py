"""/subscriptions/{id}/keys: rotation with an overlap, ed25519, the limits; headers of a subscriber's own."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import httpx
import pytest

from tests.app.conftest import ALL_ROLES, Delivered, Receiver, RunHub, RunningHub
from tests.app.web.publishing.test_ingest import kind
from tests.webhooks.verifying import parse_public_key, verify_webhook
from webhooks.signature import SignatureRefused, parse_key

CALLBACK = "http://127.0.0.1:9000/hook"
KEYS = "/subscriptions/{}/keys"


def verifies(delivered: Delivered, *keys: str) -> bool:
    """Whether one of these keys has signed it."""
    parsed: list[Any] = [parse_public_key(k) if k.startswith("whpk_") else parse_key(k) for k in keys]
    try:
        verify_webhook(parsed, delivered.headers, delivered.body, time.time())
    except SignatureRefused:
        return False
    return True


async def test_a_rotated_key_signs_beside_the_old_one_until_that_ends(shared_hub: RunHub, receiver: Receiver) -> None:
    """WH-S04, WH-S17: newest first."""
    async with shared_hub(ALL_ROLES) as hub:
        made = await hub.subscribe("a", receiver.callback)
        path = KEYS.format(made["id"])
        new = (await hub.client.post(path, json={})).json()
        await hub.publish("a", b"1")
        [both] = await receiver.wait_for(1)
        listed = (await hub.client.get(path)).json()["items"]

        assert [verifies(both, made["secret"]), verifies(both, new["secret"])] == [True, True]
        assert [(key["number"], key["type"], key["expires_at"] is None) for key in listed] == [
            (2, "hmac", True),
            (1, "hmac", False),
        ]
        first, second = both.headers["webhook-signature"].split(" ")
        assert verifies(Delivered("", {**both.headers, "webhook-signature": first}, both.body), new["secret"])
        assert verifies(Delivered("", {**both.headers, "webhook-signature": second}, both.body), made["secret"])


async def test_an_emergency_rotation_ends_the_old_key_at_once(shared_hub: RunHub, receiver: Receiver) -> None:
    """WH-S17, WH-S18: overlap 0; from the next claim on."""
    async with shared_hub(ALL_ROLES) as hub:
        made = await hub.subscribe("a", receiver.callback)
        new = (await hub.client.post(KEYS.format(made["id"]), json={"overlap_seconds": 0})).json()
        await hub.publish("a", b"1")
        [delivered] = await receiver.wait_for(1)

        assert [verifies(delivered, made["secret"]), verifies(delivered, new["secret"])] == [False, True]


async def test_symmetric_and_asymmetric_keys_may_sign_side_by_side_for_good(
    shared_hub: RunHub, receiver: Receiver
) -> None:
    """WH-S03, WH-S07, WH-S11: the public key is shown, the secret once."""
    async with shared_hub(ALL_ROLES) as hub:
        made = await hub.subscribe("a", receiver.callback)
        path = KEYS.format(made["id"])
        new = await hub.client.post(path, json={"type": "ed25519", "overlap_seconds": None})
        await hub.publish("a", b"1")
        [delivered] = await receiver.wait_for(1)
        listed = (await hub.client.get(path)).json()["items"]

        assert (new.status_code, new.json()["secret"][:5], new.headers["cache-control"]) == (201, "whsk_", "no-store")
        assert [verifies(delivered, key) for key in (listed[0]["public_key"], made["secret"])] == [True, True]
        assert [key["expires_at"] for key in listed] == [None, None]
        assert "secret" not in listed[0]


async def test_every_delivery_verifies_before_during_and_after_a_rotation_under_load(
    shared_hub: RunHub, receiver: Receiver
) -> None:
    """WH-S20: the old key until its end is known, the new one from its making on; nothing leaves unsigned."""
    async with shared_hub(ALL_ROLES) as hub:
        made = await hub.subscribe("a", receiver.callback)
        secrets = [made["secret"]]

        async def publish() -> None:
            for number in range(300):
                assert (await hub.publish("a", b"%d" % number)).status_code == 202

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(publish())
            for overlap in (60, 0):
                await receiver.wait_for(len(receiver.delivered) + 20)
                rotated = await hub.client.post(KEYS.format(made["id"]), json={"overlap_seconds": overlap})
                secrets.append(rotated.json()["secret"])
        delivered = await receiver.wait_for(300)

        assert [one.body for one in delivered if not verifies(one, *secrets)] == []
        assert [verifies(delivered[0], secrets[0]), verifies(delivered[-1], secrets[2])] == [True, True]


async def test_the_last_key_cannot_be_ended_and_an_ended_one_is_gone(shared_hub: RunHub) -> None:
    """WH-S08, WH-S17."""
    async with shared_hub() as hub:
        path = KEYS.format((await hub.subscribe("a", CALLBACK))["id"])
        last = await hub.client.delete(f"{path}/1")
        await hub.client.post(path, json={})
        ended = [await hub.client.delete(f"{path}/{number}") for number in (1, 1, 7, 2**40)]
        eleven = [(await hub.client.post(path, json={"overlap_seconds": None})).status_code for _ in range(10)]

        assert (kind(last)[::2], [answer.status_code for answer in ended]) == (
            (409, "keys-refused"),
            [204, 404, 404, 404],
        )
        assert eleven == [201] * 9 + [409]


@pytest.mark.parametrize(
    "body",
    [{"secret": "whsec_AAAA"}, {"overlap_seconds": -1}, {"type": "rsa"}, {"unknown": 1}],
    ids=str,
)
async def test_a_bad_rotation_changes_nothing(shared_hub: RunHub, body: dict[str, Any]) -> None:
    async with shared_hub() as hub:
        path = KEYS.format((await hub.subscribe("a", CALLBACK))["id"])
        answer = await hub.client.post(path, json=body)

        assert kind(answer)[::2] == (400, "invalid-parameter")
        assert [key["number"] for key in (await hub.client.get(path)).json()["items"]] == [1]


async def test_pull_subscriptions_have_no_keys_to_rotate(shared_hub: RunHub) -> None:
    """WH-S19: nor has WebSub, which subscribes again."""
    async with shared_hub() as hub:
        made = (await hub.client.post("/subscriptions/pull", json={"topic": "a"})).json()
        answer = await hub.client.post(KEYS.format(made["id"]), json={})

        assert kind(answer)[::2] == (409, "keys-refused")


# --- headers of its own ------------------------------------------------------------------------------------------


async def test_headers_of_its_own_go_with_each_delivery_and_are_kept_sealed(
    shared_hub: RunHub, receiver: Receiver
) -> None:
    """WH-04, WH-05, SE-03: a publisher's header of the same name gives way, and is no credential (FS-13)."""
    async with shared_hub(ALL_ROLES) as hub:
        headers = {"Authorization": "Bearer s3cret-token", "X-Tenant": "7"}
        made = await hub.subscribe("a", receiver.callback, headers=headers)
        await hub.sql(
            "SELECT hookwire.publish('a', '1'::text, headers => $1::jsonb)",
            '{"x-tenant": "8", "x-more": "1"}',
        )
        [first] = await receiver.wait_for(1)
        changed = (await hub.client.patch(f"/subscriptions/{made['id']}", json={"headers": None})).json()
        await hub.publish("a", b"2")
        _, second = await receiver.wait_for(2)

        assert {name: first.headers.get(name) for name in ("authorization", "x-tenant", "x-more")} == {
            "authorization": "Bearer s3cret-token", "x-tenant": "7", "x-more": "1",
        }  # fmt: skip
        assert (made["header_names"], "s3cret-token" in str(made), changed["header_names"]) == (
            ["authorization", "x-tenant"], False, None,
        )  # fmt: skip
        assert "authorization" not in second.headers


async def test_sealed_headers_cannot_be_read_in_the_database(running_hub: RunHub) -> None:
    """SE-03."""
    async with running_hub() as hub:
        await hub.subscribe("a", CALLBACK, headers={"authorization": "s3cret-token"})

        [(sealed,)] = await hub.sql("SELECT headers_sealed FROM hookwire.subscriptions")
        assert b"s3cret-token" not in sealed


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "x"}, {"content-length": "1"}, {"Webhook-Id": "x"}, {"x-hub-signature": "x"}, {"ce-id": "x"},
        {"Hookwire-Key": "x"}, {"a b": "x"}, {"x": "a\r\nb: c"}, {"x": "\u20ac"}, {"X": "1", "x": "2"},
        {f"x-{n}": "" for n in range(21)}, {"x": "y" * 8192},
    ],
    ids=range(12),
)  # fmt: skip
async def test_headers_that_are_not_a_subscriber_s_to_set_are_refused(
    kept_hub: RunningHub, headers: dict[str, str]
) -> None:
    """WH-05, EG-16."""
    body = {"topic": "a", "callback": CALLBACK, "headers": headers}
    answer: httpx.Response = await kept_hub.client.post("/subscriptions", json=body)

    assert kind(answer)[::2] == (400, "invalid-parameter")
