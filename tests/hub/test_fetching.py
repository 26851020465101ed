"""Foreign topics against a real database and a publisher on loopback: what is fetched, and what is distributed."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from egress.client import Client
from egress.resolver import ThreadResolver
from hub.acceptance import ping
from hub.fetching import Fetching
from hub.form import FormRefused, Mode, Pinging
from runtime.wake import Wake
from tests.hub.harness import POLICY, Harness, hub_harness
from tests.hub.publisher import Page, Publisher, serve_topics
from tests.waiting import until

ATOM = "application/atom+xml"


@dataclass
class FetchingHarness:
    harness: Harness
    publisher: Publisher

    async def subscribe(self, path: str = "/feed") -> None:
        await self.harness.ask(topic_url=self.publisher.url(path))

    async def ping(self, path: str = "/feed") -> None:
        await ping(self.harness.hub, Pinging((self.publisher.url(path),)))

    async def settled(self, path: str = "/feed") -> Any:
        """The topic's row, once nothing is to be fetched any more or a fetch has failed."""
        return await until(
            lambda: self.harness.sql.fetchrow(
                "SELECT * FROM hookwire.foreign_topics WHERE url = $1 AND claimed_until IS NULL AND claims > 0"
                " AND (due_at IS NULL OR failures > 0)",
                self.publisher.url(path),
            )
        )

    async def events(self) -> list[tuple[bytes, str | None]]:
        rows = await self.harness.sql.fetch("SELECT payload, content_type FROM hookwire.events ORDER BY id")
        return [(row["payload"], row["content_type"]) for row in rows]

    async def link(self) -> str:
        """The links of the latest event, as they go into its deliveries."""
        headers = await self.harness.sql.fetchval("SELECT headers FROM hookwire.events ORDER BY id DESC LIMIT 1")
        link: str = json.loads(headers)["hookwire-link"]
        return link

    @asynccontextmanager
    async def fetching(self, **options: Any) -> AsyncIterator[None]:
        """Runs the service; it is stopped softly afterwards."""
        client = Client(POLICY, ThreadResolver())
        wake = Wake(0.01, 0.05)
        hub = self.harness.hub
        service = Fetching(hub.database, client, hub.options, wake, lambda: None)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(service.run())
            try:
                yield
            except BaseException:
                running.cancel()
                raise
            service.stop()
        await client.aclose()


@asynccontextmanager
async def fetching_harness(database_url: str, **options: Any) -> AsyncIterator[FetchingHarness]:
    given = {"foreign_topics": "any", "fetch_pause_seconds": 0.0, **options}
    async with hub_harness(database_url, **given) as harness, serve_topics() as publisher:
        yield FetchingHarness(harness, publisher)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"<html></html>", "text/html; charset=UTF-8"),
        ("grüße".encode("latin-1"), "text/plain; charset=iso-8859-1"),
        (b"{}", "application/json"),
        (bytes(range(256)), "application/x-odd; v=2"),
        (b"", None),
        (b"x" * 1_000_000, "text/plain"),
    ],
    ids=["html", "latin-1", "json", "binary", "empty", "large"],
)
async def test_a_ping_distributes_the_content_as_it_is(
    database_url_both: str, body: bytes, content_type: str | None
) -> None:
    """WS-06, WS-50, WS-51, WS-76: every byte, and the type as a string."""
    async with fetching_harness(database_url_both) as on:
        on.publisher.pages["/feed"] = Page(body, content_type)
        await on.subscribe()
        await on.ping()
        async with on.fetching():
            await on.settled()

        assert await on.events() == [(body, content_type)]


async def test_a_topic_that_nobody_subscribed_to_is_not_fetched(database_url: str) -> None:
    """WS-79: the ping is taken all the same."""
    async with fetching_harness(database_url) as on:
        await on.ping()

        assert await on.harness.sql.fetchval("SELECT count(*) FROM hookwire.foreign_topics") == 0


