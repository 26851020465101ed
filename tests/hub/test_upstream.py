"""This hub as a subscriber: against a publisher and a hub on loopback that are not ours."""

import asyncio
import hmac
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from structlog.testing import capture_logs

from egress.client import Client
from egress.resolver import ThreadResolver
from hub.topic_url import foreign_name
from hub.upstream import Upstreams, end, want
from runtime.wake import Wake
from tests.app.web.api.subscribing.test_hub import client_of
from tests.hub.harness import POLICY, Harness
from tests.hub.publisher import Page, Publisher, serve_topics
from tests.waiting import until


@dataclass
class OtherHub:
    """Takes forms; answers with ``status`` and ``headers`` per path, 202 by default."""

    port: int = 0
    script: dict[str, tuple[int, str]] = field(default_factory=dict)
    forms: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    before_answer: tuple[asyncio.Event, asyncio.Event] | None = None
    """Set when a form has come; waited for before it is answered."""

    def url(self, path: str = "/hub") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = int(head.lower().partition("content-length: ")[2].partition("\r\n")[0])
            body = (await reader.readexactly(length)).decode()
            path = head.split(" ")[1]
            self.forms.append((path, {name: values[0] for name, values in parse_qs(body).items()}))
            if self.before_answer is not None:
                asked, go_on = self.before_answer
                asked.set()
                await go_on.wait()
            status, headers = self.script.get(path, (202, ""))
            writer.write(f"HTTP/1.1 {status} X\r\n{headers}Content-Length: 0\r\n\r\n".encode())
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()


@dataclass
class UpstreamHarness:
    client: httpx.AsyncClient
    harness: Harness
    publisher: Publisher
    other: OtherHub

    def publish(self, body: bytes = b"<html></html>", path: str = "/feed", **page: Any) -> None:
        """Has the publisher advertise the other hub."""
        link = f'Link: <{self.other.url()}>; rel="hub", <{self.publisher.url(path)}>; rel="self"\r\n'
        self.publisher.pages[path] = Page(body, "text/html", **{"headers": link, **page})

    async def asked(self, forms: int = 1) -> dict[str, str]:
        """The latest form that the other hub got, once it has so many."""

        async def enough() -> bool:
            return len(self.other.forms) >= forms

        await until(enough)
        return self.other.forms[-1][1]

    async def state(self, *states: str) -> Any:
        return await until(
            lambda: self.harness.sql.fetchrow(
                "SELECT * FROM hookwire.upstreams WHERE state = ANY ($1::text[])", list(states)
            )
        )

    async def verify(self, form: dict[str, str], **changes: str) -> httpx.Response:
        """The other hub's GET."""
        query = {
            "hub.mode": "subscribe",
            "hub.topic": form["hub.topic"],
            "hub.challenge": "c/1",
            "hub.lease_seconds": "1000",
        }
        query |= {name.replace("_", ".", 1): value for name, value in changes.items()}
        return await self.client.get(urlsplit(form["hub.callback"]).path, params=query)

    async def deliver(self, form: dict[str, str], body: bytes, signature: str | None = None, hops: str = "") -> int:
        signed = f"sha256={hmac.digest(form['hub.secret'].encode(), body, 'sha256').hex()}"
        headers = {"Content-Type": "text/x", "X-Hub-Signature": signed if signature is None else signature}
        headers["Hookwire-Hops"] = hops
        headers = {name: value for name, value in headers.items() if value}
        answer = await self.client.post(urlsplit(form["hub.callback"]).path, content=body, headers=headers)
        return answer.status_code

    async def active(self) -> dict[str, str]:
        """Subscribed and verified; gives the form."""
        self.publish()
        await want(self.harness.hub, self.publisher.url())
        form = await self.asked()
        await self.state("requested")
        assert (await self.verify(form)).status_code == 200
        return form

    async def events(self) -> list[tuple[str, str, bytes]]:
        rows = await self.harness.sql.fetch("SELECT topic, content_type, payload FROM hookwire.events ORDER BY id")
        return [tuple(row) for row in rows]


@asynccontextmanager
async def upstream_harness(
    database_url: str, foreign_topics: str = "any", **options: Any
) -> AsyncIterator[UpstreamHarness]:
    other = OtherHub()
    server = await asyncio.start_server(other.serve, "127.0.0.1", 0)
    other.port = server.sockets[0].getsockname()[1]
    given = {"foreign_topics": foreign_topics, **options}
    async with client_of(database_url, **given) as (client, harness), serve_topics() as publisher:
        outbound = Client(POLICY, ThreadResolver())
        service = Upstreams(harness.hub, outbound, Wake(0.01, 0.05))
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(service.run())
            try:
                yield UpstreamHarness(client, harness, publisher, other)
            except BaseException:
                running.cancel()
                raise
            service.stop()
        await outbound.aclose()
    server.close()


