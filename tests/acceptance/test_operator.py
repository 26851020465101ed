"""A scripted operator: five breakages, found in the browser. The test mends the cause, the operator recovers the rest.

Nothing but the browser is used to find out and to recover. Clicks are counted from the first page of the console.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aio_pika
import pytest

from scripts.servers.rabbitmq import RabbitServer
from tests.app.conftest import ALL_ROLES, Receiver, RunHub, RunningHub, running_hub
from tests.app.web.test_replays import command
from tests.app.web.test_stats import fold
from tests.hostile.authority import Authority
from tests.hostile.chromium import Tab, operated
from tests.hub.callback import Callbacks, answers, hang, serve_callbacks

__all__ = ["running_hub"]

_CLICKS_MAX = 3
_FORETOLD = "each hour of the pause leaves out about 1 delivery. Events are kept for [0-9]+ days by default"


@asynccontextmanager
async def desk(folder: Path, *, width: int = 1280, scripts: bool = True) -> AsyncIterator[Tab]:
    """The operator's page; no request of it may leave the hub."""
    async with operated(folder) as browser:
        tab = await browser.tab()
        await tab.shaped(width, scripts=scripts)
        yield tab


async def subscribed(hub: RunningHub, topic: str, callback: str, **more: object) -> str:
    """The id of a subscription to whose first failure a dead letter follows."""
    found = await hub.subscribe(topic, callback, **{"retry_schedule_seconds": [], "timeout_seconds": 1, **more})
    return str(found["id"])


async def recover(tab: Tab, hub: RunningHub) -> tuple[str, int]:
    """Find what was given up, from the first page, and send it again; the words of the form, and the clicks."""
    await tab.open(f"{hub.url}/console")
    await tab.click("See dead letters", ".verdict")
    form = await tab.click("Replay dead letters")
    await tab.click("Yes, replay")
    return form, tab.clicks


class Broken:
    """A receiver by HTTPS whose certificate can be changed."""

    def __init__(self, authority: Authority) -> None:
        self.authority = authority
        self.context = authority.context(days=(-9, -1))
        self.receiver = Receiver(status=204)

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        """Its URL."""
        server = await asyncio.start_server(self.receiver.serve, "127.0.0.1", 0, ssl=self.context)
        try:
            yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
        finally:
            server.close()

    def mend(self) -> None:
        """Have a certificate that has not expired."""
        self.context.load_cert_chain(self.authority.chain())


async def found_and_recovered(tab: Tab, hub: RunningHub, callbacks: Callbacks, path: str, words: str) -> None:
    """An endpoint fails with these words in the list; it is mended, and what it missed arrives."""
    trace = "500" if "500" in words else "timeout"
    one = await subscribed(hub, path.strip("/"), callbacks.url(path))
    event = (await hub.publish(path.strip("/"), b"missed")).json()["id"]
    await hub.until("/dead-letters", lambda page: page["items"])
    await tab.open_until_it_shows(f"{hub.url}/console", "dead letter in the last day")
    listed = await tab.click("See dead letters", ".verdict")
    shown = await tab.click(event)
    seen = tab.clicks
    callbacks.script[path] = answers(204)
    form, clicks = await recover(tab, hub)
    posted = await callbacks.wait_for_posts(2)
    await hub.until(f"/subscriptions/{one}", lambda found: found["health"] == "healthy")

    assert (words in listed, trace in shown, "1 delivery would be sent again." in form) == (True, True, True)
    assert (seen <= _CLICKS_MAX, clicks <= _CLICKS_MAX) == (True, True)
    assert [body for _, _, body in posted] == [b"missed"] * 2


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scripts"), [(1280, True), (390, False)], ids=["desk", "phone without scripts"])
async def test_an_endpoint_that_fails_and_one_that_is_slow_are_found_and_recovered(
    running_hub: RunHub, tmp_path: Path, width: int, scripts: bool
) -> None:
    """CN-01, CN-05, CN-07, CN-14: status 500, then an answer that does not come."""
    async with desk(tmp_path / "profile", width=width, scripts=scripts) as tab:
        for path, broken, words in (
            ("/fails", answers(500), "the last one: server_error 500"),
            ("/slow", hang, "no answer within the time allowed"),
        ):
            async with running_hub(ALL_ROLES) as hub, serve_callbacks() as callbacks:
                callbacks.script[path] = broken
                tab.asked.clear()
                await found_and_recovered(tab, hub, callbacks, path, words)
                foreign = [url for url in tab.asked if not url.startswith((f"{hub.url}/console", "data:"))]

                assert (foreign, len(tab.asked) > 0, tab.thrown) == ([], True, [])