async def test_a_ping_during_a_fetch_is_not_lost(database_url: str) -> None:
    """WS-80: what was served before the ping is distributed, and what was served after it as well."""
    async with fetching_harness(database_url) as on, on.fetching():
        gate = asyncio.Event()
        on.publisher.pages["/feed"] = Page(b"v1", gate=gate)
        await on.subscribe()
        await on.ping()
        await on.publisher.wait_for(1)
        on.publisher.pages["/feed"] = Page(b"v2")
        for _ in range(20):
            await on.ping()
        gate.set()
        await on.publisher.wait_for(2)
        await on.settled()

        assert ([body for body, _ in await on.events()], len(on.publisher.requests)) == ([b"v1", b"v2"], 2)


async def test_a_fetch_whose_process_died_is_made_again(database_url: str) -> None:
    """WS-80, WS-84: the claim's end makes the topic due; the number of the claim is the fence."""
    async with fetching_harness(database_url) as on:
        on.publisher.pages["/feed"] = Page(b"v1")
        await on.subscribe()
        await on.ping()
        await on.harness.hub.database.fetch("foreign.claim", 1, 3600.0, True)
        await on.harness.sql.execute("UPDATE hookwire.foreign_topics SET claimed_until = now()")
        async with on.fetching():
            row = await on.settled()

        assert (await on.events(), row["claims"]) == ([(b"v1", "text/plain")], 2)


async def test_an_unchanged_topic_is_asked_conditionally_and_not_distributed_again(database_url: str) -> None:
    """WS-82, WS-85, PS-12: validators go along, and who asks how many read."""
    async with fetching_harness(database_url) as on:
        date = "Thu, 01 Jan 2026 00:00:00 GMT"
        on.publisher.pages["/feed"] = Page(b"v1", headers=f'ETag: "1"\r\nLast-Modified: {date}\r\n')
        await on.subscribe()
        async with on.fetching():
            await on.ping()
            await on.settled()
            on.publisher.pages["/feed"] = Page(status=304)
            await on.ping()
            await on.publisher.wait_for(2)
            await on.settled()

        _, headers = on.publisher.requests[1]
        assert await on.events() == [(b"v1", "text/plain")]
        assert (headers["if-none-match"], headers["if-modified-since"], headers["user-agent"]) == (
            '"1"', date, "hookwire/0.2 (+http://hub.example; 0 subscribers)",
        )  # fmt: skip


@pytest.mark.parametrize(("always", "events"), [(False, 1), (True, 2)])
async def test_the_same_content_is_distributed_again_only_where_that_is_wanted(
    database_url: str, always: bool, events: int
) -> None:
    """WS-82: the content's digest tells; where all is wanted the topic is not asked conditionally either."""
    async with fetching_harness(database_url) as on, on.fetching():
        on.publisher.pages["/feed"] = Page(b"v1", headers='ETag: "1"\r\n')
        await on.subscribe()
        await on.harness.sql.execute("UPDATE hookwire.foreign_topics SET always_deliver = $1", always)
        for number in (1, 2):
            await on.ping()
            await on.publisher.wait_for(number)
            await on.settled()

        assert len(await on.events()) == events
        assert ("if-none-match" in on.publisher.requests[1][1]) is not always


@pytest.mark.parametrize(
    ("page", "error"),
    [
        (Page(b"no", status=404), "the topic answered 404"),
        (Page(b"no", status=500), "the topic answered 500"),
        (Page(b"", status=204), "the topic answered 204"),
        (Page(b"x" * 2000), "the content is larger than 1000 bytes"),
        (Page(b"no gzip", headers="Content-Encoding: gzip\r\n"), "the content is not the gzip it says it is"),
        (Page(b"?", headers="Content-Encoding: br\r\n"), "the content has a coding that was not asked for"),
        (Page(gzip.compress(b"0" * 1_000_000), headers="Content-Encoding: gzip\r\n"), "larger than 1000 bytes"),
        (Page(status=302), "the topic answered 302 without one Location"),
        (Page(status=302, headers="Location: http://192.168.0.1/\r\n"), "not allowed"),
        (Page(status=302, headers="Location: ftp://127.0.0.1/\r\n"), "must start with http"),
        (Page(status=302, headers="Location: /feed\r\n"), "more than 5 redirects"),
    ],
    ids=["404", "500", "204", "too-large", "no-gzip", "br", "bomb", "nowhere", "private", "ftp", "loop"],
)
async def test_what_is_not_the_content_is_never_distributed(database_url: str, page: Page, error: str) -> None:
    """WS-81, WS-83, WS-100: the reason is on record, and the fetch is repeated after a pause."""
    async with fetching_harness(database_url, fetch_bytes_max=1000) as on:
        on.publisher.pages["/feed"] = page
        await on.subscribe()
        await on.ping()
        async with on.fetching():
            row = await on.settled()

        pause = (row["due_at"] - row["fetched_at"]).total_seconds()
        assert (error in row["last_error"], await on.events(), round(pause)) == (True, [], 5)