@pytest.mark.parametrize("foreign_topics", ["any", "registered", "off"])
async def test_a_topic_s_own_hub_is_asked_and_what_it_delivers_is_an_event(
    database_url: str, foreign_topics: str
) -> None:
    """WS-87, WS-88, WS-91, WS-92, WS-96: discovery, form, verification, delivery; whatever subscribers may name."""
    async with upstream_harness(database_url, foreign_topics) as on:
        form = await on.active()
        status = await on.deliver(form, b"v1")

        token = form["hub.callback"].rpartition("/")[2]
        assert (form["hub.mode"], form["hub.topic"], len(token) >= 32) == ("subscribe", on.publisher.url(), True)
        assert (status, await on.events()) == (202, [(foreign_name(on.publisher.url()), "text/x", b"v1")])


async def test_the_self_url_and_a_redirected_hub_and_topic_are_used(database_url: str) -> None:
    """WS-88, WS-89, WS-90: the same form goes on to where the hub has moved."""
    async with upstream_harness(database_url) as on:
        on.publish(path="/new")
        on.publisher.pages["/feed"] = Page(status=301, headers="Location: /new\r\n")
        on.other.script = {"/hub": (307, "Location: /second\r\n"), "/second": (308, "Location: /third\r\n")}
        await want(on.harness.hub, on.publisher.url())
        form = await on.asked(3)
        verified = await on.verify(form)

        assert [path for path, _ in on.other.forms] == ["/hub", "/second", "/third"]
        assert {str(sent) for _, sent in on.other.forms} == {str(form)}
        assert (form["hub.topic"], verified.status_code) == (on.publisher.url("/new"), 200)


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, 200),
        ({"hub_topic": "http://other.example/"}, 404),
        ({"hub_mode": "unsubscribe"}, 404),
        ({"hub_challenge": ""}, 404),
    ],
    ids=["right", "topic", "mode", "challenge"],
)
async def test_only_what_was_asked_for_is_confirmed(database_url: str, changes: dict[str, str], status: int) -> None:
    """WS-91: a wrong topic or mode is 404 and changes nothing."""
    async with upstream_harness(database_url) as on:
        on.publish()
        await want(on.harness.hub, on.publisher.url())
        answer = await on.verify(await on.asked(), **changes)
        unknown = await on.client.get("/hub/callback/unknown?hub.mode=subscribe&hub.challenge=c")

        assert (answer.status_code, unknown.status_code) == (status, 404)
        assert answer.text == "c/1" if status == 200 else "c/1" not in answer.text


@pytest.mark.parametrize(
    ("signature", "status", "events"),
    [("sha256=" + "0" * 64, 202, 0), ("", 403, 0), ("md5=00", 403, 0)],
    ids=["wrong", "missing", "unknown"],
)
async def test_what_is_not_signed_with_our_secret_is_ignored(
    database_url: str, signature: str, status: int, events: int
) -> None:
    """WS-93."""
    async with upstream_harness(database_url) as on:
        found = await on.deliver(await on.active(), b"v1", signature)

        assert (found, len(await on.events())) == (status, events)


@pytest.mark.parametrize("method", ["sha1", "sha256", "sha384", "sha512"])
async def test_a_signature_is_checked_by_its_own_method(database_url: str, method: str) -> None:
    """WS-93, SG-6."""
    async with upstream_harness(database_url) as on:
        form = await on.active()
        signature = f"{method.upper()}={hmac.digest(form['hub.secret'].encode(), b'v1', method).hex()}"

        assert (await on.deliver(form, b"v1", signature), len(await on.events())) == (202, 1)


async def test_a_denial_is_not_for_ever(database_url: str) -> None:
    """WS-94: its reason is on record, and the hub is asked again a day later."""
    async with upstream_harness(database_url) as on:
        form = await on.active()
        await on.verify(form, hub_mode="denied", hub_reason="spam", hub_challenge="")
        denied = await on.state("denied")
        await on.harness.sql.execute("UPDATE hookwire.upstreams SET due_at = now()")
        again = await on.asked(2)

        assert (denied["reason"], again["hub.callback"]) == ("spam", form["hub.callback"])