@pytest.mark.slow
async def test_a_certificate_that_has_expired_is_found_and_what_was_missed_is_sent_again(
    running_hub: RunHub, tmp_path: Path
) -> None:
    """CN-01, CN-07."""
    authority = Authority(tmp_path)
    broken = Broken(authority)
    async with (
        broken.serve() as url,
        running_hub(ALL_ROLES, egress_tls_ca=authority.ca_file) as hub,
        desk(tmp_path / "profile") as tab,
    ):
        await subscribed(hub, "a", url)
        await hub.publish("a", b"missed")
        await hub.until("/dead-letters", lambda page: page["items"])
        await tab.open_until_it_shows(f"{hub.url}/console", "dead letter in the last day")
        listed = await tab.click("See dead letters", ".verdict")
        broken.mend()
        _, clicks = await recover(tab, hub)

        assert ("the certificate has expired" in listed, clicks <= _CLICKS_MAX) == (True, True)
        assert [one.body for one in await broken.receiver.wait_for(1)] == [b"missed"]


@pytest.mark.slow
async def test_a_held_key_is_found_and_goes_on_in_order(running_hub: RunHub, tmp_path: Path) -> None:
    """CN-01: the first event of a key is parked, and another one waits behind it. Three clicks retry it."""
    async with running_hub(ALL_ROLES) as hub, serve_callbacks() as callbacks, desk(tmp_path / "profile") as tab:
        callbacks.script["/held"] = answers(500)
        await subscribed(hub, "a", callbacks.url("/held"), mode="ordered")
        for body in (b"1", b"2"):
            await hub.publish("a", body, hookwire_key="k")
        await hub.until("/deliveries?state=parked", lambda page: page["items"])
        callbacks.script["/held"] = answers(204)
        await tab.open_until_it_shows(f"{hub.url}/console", "failing")
        page = await tab.click("Open", ".verdict")
        await tab.click("retry")
        await tab.click("Retry now")
        posted = await callbacks.wait_for_posts(3)

        assert ("parked" in page, tab.clicks) == (True, 3)
        assert [body for _, _, body in posted] == [b"1", b"1", b"2"]