async def test_a_topic_that_recovers_is_distributed_by_the_repeated_fetch(database_url: str) -> None:
    """WS-83, HD-22: no ping is needed for it."""
    async with fetching_harness(database_url) as on, on.fetching():
        await on.subscribe()
        await on.ping()
        await on.settled()
        on.publisher.pages["/feed"] = Page(b"v1")
        await on.harness.sql.execute("UPDATE hookwire.foreign_topics SET due_at = now()")
        await on.publisher.wait_for(2)

        await until(on.events)
        assert await on.events() == [(b"v1", "text/plain")]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_fetch_follows_five_redirects_and_resolves_relative_ones(database_url: str, status: int) -> None:
    """WS-81: five hops are allowed; relative ones are resolved."""
    async with fetching_harness(database_url) as on:
        for hop in range(5):
            on.publisher.pages[f"/{hop}" if hop else "/feed"] = Page(status=status, headers=f"Location: {hop + 1}\r\n")
        on.publisher.pages["/5"] = Page(b"v1")
        await on.subscribe()
        await on.ping()
        async with on.fetching():
            await on.settled()

        assert await on.events() == [(b"v1", "text/plain")]


@pytest.mark.parametrize(
    "packed",
    [gzip.compress(b"v1"), gzip.compress(b"v") + gzip.compress(b"1"), gzip.compress(b"v1") + b"\0junk"],
    ids=["one", "two", "junk"],
)
async def test_unasked_gzip_is_unpacked(database_url: str, packed: bytes) -> None:
    """WS-51, GW-03: decoded bytes of every member."""
    async with fetching_harness(database_url) as on:
        on.publisher.pages["/feed"] = Page(packed, headers="Content-Encoding: gzip\r\n")
        await on.subscribe()
        await on.ping()
        async with on.fetching():
            await on.settled()

        assert await on.events() == [(b"v1", "text/plain")]


@pytest.mark.parametrize(
    ("headers", "link"),
    [
        ("", '<http://hub.example/hub>; rel="hub", <{url}>; rel="self"'),
        (
            'Link: <https://hub.other/>; rel=hub, <https://t/x>; rel="self"\r\n',
            '<https://hub.other/>; rel="hub", <https://t/x>; rel="self"',
        ),
        (
            "Link: <http://one.hub/>; rel=hub\r\nLink: </canonical>; rel=self, <https://two.hub>; rel=hub\r\n",
            '<https://two.hub>; rel="hub", <{base}/canonical>; rel="self"',
        ),
    ],
    ids=["none", "advertised", "two-hubs"],
)
async def test_deliveries_carry_the_links_that_the_topic_advertises(database_url: str, headers: str, link: str) -> None:
    """WS-53, TG-G: byte for byte; this hub and the subscribed URL where it advertises none."""
    async with fetching_harness(database_url) as on:
        on.publisher.pages["/feed"] = Page(b"v1", headers=headers)
        await on.subscribe()
        await on.ping()
        async with on.fetching():
            await on.settled()

        assert await on.link() == link.format(url=on.publisher.url(), base=on.publisher.url(""))


def feed(*entries: str, title: str = "t") -> bytes:
    items = "".join(f"<entry><id>{entry[0]}</id><title>{entry}</title></entry>" for entry in entries)
    return f'<feed xmlns="http://www.w3.org/2005/Atom"><title>{title}</title>{items}</feed>'.encode()


