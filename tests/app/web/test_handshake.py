"""/subscriptions/{id}/handshake: a callback is asked before anything is sent to it (WH-C12..C15)."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import quote

import pytest

from db.secret_box import SecretBox
from hub.invitation import LIFETIME_SECONDS, invite, invited
from tests.app.conftest import ALL_ROLES, RunHub, RunningHub
from tests.app.web.publishing.test_ingest import kind
from tests.hostile.server import Conversation, HostileServer, Script, answer, hostile_server

HTTPS = "https://hub.example"
OK = answer(204)


def consenting(*fields: str) -> Script:
    """Answers OPTIONS with these fields, POSTs with 204."""

    async def script(conversation: Conversation) -> None:
        while True:
            request = await conversation.read_request()
            await conversation.send(answer(200, b"", *fields) if request.line.startswith(b"OPTIONS ") else OK)

    return script


async def test_with_consent_it_is_active_at_the_rate_it_allows_and_every_delivery_says_who_sends(
    running_hub: RunHub,
) -> None:
    """WH-C12, WH-C13, WH-C14."""
    fields = ("WebHook-Allowed-Origin: 127.0.0.1", "WebHook-Allowed-Rate: 6000")
    async with hostile_server(consenting(*fields)) as server, running_hub(ALL_ROLES) as hub:
        made = await hub.subscribe("a", server.url("/hook?x=1"), state="disabled", rate_per_second=50)
        agreed = (await hub.client.post(f"/subscriptions/{made['id']}/handshake")).json()
        await hub.publish("a", b"1")
        await server.until(lambda one: len(one.requests) == 2)
        asked, sent = server.requests

        assert (agreed["state"], agreed["rate_per_second"], agreed["request_origin"]) == ("active", 100, "127.0.0.1")
        assert (asked.target, asked.header("webhook-request-origin"), asked.header("webhook-request-rate")) == (
            b"/hook?x=1", b"127.0.0.1", b"3000",
        )  # fmt: skip
        assert sent.header("webhook-request-origin") == b"127.0.0.1"


@pytest.mark.parametrize("fields", [(), ("WebHook-Allowed-Origin: other.example",)], ids=["nobody", "another"])
async def test_without_consent_nothing_is_sent(running_hub: RunHub, fields: tuple[str, ...]) -> None:
    """WH-C14."""
    async with hostile_server(consenting(*fields)) as server, running_hub() as hub:
        made = await hub.subscribe("a", server.url(), state="disabled")
        answered = await hub.client.post(f"/subscriptions/{made['id']}/handshake")

        assert kind(answered)[::2] == (409, "no-consent")
        assert (await hub.client.get(f"/subscriptions/{made['id']}")).json()["state"] == "disabled"


async def test_another_callback_has_agreed_to_nothing(running_hub: RunHub) -> None:
    """WH-C14."""
    async with hostile_server(consenting("WebHook-Allowed-Origin: *")) as server, running_hub() as hub:
        path = f"/subscriptions/{(await hub.subscribe('a', server.url()))['id']}"
        agreed = (await hub.client.post(f"{path}/handshake")).json()["request_origin"]
        kept = (await hub.client.patch(path, json={"callback": server.url(), "topic": "b"})).json()["request_origin"]
        moved = (await hub.client.patch(path, json={"callback": server.url("/new")})).json()["request_origin"]

        assert (agreed, kept, moved) == ("127.0.0.1", "127.0.0.1", None)


async def test_a_callback_that_is_replaced_meanwhile_has_not_agreed(running_hub: RunHub) -> None:
    """WH-C14: the consent is of the one that was asked."""
    async with running_hub() as hub:

        async def script(conversation: Conversation) -> None:
            await conversation.read_request()
            await hub.client.patch(path, json={"callback": f"{server.url()}/another"})
            await conversation.send(answer(200, b"", "WebHook-Allowed-Origin: *"))

        async with hostile_server(script) as server:
            path = f"/subscriptions/{(await hub.subscribe('a', server.url(), state='disabled'))['id']}"
            answered = await hub.client.post(f"{path}/handshake")

        found = (await hub.client.get(path)).json()
        assert (kind(answered)[::2], found["state"], found["request_origin"]) == ((409, "no-consent"), "disabled", None)


async def test_who_has_no_callback_cannot_be_asked(running_hub: RunHub) -> None:
    async with running_hub() as hub:
        made = (await hub.client.post("/subscriptions/pull", json={"topic": "a"})).json()

        assert kind(await hub.client.post(f"/subscriptions/{made['id']}/handshake"))[::2] == (409, "no-consent")


# --- agreeing later ---


def public(port: int) -> dict[str, str]:
    """Settings of a hub that others reach by https."""
    return {"public_url": HTTPS, "listen": f"127.0.0.1:{port}"}


async def invitation(hub: RunningHub, server: HostileServer, **more: Any) -> tuple[str, str]:
    """The subscription's path, and that of the URL that its callback was told, who has not agreed yet."""
    made = await hub.subscribe("a", server.url(), state="disabled", **more)
    path = f"/subscriptions/{made['id']}"
    asked = await hub.client.post(f"{path}/handshake")
    url = server.requests[-1].header("webhook-request-callback")
    assert asked.status_code == 409
    assert url is not None
    return path, url.decode().removeprefix(HTTPS)


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_callback_may_agree_later_by_the_url_that_it_was_told(
    running_hub: RunHub, free_port: int, method: str
) -> None:
    """WH-C12, WH-C13: without an API key, once."""
    async with hostile_server(consenting()) as server, running_hub(**public(free_port)) as hub:
        path, told = await invitation(hub, server)
        agreed = await hub.client.request(method, told, headers={"WebHook-Allowed-Rate": "120"})
        again = await hub.client.request(method, told)
        after = (await hub.client.get(path)).json()

        assert (agreed.status_code, agreed.json()) == (200, {"origin": "hub.example", "requests_per_minute": 120})
        assert (after["state"], after["request_origin"], after["rate_per_second"]) == ("active", "hub.example", 2)
        assert kind(again)[::2] == (404, "not-found")


