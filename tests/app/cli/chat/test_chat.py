"""`hookwire chat`: topics as XMPP addresses, on a real Prosody, with a real client (FM-11)."""

from __future__ import annotations

import asyncio
import secrets
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from slixmpp import JID

from app.cli.chat.contacts import Permission, chat_options
from app.settings.settings import Settings, SettingsRefused
from scripts.servers.prosody import EVENTS, HOST, PASSWORD, ProsodyServer
from tests.app.cli.monitor.test_monitor import Place, Reader
from tests.app.conftest import ALL_ROLES, WAIT_SECONDS, RunHub, RunningHub
from tests.waiting import until

READER = f"reader@{HOST}"


class Contact(Reader):
    """A person's chat client: asks to subscribe, and keeps what addresses say."""

    def __init__(self, place: Place) -> None:
        super().__init__(place, None)
        self.answers: list[tuple[str, str]] = []
        self.errors: list[str] = []
        self.reasons: list[str] = []
        for kind in ("subscribed", "unsubscribed"):
            self.add_event_handler(f"presence_{kind}", self._answered)
        self.add_event_handler("message_error", lambda message: self.errors.append(message["error"]["condition"]))

    def _answered(self, presence: Any) -> None:
        self.answers.append((presence["from"].node, presence["type"]))
        self.reasons.append(presence["status"])

    def ask(self, topic: str, kind: str = "subscribe") -> None:
        self.send_presence(pto=JID(f"{topic}@{EVENTS}"), ptype=kind)

    async def answered(self, topic: str, kind: str) -> None:
        await until(lambda: (topic, kind) in self.answers, WAIT_SECONDS)

    def say(self, topic: str, text: str) -> None:
        self.send_message(JID(f"{topic}@{EVENTS}"), text, mtype="chat")


@asynccontextmanager
async def contact(server: ProsodyServer) -> AsyncIterator[Contact]:
    place = Place(server.url)
    client = Contact(place)
    client.connect("127.0.0.1", place.port)
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            await client.there.wait()
            await client.get_roster()  # a server tells of subscriptions only who has asked for the roster
        yield client
    finally:
        await client.disconnect(wait=1)


def variables(server: ProsodyServer, hub_url: str, folder: Path, **more: str) -> dict[str, str]:
    port = parse_qs(urlsplit(server.url).query)["component"][0]
    about = {
        "XMPP_COMPONENT": EVENTS, "XMPP_COMPONENT_SECRET": PASSWORD, "XMPP_COMPONENT_SERVER": f"127.0.0.1:{port}",
        "XMPP_READERS": f"*@{HOST}=#", "XMPP_PUBLISHERS": f"{READER}=chat.#", "DATA_DIR": str(folder), **more,
    }  # fmt: skip
    return {**{f"HOOKWIRE_{name}": value for name, value in about.items()}, "HOOKWIRE_URL": hub_url}