async def test_a_feed_may_be_distributed_as_its_new_and_changed_entries(database_url: str) -> None:
    """WS-07, WS-52, PS-13: three old ones, one changed, one new; and a change of the feed around them counts."""
    async with fetching_harness(database_url) as on, on.fetching():
        await on.subscribe()
        await on.harness.sql.execute("UPDATE hookwire.foreign_topics SET feed_diff = true")
        bodies = [feed("a", "b", "c"), feed("d", "a", "b2", "c"), feed("d", "a", "b2", "c", title="u")]
        for number, body in enumerate(bodies, start=1):
            on.publisher.pages["/feed"] = Page(body, f"{ATOM}; charset=utf-8")
            await on.ping()
            await on.publisher.wait_for(number)
            await on.settled()

        assert await on.events() == [(feed("a", "b", "c"), ATOM), (feed("d", "b2"), ATOM), (feed(title="u"), ATOM)]


async def fetched(on: FetchingHarness, *pages: Page) -> list[Any]:
    """Serve one page after the other to a topic with ``feed_diff``; return the topic's row after each."""
    await on.subscribe()
    await on.harness.sql.execute("UPDATE hookwire.foreign_topics SET feed_diff = true")
    rows = []
    for number, page in enumerate(pages, start=1):
        on.publisher.pages["/feed"] = page
        await on.ping()
        await on.publisher.wait_for(number)
        rows.append(await on.settled())
    return rows


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (Page(b"<!doctype html><html><body>Maintenance</body></html>", "text/html"), "neither Atom nor RSS"),
        (Page(b"", ATOM), "no element found"),
        (Page(b"", None), "no element found"),
        (Page(feed("a", "b", "c")[:-20], ATOM), "not well-formed"),
        (Page(feed("a", "b", "c")[:-7], ATOM), "not well-formed"),
        (Page(b'{"error": "busy"}', "application/json"), "not well-formed"),
        (Page(b"\x00\x01", "application/octet-stream"), "no element found"),
        (Page(b'<!DOCTYPE html [<!ENTITY a "b">]><html/>', "application/xml"), "neither Atom nor RSS"),
        (Page(gzip.compress(feed("a", "b"))[:-10], ATOM, headers="Content-Encoding: gzip\r\n"), "broke off"),
        (Page(gzip.compress(feed("a")[:20]), ATOM, headers="Content-Encoding: gzip\r\n"), "not well-formed"),
        (Page(b"", ATOM, headers="Content-Encoding: gzip\r\n"), "broke off"),
        (Page(gzip.compress(b"") * 17, ATOM, headers="Content-Encoding: gzip\r\n"), "more than 16 members"),
        (Page(feed("x"), ATOM, status=206), "the topic answered 206"),
    ],
    ids=[
        "html",
        "empty",
        "empty-untyped",
        "cut",
        "cut-late",
        "json",
        "binary",
        "xml",
        "gzip",
        "gzip-cut",
        "gzip-empty",
        "gzip-many",
        "part",
    ],
)
async def test_content_that_is_no_feed_is_a_failed_fetch(database_url: str, bad: Page, error: str) -> None:
    """GW-03: nothing is sent and nothing is forgotten; its validators are not used either."""
    async with fetching_harness(database_url) as on, on.fetching():
        bad.headers += 'ETag: "bad"\r\n'
        first = Page(feed("a", "b", "c"), ATOM, headers='ETag: "good"\r\n')
        _, failed, row = await fetched(on, first, bad, Page(feed("d", "a", "b", "c"), ATOM))

        assert await on.events() == [(feed("a", "b", "c"), ATOM), (feed("d"), ATOM)]
        assert (failed["failures"], error in failed["last_error"], row["last_error"]) == (1, True, None)
        assert on.publisher.requests[2][1]["if-none-match"] == '"good"'


async def test_content_that_is_no_feed_is_not_a_first_content_either(database_url: str) -> None:
    """GW-03: the error names the setting that lets it through."""
    async with fetching_harness(database_url) as on, on.fetching():
        failed, _ = await fetched(on, Page(b"<html></html>", "text/html"), Page(feed("a"), ATOM))

        assert await on.events() == [(feed("a"), ATOM)]
        assert failed["last_error"] == (
            "the topic is registered with feed_diff, but the content is neither Atom nor RSS;"
            " to distribute it whole, set feed_diff to false"
        )


