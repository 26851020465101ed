"""`hookwire monitor`: events as lines of an XMPP chat, on a real Prosody, read by a real client (WH-A07)."""

from __future__ import annotations

import asyncio
import json
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from slixmpp import JID, ClientXMPP
from slixmpp.exceptions import PresenceError
from typer.testing import CliRunner

from app.cli.failure import CommandFailed
from app.cli.main import application
from app.cli.monitor.monitoring import Monitoring, Pace, summary
from app.cli.monitor.options import XmppOptions, xmpp_options
from app.cli.monitor.xmpp import Xmpp
from app.cli.pulling import Pulling
from app.settings.settings import Settings, SettingsRefused
from relay.tls import TlsFiles
from runtime.port import free_port
from scripts.servers.prosody import CLOSED, HOST, PASSWORD, ROOMS, ProsodyServer
from tests.app.cli.test_main import ended, hookwire, started
from tests.app.conftest import WAIT_SECONDS, RunHub, RunningHub
from tests.waiting import poll, until

ROLES = ("api", "relay", "deliver")
ACCOUNT = f"monitor@{HOST}"
READER = f"reader@{HOST}"


class Place:
    """Where the server is: what the tests need of its address, so that a given one does as well."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        query = parse_qs(parts.query)
        self.port, self.direct = parts.port or 5222, int(query["direct"][0])
        self.ca = Path(query["ca"][0])

    def options(self, to: str, nick: str | None = None, **more: Any) -> XmppOptions:
        made = XmppOptions(
            ACCOUNT, PASSWORD, to, nick, ("127.0.0.1", self.port), files=TlsFiles("HOOKWIRE_XMPP_TLS", self.ca)
        )
        return replace(made, **more)

    def variables(self, **more: str) -> dict[str, str]:
        return {
            "XMPP_ACCOUNT": ACCOUNT, "XMPP_PASSWORD": PASSWORD, "XMPP_SERVER": f"127.0.0.1:{self.port}",
            "XMPP_TLS_CA": str(self.ca), **more,
        }  # fmt: skip


@pytest.fixture
def place(prosody: ProsodyServer) -> Place:
    return Place(prosody.url)


@pytest.fixture
def room() -> str:
    """A room that only this test knows."""
    return f"r{secrets.token_hex(4)}@{ROOMS}"


class Reader(ClientXMPP):
    """The chat client of somebody who watches; `lines` are what is shown there."""

    def __init__(self, place: Place, room: str | None) -> None:
        super().__init__(READER, PASSWORD)
        self.place, self.room = place, room
        self.lines: list[str] = []
        self.there = asyncio.Event()
        self.ca_certs = place.ca
        self.enable_direct_tls = False
        self.register_plugin("xep_0045")
        self.add_event_handler("session_start", self._start)
        self.add_event_handler("message", self._message)
        self.add_event_handler("presence_error", self._refused)

    async def _start(self, _: object) -> None:
        if self.room is not None:
            await self._join(JID(self.room))
        self.send_presence()
        self.there.set()

    async def _join(self, room: JID) -> None:
        """Enter. A new room is closed to all others until its maker, one of the two, has accepted its settings."""
        rooms = self.plugin["xep_0045"]
        while True:
            try:
                presence, *_ = await rooms.join_muc_wait(room, "reader", timeout=WAIT_SECONDS)
            except PresenceError as error:
                if error.condition != "item-not-found":
                    raise
                await poll()
            else:
                break
        if 201 in presence["muc"]["status_codes"]:
            await rooms.set_room_config(room, self.plugin["xep_0004"].make_form("submit"))

    def _refused(self, presence: Any) -> None:
        """Tell the waiting join, which does not know the address that the server's refusal comes from."""
        self.event(f"muc::{presence['from'].bare}::presence-error", presence)

    def _message(self, message: Any) -> None:
        if message["type"] in ("chat", "groupchat") and message["body"]:
            self.lines.append(message["body"])


@asynccontextmanager
async def reading(place: Place, room: str | None = None) -> AsyncIterator[Reader]:
    reader = Reader(place, room)
    reader.connect("127.0.0.1", place.port)
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            await reader.there.wait()
        yield reader
    finally:
        await reader.disconnect(wait=1)


async def owed(hub: RunningHub) -> int:
    return len(await hub.sql("SELECT 1 FROM hookwire.deliveries UNION ALL SELECT 1 FROM hookwire.outbox"))


