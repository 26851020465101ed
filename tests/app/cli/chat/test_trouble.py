"""`hookwire chat` while its XMPP server is away, and with senders who are not what they say (FM-11)."""

from __future__ import annotations

import asyncio
import secrets
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from slixmpp import JID, ClientXMPP

import app.cli.chat.component as component_module
from app.cli.chat.component import ChatComponent
from app.cli.chat.contacts import ChatOptions, Contacts, Permission
from scripts.servers.prosody import EVENTS, HOST, PASSWORD, ProsodyServer
from tests.app.cli.chat.test_chat import READER, chatting, contact, received, variables
from tests.app.cli.monitor.test_monitor import ACCOUNT, Place, owed
from tests.app.conftest import ALL_ROLES, WAIT_SECONDS, RunHub, RunningHub
from tests.waiting import until

LEASE_SECONDS = 3.0
TRYING = "trying again in "


@asynccontextmanager
async def component(server: ProsodyServer, hub: RunningHub, folder: Path) -> AsyncIterator[None]:
    """The component inside the test, with permissions for everybody of the server."""
    port = int(parse_qs(urlsplit(server.url).query)["component"][0])
    everything = [Permission(f"*@{HOST}", "#")]
    options = ChatOptions(EVENTS, ("127.0.0.1", port), PASSWORD, everything, everything, answer_seconds=1.0)
    chat = ChatComponent(options, hub.url, Contacts(folder / "chat.json"))
    running = asyncio.create_task(chat.run())
    try:
        yield
    finally:
        running.cancel()
        await asyncio.wait([running])
        chat._client.abort()


async def is_done(hub: RunningHub) -> bool:
    """Whether every event is delivered and acknowledged."""
    return await owed(hub) == 0


@pytest.mark.fault
async def test_events_of_an_outage_longer_than_a_lease_are_each_sent_once_when_the_server_is_back(
    running_hub: RunHub, prosody: ProsodyServer, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """FM-11: the component tries again after growing pauses; no line is lost or sent twice."""
    monkeypatch.setattr(component_module, "_LEASE_SECONDS", LEASE_SECONDS)
    topic, told = f"away.{secrets.token_hex(4)}", list[str]()
    numbers = [str(number) for number in range(30)]
    async with running_hub(ALL_ROLES) as hub, component(prosody, hub, tmp_path):
        await hub.client.put(f"/topics/{topic}/settings", json={})
        async with contact(prosody) as person:
            person.ask(topic)
            await person.answered(topic, "subscribed")
            await hub.publish(topic, b"before")
            await until(lambda: len(person.lines) == 1)
            await until(lambda: is_done(hub))
        await asyncio.to_thread(prosody.kill)
        for number in numbers:
            await hub.publish(topic, number.encode())
        await until(lambda: told.append(capsys.readouterr().err) or "".join(told).count(TRYING) >= 4)
        await asyncio.to_thread(prosody.start)
        async with contact(prosody) as person:
            await until(lambda: len(person.lines) >= len(numbers))
            await until(lambda: is_done(hub))
            lines = Counter(person.lines)

    pauses = [line.partition(TRYING)[2] for line in "".join(told).splitlines() if TRYING in line]
    assert pauses[:4] == ["0.5 s", "1 s", "2 s", "4 s"]
    assert lines == Counter(f"{topic}: {number}" for number in numbers)


class Forger(ClientXMPP):
    """The account `monitor`, which says that it is `reader`; ``answers``: what it gets, and the reader does not."""

    def __init__(self, place: Place) -> None:
        super().__init__(ACCOUNT, PASSWORD)
        self.ca_certs, self.enable_direct_tls = place.ca, False
        self.there = asyncio.Event()
        self.answers: list[str] = []
        self.add_event_handler("session_start", self._start)
        self.add_event_handler("message_error", lambda message: self.answers.append(message["error"]["condition"]))
        self.add_event_handler("presence_unsubscribed", lambda _: self.answers.append("unsubscribed"))

    async def _start(self, _: object) -> None:
        await self.get_roster()
        self.send_presence()
        self.there.set()


@asynccontextmanager
async def forger(server: ProsodyServer) -> AsyncIterator[Forger]:
    place = Place(server.url)
    client = Forger(place)
    client.connect("127.0.0.1", place.port)
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            await client.there.wait()
        yield client
    finally:
        client.abort()


@pytest.mark.parametrize("forged", [True, False])
async def test_a_sender_may_do_what_its_true_address_permits_also_under_a_forged_one(
    running_hub: RunHub, prosody: ProsodyServer, tmp_path: Path, forged: bool
) -> None:
    """FM-11: the server sets the true address; only `reader` may publish and read here."""
    topic = f"chat.{secrets.token_hex(4)}"
    to, sender = JID(f"{topic}@{EVENTS}"), JID(READER) if forged else None
    async with running_hub(ALL_ROLES) as hub, contact(prosody) as person:
        environment = variables(prosody, hub.url, tmp_path, XMPP_READERS=f"{READER}=#")
        async with chatting(environment), forger(prosody) as client:
            client.send_message(to, "forged", mtype="chat", mfrom=sender)
            client.send_presence(pto=to, pfrom=sender, ptype="subscribe")
            await until(lambda: len(client.answers) == 2)
            # What the reader itself sends later is handled behind it.
            person.say(topic, "true")
            await until(lambda: received(hub, topic))
        stored = await received(hub, topic)
        subscribed = await hub.sql("SELECT topic FROM hookwire.subscriptions WHERE protocol = 'pull'")

    assert (sorted(client.answers), person.errors, person.answers) == (["forbidden", "unsubscribed"], [], [])
    assert (stored, (topic,) in subscribed) == ([b"true"], False)


@pytest.mark.parametrize(
    ("wrong", "setting", "reason"),
    [
        ({"XMPP_COMPONENT_SECRET": "guessed"}, "HOOKWIRE_XMPP_COMPONENT_SECRET", "does not accept the component"),
        ({"XMPP_COMPONENT_SERVER": "127.0.0.1:1"}, "HOOKWIRE_XMPP_COMPONENT_SERVER", "cannot reach 127.0.0.1:1"),
    ],
)
async def test_a_component_that_is_not_taken_says_which_setting_to_check(
    prosody: ProsodyServer, tmp_path: Path, wrong: dict[str, str], setting: str, reason: str
) -> None:
    """FM-11: nobody else becomes the domain of the topics; a server that is not there has another cure."""
    environment = variables(prosody, "http://127.0.0.1:1", tmp_path, **wrong)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "app.cli", "chat", env={"PATH": "/usr/bin:/bin", **environment},
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(WAIT_SECONDS):
        _, said = await process.communicate()

    assert (process.returncode, setting in said.decode(), reason in said.decode()) == (3, True, True)