@pytest.mark.parametrize(
    ("between", "news"),
    [
        ([feed("c")], []),
        ([feed()], []),
        ([feed("c", "b", "a")], []),
        ([feed("a2", "b", "c"), feed("a", "b", "c"), feed("a2", "b", "c")], [feed("a2")]),
        ([feed("d", "a"), feed("a", "b", "c"), feed("d", "a")], [feed("d")]),
    ],
    ids=["shrinks", "empty", "reordered", "old-version", "old-copy"],
)
async def test_an_entry_once_sent_is_not_new_again(database_url: str, between: list[bytes], news: list[bytes]) -> None:
    """GW-03: whatever the feed or a cache does in between."""
    async with fetching_harness(database_url) as on, on.fetching():
        bodies = [feed("a", "b", "c"), *between, feed("a", "b", "c"), feed("e", "a", "b", "c")]
        await fetched(on, *(Page(body, ATOM) for body in bodies))

        assert [body for body, _ in await on.events()] == [feed("a", "b", "c"), *news, feed("e")]


async def test_what_is_known_outlives_a_time_without_the_option(database_url: str) -> None:
    """GW-03: a topic that was distributed whole for a while."""
    async with fetching_harness(database_url) as on, on.fetching():
        await fetched(on, Page(feed("a", "b"), ATOM))
        await on.harness.sql.execute("UPDATE hookwire.foreign_topics SET feed_diff = false")
        on.publisher.pages["/feed"] = Page(b"<html></html>", "text/html")
        await on.ping()
        await on.publisher.wait_for(2)
        await on.settled()
        await on.harness.sql.execute("UPDATE hookwire.foreign_topics SET feed_diff = true")
        on.publisher.pages["/feed"] = Page(feed("c", "a", "b"), ATOM)
        await on.ping()
        await on.publisher.wait_for(3)
        await on.settled()

        assert [body for body, _ in await on.events()][2:] == [feed("c")]


def dated(day: int, *entries: str) -> Page:
    """A feed with a date of its own, its validator, and entries."""
    body = feed(*entries).replace(b"</title>", b"</title><updated>2026-01-0%d</updated>" % day, 1)
    return Page(body, ATOM, headers=f'ETag: "{day}"\r\n')


@pytest.mark.parametrize("later", [dated(2, "a", "b"), dated(2, "a"), dated(2, "b", "a"), dated(2)],
                         ids=["date", "falls-off", "reordered", "empty"])  # fmt: skip
async def test_a_feed_without_new_entries_is_not_distributed(database_url: str, later: Page) -> None:
    """GW-08: the fetch is good all the same, and its validator is used next."""
    async with fetching_harness(database_url) as on, on.fetching():
        first, second, _ = await fetched(on, dated(1, "a", "b"), later, Page(status=304))

        assert await on.events() == [(dated(1, "a", "b").body, ATOM)]
        assert (second["changed_at"], second["failures"]) == (first["changed_at"], 0)
        assert on.publisher.requests[2][1]["if-none-match"] == '"2"'


async def test_a_subscriber_is_told_the_topic_it_named_and_gets_its_subscription(database_url: str) -> None:
    """WS-20, WS-40: a foreign topic is verified as any other."""
    async with fetching_harness(database_url) as on, on.harness.verifying():
        await on.harness.subscribed(topic_url=on.publisher.url("/%7Efeed"))
        await on.harness.decided(await on.harness.ask(Mode.UNSUBSCRIBE, topic_url=on.publisher.url("/~feed")))

        first, second = on.harness.callbacks.queries()
        assert (first["hub.topic"], second["hub.topic"]) == (
            [on.publisher.url("/%7Efeed")], [on.publisher.url("/~feed")],
        )  # fmt: skip
        assert await on.harness.subscriptions() == [("/cb", "deleted", 2, None)]