async def pulling(hub: RunningHub, topic: str = "orders.#") -> str:
    """A pull subscription that is there before what is published."""
    answer = await hub.client.post("/subscriptions/pull", json={"topic": topic})
    return str(answer.json()["id"])


# --- the command -------------------------------------------------------------------------------------------------


async def test_a_room_sees_a_line_for_each_event_and_then_they_are_done_with(
    running_hub: RunHub, place: Place, room: str
) -> None:
    """As a process, by STARTTLS; what a publisher wrote is text, whatever is in it."""
    async with running_hub(ROLES) as hub, reading(place, room) as reader:
        words = ("monitor", "orders.#", "--room", room, "--template", "{topic}: {data.who}", "--count", "2")
        async with started(*words, "--url", hub.url, **place.variables()) as process:
            await hub.until("/subscriptions", lambda answer: answer["items"] != [])
            await hub.publish("orders.new", b'{"who": "Ada"}')
            await hub.publish("orders.paid", json.dumps({"who": "\x01<b>&\x1b"}).encode())
            finished = await ended(process)
        await until(lambda: len(reader.lines) >= 2)
        left = (await hub.client.get("/subscriptions")).json()["items"]
        assert (finished.code, left, await owed(hub)) == (0, [], 0), finished.stderr
    assert reader.lines == ["orders.new: Ada", "orders.paid: \ufffd<b>&\ufffd"]


async def test_an_address_gets_them_too_by_direct_tls(running_hub: RunHub, place: Place) -> None:
    async with running_hub(ROLES) as hub, reading(place) as reader:
        given = await pulling(hub)
        await hub.publish("orders.new", b"tea")
        variables = place.variables(XMPP_TLS="direct", XMPP_SERVER=f"127.0.0.1:{place.direct}")
        words = ("monitor", "--subscription", given, "--to", READER, "--count", "1", "--url", hub.url)
        finished = await hookwire(*words, **variables)
        await until(lambda: len(reader.lines) >= 1)
        kept = (await hub.client.get("/subscriptions")).json()["items"]
        assert (finished.code, finished.stderr, len(kept)) == (0, "", 1)
    assert reader.lines == ["orders.new: tea"]


def test_without_its_library_it_names_the_extra(tmp_path: Path) -> None:
    script = "import sys; sys.modules['slixmpp'] = None; from app.cli.main import main; main()"
    environment = {"HOOKWIRE_XMPP_ACCOUNT": ACCOUNT, "HOOKWIRE_XMPP_PASSWORD": PASSWORD, "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", script, "monitor", "--to", READER], env=environment, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (
        2, "hookwire: the XMPP client is missing (slixmpp); install the extra: hookwire-server[chat]\n",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "give either --to ADDRESS or --room ADDRESS"),
        (("--to", READER, "--room", "r@x"), "give either --to ADDRESS or --room ADDRESS"),
        (("--to", READER, "--template", "{nothing}"), "--template: {nothing} is none of"),
        (("--to", READER, "--template", "x" * 2_001), "--template has more than 2000 characters"),
        (("--to", READER), "HOOKWIRE_XMPP_ACCOUNT and HOOKWIRE_XMPP_PASSWORD"),
    ],
    ids=["nobody", "both", "template", "long", "account"],
)
def test_wrong_use_is_told_by_the_options_name(words: tuple[str, ...], says: str) -> None:
    with pytest.raises((CommandFailed, SettingsRefused), match=says):
        CliRunner().invoke(application("monitor"), ["monitor", *words], catch_exceptions=False)


# --- what is lost in between -------------------------------------------------------------------------------------