@pytest.mark.slow
async def test_an_event_is_traced_by_one_click_and_a_subscription_or_a_sink_paused_by_three(
    running_hub: RunHub, tmp_path: Path
) -> None:
    """CN-05, CN-06, CN-08, CN-15: interactions 1 and 5, with a forecast, and the command that does the same."""
    async with running_hub(ALL_ROLES) as hub, serve_callbacks() as callbacks, desk(tmp_path / "profile") as tab:
        one = await subscribed(hub, "a", callbacks.url("/well"))
        event = (await hub.publish("a", b"1")).json()["id"]
        await hub.until(f"/deliveries?subscription_id={one}&state=delivered", lambda page: page["items"])
        await fold(hub)
        await tab.open(f"{hub.url}/console")
        await tab.run("text => { document.querySelector('input[type=search]').value = text; }", event)
        trace = await tab.click("Search")
        traced = tab.clicks
        await tab.open(f"{hub.url}/console")
        await tab.click(one, "main")
        form = await tab.click("Pause")
        await tab.click("Pause", "form.act")
        found, pausing = (await hub.client.get(f"/subscriptions/{one}")).json(), tab.clicks
        await tab.open(f"{hub.url}/console")
        await tab.click(one, "main")
        await tab.click("Drain")
        await tab.click("Drain", "form.act")
        drains, draining = (await hub.client.get(f"/subscriptions/{one}")).json()["drains"], tab.clicks
        await tab.open(f"{hub.url}/console")
        await tab.click("webhooks", "main")
        of_sink = await tab.click("Pause")
        await tab.click("Pause", "form.act")
        stopped, stopping = (await hub.client.get("/sinks/webhooks")).json()["paused"], tab.clicks
        await tab.open(f"{hub.url}/console")
        await tab.until_shows("sink webhooks: paused by")
        await tab.click("Open", ".verdict")
        await tab.click("Resume")
        await tab.click("Resume", "form.act")
        resumed = not (await hub.client.get("/sinks/webhooks")).json()["paused"]

        assert ("each hour of the pause queues about" in of_sink, stopped, resumed) == (True, True, True)
        assert (pausing, draining, stopping, tab.clicks) == (3, 3, 3, 3)
        assert ("Timeline" in trace, "attempt 1 delivered" in trace, traced) == (True, True, 1)
        assert (f"hookwire subscriptions pause {one}" in form, re.findall(_FORETOLD, form) != []) == (True, True)
        assert (found["state"], drains, tab.thrown) == ("disabled", True, [])