@pytest.mark.parametrize("status", [202, 403])
async def test_a_denial_that_comes_before_the_answer_stays(database_url: str, status: int) -> None:
    """FX-03: its reason, and a day until the hub is asked again, whatever the answer to the request is."""
    async with upstream_harness(database_url) as on:
        on.publish()
        denied, go_on = asyncio.Event(), asyncio.Event()
        on.other.before_answer = denied, go_on
        on.other.script["/hub"] = (status, "")
        await want(on.harness.hub, on.publisher.url())
        await asyncio.wait_for(denied.wait(), 60)
        await on.verify(on.other.forms[-1][1], hub_mode="denied", hub_reason="spam", hub_challenge="")
        go_on.set()
        row = await until(
            lambda: on.harness.sql.fetchrow(
                "SELECT state, reason, due_at > now() + interval '23 hours' AS is_late FROM hookwire.upstreams"
                " WHERE claimed_until IS NULL AND failures > 0"
            )
        )

    assert tuple(row) == ("denied", "spam", True)


async def test_a_lease_is_renewed_before_it_ends_by_a_fresh_discovery(database_url: str) -> None:
    """WS-95: by the hub's own lease; at the hub that the topic advertises then, and deliveries go on meanwhile."""
    async with upstream_harness(database_url) as on:
        form = await on.active()
        row = await on.state("active")
        left = (row["due_at"] - row["lease_until"]).total_seconds()
        link = f"Link: <{on.other.url('/moved')}>; rel=hub\r\n"
        on.publish(headers=link)
        await on.harness.sql.execute("UPDATE hookwire.upstreams SET due_at = now()")
        again = await on.asked(2)

        assert (-250 <= left <= -150, on.other.forms[1][0], again["hub.callback"]) == (
            True,
            "/moved",
            form["hub.callback"],
        )
        assert (await on.deliver(form, b"v1"), (await on.state("active"))["state"]) == (202, "active")


async def test_a_foreign_link_does_not_lead_a_delivery_astray(database_url: str) -> None:
    """WS-97: the callback tells which topic it is for."""
    async with upstream_harness(database_url) as on:
        form = await on.active()
        signed = f"sha256={hmac.digest(form['hub.secret'].encode(), b'v1', 'sha256').hex()}"
        headers = {"X-Hub-Signature": signed, "Link": "<http://other.example/>; rel=self"}
        await on.client.post(urlsplit(form["hub.callback"]).path, content=b"v1", headers=headers)

        assert [topic for topic, _, _ in await on.events()] == [foreign_name(on.publisher.url())]


async def test_an_ended_subscription_answers_410_and_confirms_nothing(database_url: str) -> None:
    """WS-98."""
    async with upstream_harness(database_url) as on:
        form = await on.active()
        ended = await end(on.harness.hub, on.publisher.url())
        status = await on.deliver(form, b"v1")

        assert (ended, status, (await on.verify(form)).status_code, await on.events()) == (True, 410, 404, [])


@pytest.mark.parametrize(
    ("page", "error"),
    [
        (
            Page(b"<html>", "text/html"),
            "the topic advertises no hub: it has no Link header; in HTML, its head has no end",
        ),
        (Page(b"", headers="Link: <http://HUB.example/hub>; rel=hub\r\n"), "the topic advertises no hub but this one"),
        (Page(b"", headers="Link: <http://192.168.0.1/>; rel=hub\r\n"), "the target is not allowed"),
        (Page(status=500), "the topic answered 500"),
        (Page(status=302, headers="Location: /feed\r\n"), "more than 5 redirects"),
    ],
    ids=["none", "ourselves", "private", "500", "loop"],
)
async def test_what_cannot_be_subscribed_to_says_why_and_is_tried_again(
    database_url: str, page: Page, error: str
) -> None:
    """WS-87, WS-100, WS-105: this hub never subscribes to itself."""
    async with upstream_harness(database_url) as on:
        on.publisher.pages["/feed"] = page
        await want(on.harness.hub, on.publisher.url())
        row = await until(lambda: on.harness.sql.fetchrow("SELECT * FROM hookwire.upstreams WHERE reason IS NOT NULL"))

        assert (row["reason"], row["due_at"] is not None, on.other.forms) == (error, True, [])


@pytest.mark.parametrize(
    ("begin", "end", "content_type"),
    [
        (b"<rss><channel>", b"<item><guid>1</guid></item>" * 9000 + b"\xff" * 600_000, "text/plain"),
        (b"<html><head><style>" + b"a{b:c}" * 200_000 + b"</style>", b"</head>", "text/html"),
    ],
    ids=["feed", "html"],
)
async def test_a_hub_is_found_in_the_head_of_a_large_document(
    database_url: str, begin: bytes, end: bytes, content_type: str
) -> None:
    """GW-05."""
    async with upstream_harness(database_url) as on:
        link = f'<link rel="hub" href="{on.other.url()}"/>'.encode()
        on.publisher.pages["/feed"] = Page(begin + link + end, content_type)
        await want(on.harness.hub, on.publisher.url())
        form = await on.asked()

        assert form["hub.topic"] == on.publisher.url()