async def test_an_invitation_is_void_when_the_subscription_has_changed(running_hub: RunHub, free_port: int) -> None:
    """Somebody who disabled it, or named another callback, must not find it active."""
    async with hostile_server(consenting()) as server, running_hub(**public(free_port)) as hub:
        path, told = await invitation(hub, server)
        await hub.client.patch(path, json={"callback": server.url("/new")})
        agreed = await hub.client.get(told)

        assert (agreed.status_code, (await hub.client.get(path)).json()["state"]) == (404, "disabled")


@pytest.mark.parametrize("token", ["x", "k.AAAA", "k.\u00e4", "%00", "k." + "A" * 200], ids=repr)
async def test_a_token_that_nobody_was_told_is_not_found(kept_hub: RunningHub, token: str) -> None:
    assert (await kept_hub.client.get(f"/handshakes/{quote(token, safe='%')}")).status_code == 404


async def test_a_rate_that_is_none_agrees_to_nothing(running_hub: RunHub, free_port: int) -> None:
    async with hostile_server(consenting()) as server, running_hub(**public(free_port)) as hub:
        path, told = await invitation(hub, server)
        refused = await hub.client.get(told, headers={"WebHook-Allowed-Rate": "many"})

        assert (kind(refused)[2], (await hub.client.get(path)).json()["state"]) == ("no-consent", "disabled")


async def test_by_plain_http_nobody_is_invited(running_hub: RunHub) -> None:
    async with hostile_server(consenting()) as server, running_hub() as hub:
        made = await hub.subscribe("a", server.url(), state="disabled")
        await hub.client.post(f"/subscriptions/{made['id']}/handshake")

        assert server.requests[0].header("webhook-request-callback") is None


def test_an_invitation_ends_after_a_week(monkeypatch: pytest.MonkeyPatch) -> None:
    box = SecretBox({"k": bytes(range(32))}, "k")
    token = invite(box, "sub_1", 3)
    now = time.time()
    before = invited(box, token)
    monkeypatch.setattr("hub.invitation.time.time", lambda: now + LIFETIME_SECONDS + 1)

    assert (before, invited(box, token)) == (("sub_1", 3), None)