@asynccontextmanager
async def chatting(environment: dict[str, str]) -> AsyncIterator[asyncio.subprocess.Process]:
    """The command in a process of its own, connected."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "app.cli", "chat", env={"PATH": "/usr/bin:/bin", **environment},
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stderr is not None
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            while b"is connected" not in (line := await process.stderr.readline()):
                assert line, "it ended before it was connected"
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def received(hub: RunningHub, topic: str) -> list[bytes]:
    return [row[0] for row in await hub.sql("SELECT payload FROM hookwire.events WHERE topic = $1 ORDER BY id", topic)]


async def test_a_topic_is_a_contact_that_sends_its_events_and_takes_messages(
    running_hub: RunHub, prosody: ProsodyServer, tmp_path: Path
) -> None:
    """FM-11: subscribing to its presence subscribes; a message to it publishes; both end at what the settings allow."""
    word = secrets.token_hex(4)
    async with running_hub(ALL_ROLES) as hub, contact(prosody) as person:
        async with chatting(variables(prosody, hub.url, tmp_path)):
            person.ask(f"chat.{word}.#")
            await person.answered(f"chat.{word}.#", "subscribed")
            await hub.publish(f"chat.{word}.new", b"from a program")
            person.say(f"chat.{word}.said", "from a person")
            person.say(f"other.{word}", "not allowed")
            person.say("hookwire.operator", "not allowed")
            await until(lambda: len(person.lines) == 2 and len(person.errors) == 2, WAIT_SECONDS)
            person.ask(f"chat.{word}.#", "unsubscribe")
            left = await hub.until("/subscriptions", lambda page: not page["items"])
        stored = [await received(hub, f"{topic}.{word}{more}") for topic, more in (("chat", ".said"), ("other", ""))]

    assert sorted(person.lines) == [f"chat.{word}.new: from a program", f"chat.{word}.said: from a person"]
    assert (stored, person.errors, left["items"]) == ([[b"from a person"], []], ["forbidden", "forbidden"], [])


async def test_who_may_not_read_is_no_contact(running_hub: RunHub, prosody: ProsodyServer, tmp_path: Path) -> None:
    """FM-11: and what is no topic is refused as well."""
    async with running_hub(ALL_ROLES) as hub, contact(prosody) as person:
        environment = variables(prosody, hub.url, tmp_path, XMPP_READERS=f"monitor@{HOST}=#,{READER}=open.#")
        async with chatting(environment):
            for topic in ("closed", "a..b"):
                person.ask(topic)
                await person.answered(topic, "unsubscribed")
            await hub.publish("open.one", b"")
            person.ask("open.one")
            await person.answered("open.one", "subscribed")
        made = await hub.sql("SELECT topic FROM hookwire.subscriptions WHERE protocol = 'pull'")

    assert ("open.one",) in made
    assert ("closed",) not in made


async def test_an_exchange_is_a_contact_by_its_own_name(
    running_hub: RunHub, prosody: ProsodyServer, tmp_path: Path
) -> None:
    """GM-09, FM-11: it sends its messages and takes some; an unknown name is refused with the reason."""
    name, rights = f"git{secrets.token_hex(4)}", "hookwire.rabbithub.#"
    async with running_hub(ALL_ROLES) as hub, contact(prosody) as person:
        environment = variables(
            prosody,
            hub.url,
            tmp_path,
            XMPP_READERS=f"*@{HOST}=#,*@{HOST}={rights}",
            XMPP_PUBLISHERS=f"{READER}={rights}",
        )
        await hub.client.put(f"/rabbithub/endpoint/x/{name}")
        async with chatting(environment):
            person.ask(f"{name}x")
            await person.answered(f"{name}x", "unsubscribed")
            person.ask(name)
            await person.answered(name, "subscribed")
            await hub.client.post(f"/rabbithub/endpoint/x/{name}?hub.topic=push.site", content=b"from a program")
            person.say(name, "from a person")
            await until(lambda: len(person.lines) == 2, WAIT_SECONDS)

    assert sorted(line.rpartition(": ")[2] for line in person.lines) == ["from a person", "from a program"]
    assert person.reasons[0].startswith(f"the hub has no topic and no exchange {name}x")


async def test_what_is_published_while_nobody_is_connected_is_sent_later(
    running_hub: RunHub, prosody: ProsodyServer, tmp_path: Path
) -> None:
    """FM-11: contacts and subscriptions outlive the command."""
    topic = f"later.{secrets.token_hex(4)}"
    async with running_hub(ALL_ROLES) as hub, contact(prosody) as person:
        environment = variables(prosody, hub.url, tmp_path)
        await hub.client.put(f"/topics/{topic}/settings", json={})
        async with chatting(environment):
            person.ask(topic)
            await person.answered(topic, "subscribed")
        await hub.publish(topic, b"meanwhile")
        async with chatting(environment):
            await until(lambda: any("meanwhile" in line for line in person.lines), WAIT_SECONDS)

    assert len(person.lines) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"xmpp_component": ""},
        {"xmpp_component_server": "xmpp.example.org:5347"},
        {"xmpp_component_server": "127.0.0.1:0"},
        {"xmpp_component_server": "127.0.0.1:²"},
        {"xmpp_readers": "ada=#"},
        {"xmpp_readers": "ada@x/phone=#"},
        {"xmpp_publishers": "ada@x"},
        {"xmpp_publishers": "ada@x=a..b"},
    ],
)
def test_settings_that_cannot_be_are_refused_by_name(wrong: dict[str, str]) -> None:
    """FM-11."""
    given: dict[str, Any] = {"xmpp_component": "e.example.org", "xmpp_component_secret": "s", **wrong}
    with pytest.raises(SettingsRefused, match="HOOKWIRE_XMPP_"):
        chat_options(Settings(**given))


@pytest.mark.parametrize(
    ("permission", "address", "topic", "allowed"),
    [
        (Permission("a@x", "orders.#"), "a@x", "orders.new", True),
        (Permission("a@x", "orders.#"), "a@x", "#", False),
        (Permission("*@x", "#"), "b@x", "orders.*", True),
        (Permission("*@x", "#"), "b@y", "orders", False),
        (Permission("*@x", "#"), "b@evil.x", "orders", False),
    ],
)
def test_a_permission_is_for_an_address_or_a_domain_and_a_pattern(
    permission: Permission, address: str, topic: str, allowed: bool
) -> None:
    """FM-11."""
    assert permission.allows(address, topic) == allowed