async def test_hubs_that_feed_each_other_come_to_an_end(database_url: str) -> None:
    """WS-105: content knows through how many hubs it came; at the limit it is refused, and nothing is published."""
    async with upstream_harness(database_url) as on:
        form = await on.active()
        first, last = await on.deliver(form, b"1"), await on.deliver(form, b"2", hops="7")
        over, nonsense = await on.deliver(form, b"3", hops="8"), await on.deliver(form, b"4", hops="x")
        url = {"hub.topic": on.publisher.url()}
        fat = await on.client.post("/hub/content", params=url, content=b"5", headers={"Hookwire-Hops": "8"})
        rows = await on.harness.sql.fetch("SELECT payload, headers FROM hookwire.events ORDER BY id")

        assert (first, last, over, nonsense, fat.status_code) == (202, 202, 400, 400, 400)
        assert "hookwire-hops says that this has passed 8 hubs or more" in fat.text
        assert [(row["payload"], json.loads(row["headers"]).get("hookwire-hops")) for row in rows] == [
            (b"1", None), (b"2", "7"),
        ]  # fmt: skip


async def test_hub_and_topic_may_be_given_by_hand(database_url: str) -> None:
    """GW-06: a publisher with a wrong self link, or without a hub link, could not be followed."""
    async with upstream_harness(database_url) as on:
        on.publisher.pages["/feed"] = Page(b"<html></html>", "text/html")
        body = {"url": on.publisher.url(), "hub_url": on.other.url("/theirs"), "topic_url": on.publisher.url("/xml")}
        await want(on.harness.hub, *body.values())
        form = await on.asked()
        await on.state("requested")
        verified = (await on.verify(form)).status_code
        delivered = await on.deliver(form, b"new")
        row = await on.state("active")

    assert (on.other.forms[-1][0], form["hub.topic"]) == ("/theirs", body["topic_url"])
    assert (verified, delivered, row["hub_url"], row["self_url"]) == (200, 202, body["hub_url"], body["topic_url"])


@pytest.mark.parametrize(
    ("received", "gap", "is_told"),
    [
        ("clock_timestamp() - interval '3 hours'", "'1 hour'", True),
        ("clock_timestamp() - interval '3 hours'", "'2 hours'", False),
        ("clock_timestamp() - interval '50 minutes'", "'1 second'", False),
        ("NULL", "NULL", True),
    ],
)
async def test_an_active_upstream_that_is_quiet_for_longer_than_usual_is_told_once(
    database_url: str, monkeypatch: pytest.MonkeyPatch, received: str, gap: str, is_told: bool
) -> None:
    """GW-06: it looked well for ever."""
    monkeypatch.setattr("hub.upstream._QUIET_PAUSE_SECONDS", 0.0)
    with capture_logs() as logs:
        async with upstream_harness(database_url) as on:
            form = await on.active()
            await on.harness.sql.execute(
                f"UPDATE hookwire.upstreams SET received_at = {received}, longest_gap = {gap}, "
                "created_at = clock_timestamp() - interval '25 hours', due_at = NULL"
            )
            is_quiet = await on.harness.sql.fetchval("SELECT hookwire.is_quiet(u) FROM hookwire.upstreams u")
            if is_told:
                await until(lambda: [one for one in logs if one["event"] == "upstream_quiet"])
            await on.deliver(form, b"new")
            after = await on.harness.sql.fetchrow(
                "SELECT hookwire.is_quiet(u), quiet_told_at FROM hookwire.upstreams u"
            )

    assert (is_quiet, tuple(after)) == (is_told, (False, None))
    assert len([one for one in logs if one["event"] == "upstream_quiet"]) == is_told


async def test_a_hub_that_does_not_answer_delays_no_other_subscription(database_url: str) -> None:
    """GW-01: its kind. One request was made at a time, and each may take a minute."""
    async with upstream_harness(database_url, fetch_deadline_seconds=300.0) as on:
        go_on = asyncio.Event()
        on.other.before_answer = (asyncio.Event(), go_on)
        for path in ("/one", "/two"):
            on.publish(path=path)
            await want(on.harness.hub, on.publisher.url(path))
        await on.asked(2)
        go_on.set()

    assert {form["hub.topic"] for _, form in on.other.forms} == {on.publisher.url("/one"), on.publisher.url("/two")}


async def test_a_delivery_whose_signature_cannot_be_checked_is_asked_for_again(database_url: str) -> None:
    """GW-02: its kind; the key of the secret was lost, and each delivery was answered 202 and thrown away."""
    async with upstream_harness(database_url) as on:
        form = await on.active()
        await on.harness.sql.execute("UPDATE hookwire.upstreams SET key_id = 'lost'")
        status = await on.deliver(form, b"v1")

        assert (status, await on.events()) == (503, [])
