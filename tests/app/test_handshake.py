"""/subscriptions/{id}/handshake: a callback is asked before anything is sent to it (WH-C12..C15)."""

from __future__ import annotations

import pytest

from tests.app.conftest import ALL_ROLES, RunHub
from tests.app.test_ingest import kind
from tests.hostile.server import Conversation, Script, answer, hostile_server

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


async def test_who_has_no_callback_cannot_be_asked(running_hub: RunHub) -> None:
    async with running_hub() as hub:
        made = (await hub.client.post("/subscriptions/pull", json={"topic": "a"})).json()

        assert kind(await hub.client.post(f"/subscriptions/{made['id']}/handshake"))[::2] == (409, "no-consent")