@pytest.mark.parametrize(
    ("mode", "url", "status"),
    [
        ("registered", "http://t.example/feed", 404),
        ("off", "http://t.example/feed", 403),
        ("any", "http://192.168.0.1/", 403),
        ("any", "http://t.example/#f", 400),
        ("any", "http://u:p@t.example/", 400),
        ("any", "javascript:alert(1)", 400),
    ],
)
async def test_a_foreign_topic_may_be_refused(database_url: str, mode: str, url: str, status: int) -> None:
    """WS-21, WS-32, WS-79, WS-100, B-28: before anything is stored or asked."""
    async with fetching_harness(database_url, foreign_topics=mode) as on:
        with pytest.raises(FormRefused) as refused:
            await on.harness.ask(topic_url=url)

        assert (refused.value.status, refused.value.text.startswith("hub.topic ")) == (status, True)


async def test_one_bad_topic_among_pings_leaves_the_others_alone(database_url: str) -> None:
    """WS-78: all or nothing."""
    async with fetching_harness(database_url) as on:
        await on.subscribe()
        with pytest.raises(FormRefused):
            await ping(on.harness.hub, Pinging((on.publisher.url(), "http://192.168.0.1/")))

        assert await on.harness.sql.fetchval("SELECT pings FROM hookwire.foreign_topics") == 0


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (Page(headers="Link: <{url}>; rel=self, <http://h/>; rel=hub\r\n"), ("verified", "subscribe")),
        (Page(headers="Link: <{url}?canonical>; rel=self, <http://h/>; rel=hub\r\n"), ("denied", "denied")),
        (
            Page(b'<html><head><link rel=hub href="/hub"><link rel=self href="/else">', "text/html"),
            ("denied", "denied"),
        ),
        (Page(status=301, headers="Location: /new\r\n"), ("denied", "denied")),
        (Page(), ("verified", "subscribe")),
        (Page(status=500), ("failed", None)),
        (Page(status=301, headers="Location: http://[\r\n"), ("failed", None)),
    ],
    ids=["itself", "another by header", "another by content", "moved", "says nothing", "error", "moved nowhere"],
)
async def test_where_topics_are_strict_only_their_own_url_is_subscribed_to(
    database_url: str, page: Page, expected: tuple[str, str | None]
) -> None:
    """WS-22, WS-37: who names it otherwise is told the right one; what the topic says of itself is asked for first."""
    async with fetching_harness(database_url, strict_topic=True) as on, on.harness.verifying():
        url = on.publisher.url()
        on.publisher.pages["/feed"] = Page(
            page.body, page.content_type, page.status, page.headers.replace("{url}", url)
        )
        (state,) = await on.harness.decided(await on.harness.ask(topic_url=url))
        told = [query["hub.mode"][0] for query in on.harness.callbacks.queries()]
        reasons = [query.get("hub.reason", [""])[0] for query in on.harness.callbacks.queries()]

        assert (state, next(iter(told), None)) == expected
        assert ["the topic's own URL is" in reason for reason in reasons] == [mode == "denied" for mode in told]


async def test_publishers_that_do_not_answer_leave_half_of_the_slots_to_the_others(database_url: str) -> None:
    """GW-01: its kind; sixteen such topics kept all others waiting, each time for half a minute."""
    async with fetching_harness(database_url, fetch_deadline_seconds=300.0) as on, on.fetching():
        on.publisher.pages["/good"] = Page(b"v1")
        await on.subscribe("/good")
        await on.ping("/good")
        await on.settled("/good")
        gate, silent = asyncio.Event(), [f"/silent/{number}" for number in range(20)]
        for path in silent:
            on.publisher.pages[path] = Page(b"late", gate=gate)
            await on.subscribe(path)
            await on.ping(path)
        await on.publisher.wait_for(1 + 8)
        on.publisher.pages["/good"] = Page(b"v2")
        await on.ping("/good")
        await until(
            lambda: on.harness.sql.fetchval("SELECT payload = 'v2' FROM hookwire.events ORDER BY id DESC LIMIT 1")
        )
        gate.set()
        for path in silent:
            await on.settled(path)

    assert [path for path, _ in on.publisher.requests][9] == "/good"