class Wire:
    """A way to the broker that the test cuts and mends."""

    def __init__(self, port: int) -> None:
        self.broker = port
        self.port = 0
        self.is_cut = True
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Wire:
        self._server = await asyncio.start_server(self._pass, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_cut:
            writer.transport.abort()
            return
        there, back = await asyncio.open_connection("127.0.0.1", self.broker)
        await asyncio.gather(_copied(reader, back), _copied(there, writer))


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


@pytest.mark.slow
async def test_a_dead_broker_is_told_on_the_first_page_and_its_events_follow_when_it_is_back(
    running_hub: RunHub, rabbitmq: RabbitServer, tmp_path: Path
) -> None:
    """CN-01, CN-02: nothing has to be done; the page says so by itself."""
    name = f"operator-{secrets.token_hex(4)}"
    async with Wire(rabbitmq.port) as wire, desk(tmp_path / "profile") as tab:
        async with await aio_pika.connect(rabbitmq.url) as connection, connection.channel() as channel:
            exchange = await channel.declare_exchange(name, "topic", durable=True)
            queue = await channel.declare_queue(name, durable=True)
            await queue.bind(exchange, "#")
            url = rabbitmq.url.replace(f":{rabbitmq.port}", f":{wire.port}")
            async with running_hub(ALL_ROLES, amqp_url=url, amqp_exchange=name) as hub:
                await hub.publish("a", b"late")
                await tab.open_until_it_shows(f"{hub.url}/console", "AMQP does not answer")
                told = await tab.text()
                wire.is_cut = False
                await tab.open_until_it_shows(f"{hub.url}/console", "0 owed to sinks")
                message = await queue.get(timeout=60)
                await queue.delete(if_unused=False, if_empty=False)

        assert ("sink amqp: AMQP does not answer" in told, tab.clicks, message.body) == (True, 0, b"late")


_CAUSES = """
WITH i AS (
    INSERT INTO hookwire.incidents (tenant, subscription_id, sink, fingerprint, outcome, status, excerpt)
    SELECT 'default', s.id, 'webhooks', 'cause ' || n, 'server_error', 500, 'cause ' || n
    FROM hookwire.subscriptions s, generate_series(1, 3) n RETURNING id, fingerprint, subscription_id
), e AS (
    INSERT INTO hookwire.events (id, accepted_at, ordered, tenant, topic, key, headers, sinks, payload)
    SELECT n, now(), true, 'default', 'a', 'k' || n % 100, '{}', '{webhooks}', convert_to(n::text, 'UTF8')
    FROM generate_series(2, 100001) n RETURNING id
)
INSERT INTO hookwire.dead_letters
    (event_id, subscription_id, tenant, kind, attempts, last_outcome, last_status, incident_id)
SELECT e.id, i.subscription_id, 'default', 'exhausted', 3, 'server_error', 500, i.id
FROM e JOIN i ON i.fingerprint = 'cause ' || CASE e.id % 50 WHEN 0 THEN 3 WHEN 1 THEN 2 ELSE 1 END
"""
"""A hundred thousand dead letters: 96 % of the first cause, 2 % of each other one."""


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scripts"), [(1280, True), (390, False)], ids=["desk", "phone without scripts"])
async def test_one_cause_of_three_is_cured_in_the_browser_and_one_by_commands(
    running_hub: RunHub, tmp_path: Path, width: int, scripts: bool
) -> None:
    """CN-03, CN-04, CN-07, CN-15: interactions 2 and 3, among 100,000 dead letters. Exactly its share is sent.

    The subscription is disabled. Three clicks from the first page count, probe, enable it and begin the replay.
    """
    async with (
        running_hub(ALL_ROLES) as hub,
        serve_callbacks() as callbacks,
        desk(tmp_path / "profile", width=width, scripts=scripts) as tab,
    ):
        callbacks.script["/well"] = answers(503)
        one = await subscribed(hub, "a", callbacks.url("/well"), mode="ordered")
        await hub.sql(_CAUSES)
        await hub.sql("SELECT setval('hookwire.event_id', 100001)")
        await hub.client.patch(f"/subscriptions/{one}", json={"state": "disabled"})
        listed = {one["excerpt"]: one for one in (await hub.client.get("/incidents")).json()["items"]}
        failed, _ = await recovered_from_its_cause(tab, hub)
        untouched = (await hub.client.get(f"/subscriptions/{one}")).json()["state"]
        callbacks.script["/well"] = answers(204)
        answer, form = await recovered_from_its_cause(tab, hub)
        clicks = tab.clicks
        state = (await hub.client.get(f"/subscriptions/{one}")).json()["state"]
        second = listed["cause 2"]["id"]
        counted = await command(hub, "incidents", "recover", second, "--rate", "1000", "--dry-run")
        done = await command(hub, "incidents", "recover", second, "--rate", "1000", "--json")
        posted = [int(body) for _, _, body in await callbacks.wait_for_posts(4_001)][1:]
        await hub.until(f"/dead-letters?incident_id={second}", lambda page: page["items"] == [])
        left = {one["excerpt"]: one["dead"] for one in (await hub.client.get("/incidents")).json()["items"]}
        third = [number for number in posted if number % 50 == 0]
        by_key = [[number for number in third[1:] if number % 100 == key] for key in (0, 50)]

        assert {cause: one["dead"] for cause, one in listed.items()} == {
            "cause 1": 96_000, "cause 2": 2_000, "cause 3": 2_000,
        }  # fmt: skip
        assert ("The probe was not delivered: nothing was changed" in failed, untouched) == (True, "disabled")
        assert "The subscription takes no deliveries now and would be enabled. 2,000 deliveries would" in form
        assert f"hookwire incidents recover {listed['cause 3']['id']}" in form
        assert ("The subscription is enabled" in answer, state) == (True, "active")
        assert (clicks <= _CLICKS_MAX, tab.thrown) == (True, [])
        assert counted.stdout == "would send one, and if it is delivered send 2000 again, in 2 s at least\n"
        assert json.loads(done.stdout)["recovered"]
        assert sorted(posted) == [number for number in range(2, 100_002) if number % 50 in (0, 1)]
        assert by_key == [sorted(numbers) for numbers in by_key]
        assert left == {"cause 1": 96_000, "cause 2": 0, "cause 3": 0}


async def recovered_from_its_cause(tab: Tab, hub: RunningHub) -> tuple[str, str]:
    """Recover the newest incident from the first page; the words of the answer, and of the form before it."""
    await tab.open(f"{hub.url}/console")
    await tab.click("Incidents")
    form = await tab.click("recover")
    return await tab.click("Yes, recover"), form