async def test_nothing_is_lost_when_the_chat_server_is_killed(
    running_hub: RunHub, prosody: ProsodyServer, place: Place, room: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was accepted while it was away is said when it is back, and acknowledged not before."""
    async with running_hub(ROLES) as hub, reading(place, room) as reader:
        given = await pulling(hub)
        async with Pulling(hub.url, {"topic": "orders.#"}, given) as pull, Xmpp(place.options(room, "bot")) as chat:
            watching = asyncio.ensure_future(Monitoring(pull, chat.say, "{content}", Pace(600)).run(6))
            await hub.publish("orders.a", b"before")
            await until(lambda: reader.lines == ["before"])
            await asyncio.to_thread(prosody.kill)
            for number in range(5):
                await hub.publish("orders.a", b"while away %d" % number)
            await until(lambda: "trying again" in capsys.readouterr().err)
            still_owed = await owed(hub)
            await asyncio.to_thread(prosody.start)
            async with reading(place, room) as again:  # the room shows its history to who comes later
                async with asyncio.timeout(WAIT_SECONDS):
                    await watching
                await until(lambda: len(set(again.lines)) >= 5)
        assert (still_owed, await owed(hub), set(again.lines)) == (5, 0, {f"while away {n}" for n in range(5)})


async def test_a_line_that_the_server_never_took_is_said_again(place: Place, room: str) -> None:
    """The connection breaks with a line on its way; whoever reads sees it in the end."""
    async with reading(place, room) as reader, Xmpp(place.options(room, "bot")) as chat:
        await chat.say("one")
        saying = asyncio.ensure_future(chat.say("two"))
        chat._client.abort()  # before the line has left
        async with asyncio.timeout(WAIT_SECONDS):
            await saying
        await until(lambda: "two" in reader.lines)
    assert reader.lines[0] == "one"


# --- refusals ----------------------------------------------------------------------------------------------------


async def refused(options: XmppOptions) -> tuple[int, str]:
    with pytest.raises(CommandFailed) as failure:
        async with Xmpp(options):
            pass
    return failure.value.code, str(failure.value)


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        ({"password": "guess-4711"}, 2, "HOOKWIRE_XMPP_PASSWORD"),
        ({"account": f"nobody@{HOST}"}, 2, "HOOKWIRE_XMPP_PASSWORD"),
        ({"account": "monitor@elsewhere.example"}, 2, "HOOKWIRE_XMPP_ACCOUNT"),
        ({"peer": f"x@{CLOSED}"}, 2, "--room: x@closed.localhost is refused, not-allowed"),
        ({"peer": "x@nowhere.localhost"}, 2, "--room: x@nowhere.localhost is refused"),
        ({"tls": "direct"}, 2, "HOOKWIRE_XMPP_TLS: 127.0.0.1"),
        ({"files": TlsFiles("HOOKWIRE_XMPP_TLS")}, 2, "HOOKWIRE_XMPP_TLS_CA names the authority"),
    ],
    ids=["password", "account", "domain", "closed room", "no room service", "direct TLS at STARTTLS", "authority"],
)
async def test_what_cannot_begin_names_what_to_change(
    place: Place, room: str, change: dict[str, Any], code: int, says: str
) -> None:
    """And never the password."""
    options = place.options(room, "bot", **change)
    found, text = await refused(options)
    assert (found, says in text, options.password in text) == (code, True, False), text


async def test_a_name_that_somebody_has_in_the_room_is_refused(place: Place, room: str) -> None:
    async with reading(place, room):
        code, text = await refused(place.options(room, "reader"))
    assert (code, text) == (2, f"--room: {room} is refused, conflict: another member has that name there: --nick")


async def test_a_server_that_is_not_there_is_named(place: Place) -> None:
    port = free_port()
    code, text = await refused(place.options(READER, server=("127.0.0.1", port)))
    assert (code, f"HOOKWIRE_XMPP_SERVER: cannot reach 127.0.0.1:{port}" in text) == (3, True), text


async def test_who_offers_no_encryption_hears_no_password(place: Place, tmp_path: Path) -> None:
    """A server, or somebody in between, that leaves STARTTLS out."""
    heard = b""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal heard
        writer.write(
            b"<?xml version='1.0'?><stream:stream xmlns='jabber:client' id='1' version='1.0' from='localhost'"
            b" xmlns:stream='http://etherx.jabber.org/streams'><stream:features>"
            b"<mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><mechanism>SCRAM-SHA-1</mechanism>"
            b"<mechanism>PLAIN</mechanism></mechanisms></stream:features>"
        )
        heard += await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        code, text = await refused(place.options(READER, server=("127.0.0.1", port)))
    assert (code, text, b"auth" in heard) == (
        2, f"HOOKWIRE_XMPP_TLS: 127.0.0.1:{port} offers no STARTTLS, and nothing is sent without it", False,
    )  # fmt: skip


async def test_an_address_that_the_server_does_not_know_is_refused_on_the_first_line(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    async with Xmpp(place.options(f"nobody@{HOST}")) as chat:
        saying = asyncio.ensure_future(chat.say("hello"))
        await until(lambda: f"--to: nobody@{HOST} refuses the line" in capsys.readouterr().err)
        saying.cancel()


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"xmpp_account": "monitor"}, "HOOKWIRE_XMPP_ACCOUNT is an XMPP address"),
        ({"to": "reader"}, "--to is an XMPP address"),
        ({"room": "a b@rooms"}, "--room is an XMPP address"),
        ({"room": "a@rooms", "nick": " "}, "--nick"),
        ({"xmpp_server": "host:port"}, "HOOKWIRE_XMPP_SERVER is host or host:port"),
        ({"xmpp_server": "host:99999"}, "HOOKWIRE_XMPP_SERVER is host or host:port"),
        ({"xmpp_server": "chat.example", "xmpp_tls": "none"}, "HOOKWIRE_XMPP_TLS is none"),
        ({"xmpp_tls": "none"}, "HOOKWIRE_XMPP_TLS is none"),
        ({"xmpp_tls_ca": "/nowhere/ca.pem"}, "HOOKWIRE_XMPP_TLS_CA cannot be used"),
    ],
    ids=["account", "address", "room", "name", "no port", "no such port", "in the clear", "in the clear, by DNS", "ca"],
)
def test_settings_that_cannot_work_are_refused_before_anything_is_said(
    tmp_path: Path, values: dict[str, Any], says: str
) -> None:
    to, room, nick = values.pop("to", READER), values.pop("room", None), values.pop("nick", "bot")
    settings = Settings(**{"data_dir": tmp_path, "xmpp_account": ACCOUNT, "xmpp_password": PASSWORD, **values})
    with pytest.raises(SettingsRefused, match=says):
        xmpp_options(settings, None if room else to, room, nick)


@pytest.mark.parametrize(
    ("server", "tls", "found"),
    [
        ("", "starttls", None),
        ("chat.example", "starttls", ("chat.example", 5222)),
        ("chat.example", "direct", ("chat.example", 5223)),
        ("[::1]:15222", "none", ("::1", 15222)),
    ],
)
def test_the_port_goes_with_the_way_of_encryption(
    tmp_path: Path, server: str, tls: Any, found: tuple[str, int] | None
) -> None:
    settings = Settings(
        data_dir=tmp_path, xmpp_account=ACCOUNT, xmpp_password=PASSWORD, xmpp_server=server, xmpp_tls=tls
    )
    assert xmpp_options(settings, READER, None, "bot").server == found


# --- too much ----------------------------------------------------------------------------------------------------


async def test_what_is_too_much_is_summed_up_in_a_line_and_acknowledged_with_it(running_hub: RunHub) -> None:
    now = 0.0
    lines: list[str] = []
    owed_then: list[int] = []

    async with running_hub(ROLES) as hub:

        async def say(line: str) -> None:
            lines.append(line)
            owed_then.append(await owed(hub))

        given = await pulling(hub)
        for number in range(7):
            await hub.publish("orders.new" if number < 4 else "orders.paid", b"%d" % number)
        await hub.until(
            "/undelivered",
            lambda page: len([x for x in page["items"] if x["delivery_id"] and x["state"] != "dead"]) == 7,
        )
        async with Pulling(hub.url, {"topic": "orders.#"}, given) as pull:
            monitoring = Monitoring(pull, say, None, Pace(2, lambda: now))
            watching = asyncio.ensure_future(monitoring.run(8))
            await until(lambda: len(monitoring._left_out) == 5)
            now += 60.0
            await hub.publish("orders.paid", b"8")
            async with asyncio.timeout(WAIT_SECONDS):
                await watching
        left = await owed(hub)
    assert (lines, owed_then, left) == (
        ["orders.new: 0", "orders.new: 1", "… 6 more events left out: orders.paid 4, orders.new 2"], [7, 6, 6], 0,
    )  # fmt: skip


def test_a_pace_gives_back_room_with_time_and_no_more_than_a_minute_s() -> None:
    now = 0.0
    pace = Pace(2, lambda: now)
    at_once = [pace.take() for _ in range(3)]
    wait = pace.wait_seconds()
    now = 30.0
    later = [pace.take() for _ in range(2)]
    now = 10_000.0
    rested = [pace.take() for _ in range(3)]
    assert (at_once, wait, later, rested) == ([True, True, False], 30.0, [True, False], [True, True, False])


@pytest.mark.parametrize(
    ("topics", "line"),
    [
        (["a"], "… 1 more event left out: a 1"),
        (["a", "b", "b"], "… 3 more events left out: b 2, a 1"),
        (list("aabbccddeefg"), "… 12 more events left out: a 2, b 2, c 2, d 2, e 2, others 2"),
    ],
)
def test_a_summary_names_the_topics_of_most(topics: list[str], line: str) -> None:
    assert summary(topics) == line
