"""Every page of the console: empty, full of hostile texts, for a key of few topics, and without a database."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from html import unescape

import asyncpg
import httpx
import pytest

from app.web.console.acting.act import Act
from app.web.console.acting.acts import ACTS, NEW
from app.web.console.listing.lists import LISTS
from tests.app.conftest import ALL_ROLES, Receiver, RunHub, RunningHub, opened
from tests.app.web.console.harness import Browser, Page, browsing
from tests.app.web.test_authentication import bearer
from tests.app.web.test_health import read_only
from tests.hub.callback import answers, serve_callbacks
from tests.waiting import until

_BYTES_MAX = 60_000
_HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'`"


async def all_pages(browser: Browser) -> dict[str, httpx.Response]:
    """The answer of each list, and of each page that these and the first page link to."""
    found = {address: await browser.open(address) for address in ("../console", "search?q=a", *LISTS)}
    linked = {link for answer in found.values() for link in Page(answer.text).links if not link.startswith("../")}
    for link in sorted(linked - found.keys()):
        found[link] = await browser.open(link)
    return found


def are_safe(answer: httpx.Response) -> bool:
    """Whether a page has our own script only, no attribute that is one, and headers that keep it that way."""
    page, policy = Page(answer.text), answer.headers["content-security-policy"]
    has_own_only = page.tags.count("script") == 1 and "img" not in page.tags
    is_kept = "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy
    headers = (answer.headers["x-frame-options"], answer.headers["cache-control"])
    return has_own_only and is_kept and headers == ("DENY", "no-store") and not _handlers(page)


def _handlers(page: Page) -> list[str]:
    return [name for name in page.attributes if name.startswith("on")]


async def fill(hub: RunningHub, callback: str) -> None:
    """Write hostile texts wherever a stranger can write some."""
    for query in ("", f"?{_HOSTILE}"):
        subscription = {"topic": "a", "callback": callback + query, "name": _HOSTILE, "description": _HOSTILE,
                        "retry_schedule_seconds": [3600]}  # fmt: skip
        made = await hub.client.post("/subscriptions", json=subscription)
        assert made.status_code == 201, made.text
    await hub.client.post("/topics/a/events", content=_HOSTILE.encode(), headers={"Content-Type": "text/html"},
                          params={"key": _HOSTILE})  # fmt: skip
    await hub.client.post("/queues/q/messages", content=_HOSTILE.encode())
    await hub.client.post("/jobs", json={"kind": "k", "args": {"text": _HOSTILE}, "key": _HOSTILE})
    await hub.client.put("/job-kinds/office", json={"automation": "manual", "needs_review": True})
    for verbs in ((), ("assign",), ("assign", "finish")):
        job = await hub.client.post("/jobs", json={"kind": "office", "args": {"text": _HOSTILE}})
        for verb in verbs:
            body = {"reason": _HOSTILE} | ({"result": _HOSTILE} if verb == "finish" else {})
            assert (await hub.client.post(f"/jobs/{job.json()['id']}/{verb}", json=body)).is_success
    await hub.client.put("/services/s", json={})
    await hub.client.post("/keys", json={"name": _HOSTILE, "scopes": ["read"]})
    await hub.sql("INSERT INTO hookwire.sources (name) VALUES ('stock')")
    await hub.sql("INSERT INTO hookwire.source_offsets (source, partition, next_offset, trouble)"
                  " VALUES ('stock', 0, 1, $1)", _HOSTILE)  # fmt: skip
    await hub.sql("INSERT INTO hookwire.source_refusals (source, partition, record_offset, reason, detail, key, value,"
                  " headers, bytes) VALUES ('stock', 0, 0, 'r', $1, $2, $2, '[]', 9)",
                  _HOSTILE, _HOSTILE.encode())  # fmt: skip
    await hub.client.put("/in/door", json={"preset": "github"})
    await hub.client.post("/in/door", content=_HOSTILE.encode())
    await hub.until("/in/door", lambda found: found["refused"])
    await hub.until("/deliveries?state=retrying", lambda page: page["items"])
    first = (await hub.client.get("/deliveries")).json()["items"][0]["id"]
    await hub.client.post(f"/deliveries/{first}/give-up", json={"reason": _HOSTILE})
    await hub.client.post("/replays", json={"source": "dead_letters", "reason": _HOSTILE, "since": "2020-01-01T00:00Z"})


async def test_every_page_of_an_empty_hub_is_small_and_says_that_there_is_nothing(running_hub: RunHub) -> None:
    """CN-14: also to a browser without scripts."""
    async with running_hub(ALL_ROLES) as hub, browsing(hub) as browser:
        found = await all_pages(browser)

        assert {address: answer.status_code for address, answer in found.items()} == dict.fromkeys(found, 200)
        assert [address for address, answer in found.items() if not are_safe(answer)] == []
        assert max(len(answer.content) for answer in found.values()) < _BYTES_MAX


async def test_what_strangers_wrote_is_text_on_every_page(running_hub: RunHub) -> None:
    """AB-05: in a topic's key, a URL, a header, a content, an argument of a job, and the answer of a receiver."""
    async with running_hub(ALL_ROLES) as hub, serve_callbacks() as callbacks, browsing(hub) as browser:
        callbacks.script["/"] = answers(500, _HOSTILE.encode(), headers=f"X-Words: {_HOSTILE}\r\n")
        await fill(hub, callbacks.url("/"))
        found = await all_pages(browser)
        deliveries = [page for address, page in found.items() if address.startswith("deliveries/dlv_")]

        assert {answer.status_code for answer in found.values()} == {200}
        assert [address for address, answer in found.items() if not are_safe(answer)] == []
        assert any(_HOSTILE in Page(page.text).text for page in deliveries), "the receiver's own words"
        assert max(len(answer.content) for answer in found.values()) < _BYTES_MAX


async def test_a_list_has_pages_and_its_address_holds_its_filters(running_hub: RunHub) -> None:
    """CN-06, CN-14: by keyset; the last page leads on to no other."""
    async with running_hub() as hub, browsing(hub) as browser:
        for number in range(45):
            await hub.publish("a" if number else "b", b"%d" % number)
        first = await browser.page("events?topic=a")
        (onward,) = [link for link in first.links if "cursor=" in link]
        second = await browser.page(onward)
        counts = [len([link for link in page.links if link.startswith("events/")]) for page in (first, second)]

        assert (counts, onward.startswith("events?topic=a&cursor=")) == ([40, 4], True)
        assert [link for link in second.links if "cursor=" in link] == []


async def test_a_filter_that_the_api_refuses_is_told_beside_the_filters(running_hub: RunHub) -> None:
    async with running_hub() as hub, browsing(hub) as browser:
        answer = await browser.open("deliveries?state=none&event_id=x")

        assert (answer.status_code, len(Page(answer.text).forms) > 1, "notice bad" in answer.text) == (400, True, True)


async def test_a_key_of_few_topics_sees_these_and_nothing_of_others(running_hub: RunHub, receiver: Receiver) -> None:
    """GU-08: its own first page, its lists, and 404 for what belongs to others."""
    async with running_hub(ALL_ROLES, access="keys") as hub:
        async with browsing(hub, "admin") as operator:
            for topic in ("ours.1", "theirs.1"):
                await operator.send("subscriptions/new", topic=topic, callback=receiver.callback)
                await hub.publish(topic, Authorization=f"Bearer {await bearer(hub, 'publish')}")
        [(ours,), (theirs,)] = await hub.sql("SELECT public_id FROM hookwire.subscriptions ORDER BY topic")
        async with browsing(hub, "read", "subscribe", topics=["ours.#"]) as browser:
            pages = [await browser.open(address) for address in ("../console", "subscriptions", "topics", "events")]
            others = await browser.open(f"subscriptions/{theirs}")
            diagnoses = [await browser.open(f"pair?subscription={one}") for one in (theirs, ours)]

        assert [page.status_code for page in pages] == [200, 200, 200, 200]
        assert [("ours.1" in page.text, "theirs" in page.text) for page in pages[1:]] == [(True, False)] * 3
        assert "theirs" not in pages[0].text
        assert (others.status_code, [page.status_code for page in diagnoses]) == (404, [404, 200])


async def test_a_key_that_may_not_read_is_told_what_it_lacks(running_hub: RunHub) -> None:
    async with running_hub(access="keys") as hub, browsing(hub, "read") as browser:
        await browser.send("sign-in", key=await bearer(hub, "publish"))
        answers = [await browser.open(address) for address in ("../console", "topics", "deliveries/dlv_1_1")]

        assert [answer.status_code for answer in answers] == [403, 403, 403]
        assert all("This needs the scope read; the key has publish." in answer.text for answer in answers)


@asynccontextmanager
async def away(hub: RunningHub) -> AsyncIterator[None]:
    """The database refuses new connections, and has ended those that there were."""
    server, _, name = hub.database_url.rpartition("/")
    operator = await asyncpg.connect(f"{server}/postgres")
    await operator.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
    await operator.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)
    yield
    await operator.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
    await operator.close()


@asynccontextmanager
async def unwritable(hub: RunningHub) -> AsyncIterator[None]:
    """The database reads, and stores nothing."""
    await read_only(hub.database_url, "on")
    yield
    await read_only(hub.database_url, "off")


@asynccontextmanager
async def slow(hub: RunningHub) -> AsyncIterator[None]:
    """Each statement on subscriptions waits for a foreign transaction."""
    async with opened(hub.database_url) as (_, other), other.transaction():
        await other.execute("LOCK TABLE hookwire.subscriptions IN ACCESS EXCLUSIVE MODE")
        yield


@pytest.mark.parametrize("outage", [away, unwritable, pytest.param(slow, marks=pytest.mark.slow)])
async def test_pages_without_their_database_say_so_change_nothing_and_work_again_afterwards(
    running_hub: RunHub, outage: Callable[[RunningHub], AbstractAsyncContextManager[None]]
) -> None:
    """The first page, a list, one thing, a form and its act."""
    async with running_hub() as hub, browsing(hub) as browser:
        one = (await hub.subscribe("a", "http://127.0.0.1:9000/"))["id"]
        form = await browser.page(f"subscriptions/{one}/pause")
        pages = ("../console", "subscriptions", f"subscriptions/{one}")
        async with outage(hub):
            act = browser.send_form(form, f"subscriptions/{one}/pause")
            found = await asyncio.gather(act, *(browser.open(page) for page in pages))

        async def is_back() -> bool:
            return {(await browser.open(page)).status_code for page in pages} == {200}

        await until(is_back)
        states = await hub.sql("SELECT state FROM hookwire.subscriptions")
        await browser.send_form(form, f"subscriptions/{one}/pause")

        told = [(answer.status_code, are_safe(answer), "database" in Page(answer.text).text) for answer in found]
        assert (told, states) == ([(503, True, True)] * 4, [("active",)])
        assert await hub.sql("SELECT state FROM hookwire.subscriptions") == [("disabled",)]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("evt_a_1", "events/evt_a_1"), ("dlv_1_2", "deliveries/dlv_1_2"), ("dead_kafka_1", "dead-letters/dead_kafka_1"),
        ("0198C0DE-0000-7000-8000-00000000000A", "jobs/0198c0de-0000-7000-8000-00000000000a"),
        ("inc_7", "incidents/inc_7"), ("sub_7", "subscriptions/sub_7"),
    ],
)  # fmt: skip
async def test_the_search_box_leads_from_an_id_to_its_page(kept_hub: RunningHub, text: str, address: str) -> None:
    """CN-06."""
    answer = await kept_hub.client.get("/console/search", params={"q": f" {text} "})

    assert (answer.status_code, answer.headers["location"]) == (303, address)


async def test_the_search_box_finds_a_topic_by_name_and_events_by_key(running_hub: RunHub) -> None:
    """CN-06."""
    async with running_hub() as hub, browsing(hub) as browser:
        event = (await hub.publish("orders", b"1", hookwire_key="customer-17")).json()["id"]
        links = [(await browser.page(f"search?q={text}")).links for text in ("orders", "customer-17", "nothing")]

        assert [("topics/orders" in one, f"events/{event}" in one) for one in links] == [
            (True, False), (True, True), (False, False),
        ]  # fmt: skip


async def test_the_search_box_finds_the_subscriptions_of_a_callbacks_host(running_hub: RunHub) -> None:
    """CN-06: by a host alone, with its port, or by a URL; a key of other topics finds nothing."""
    async with running_hub(access="keys") as hub, browsing(hub, "admin") as operator:
        await operator.send("subscriptions/new", topic="a", callback="http://127.0.0.1:9000/hook?q")
        [(one,)] = await hub.sql("SELECT public_id FROM hookwire.subscriptions")
        texts = ("127.0.0.1", "127.0.0.1:9000", "http://127.0.0.1/other", "127.0.0.2", "127.0.0.1'--", "[::1")
        found = [(await operator.page(f"search?q={text}")).links for text in texts]
        listed = (await operator.page("subscriptions?host=127.0.0.1")).links
        async with browsing(hub, "read", topics=["b"]) as stranger:
            hidden = (await stranger.page("search?q=127.0.0.1")).links

        link = f"subscriptions/{one}"
        assert [link in links for links in found] == [True, True, True, False, False, False]
        assert (link in listed, link in hidden) == (True, False)


async def test_a_host_is_found_by_each_spelling_and_with_a_final_dot(running_hub: RunHub) -> None:
    """CN-06: the callback has the international name, then its ASCII form; a person gives the other, or a URL."""
    texts = ("bücher.example", "xn--bcher-kva.example", "http://BÜCHER.example.:80/x", "bucher.example")
    async with running_hub() as hub, browsing(hub) as browser:
        one, found = (await hub.subscribe("a", "http://127.0.0.1:9000/"))["id"], []
        for callback in ("http://Bücher.example./x", "http://XN--bcher-kva.example/x"):
            await hub.sql("UPDATE hookwire.subscriptions SET callback = $1", callback)
            found.append([(await browser.page(f"search?q={text}")).links for text in texts])

        assert [[f"subscriptions/{one}" in links for links in pages] for pages in found] == [
            [True, True, True, False]
        ] * 2


_EVERY_ACT = [(kind, act) for kind, acts in ACTS.items() for act in acts] + [(kind, act) for kind, act in NEW.items()]


@pytest.mark.parametrize(("kind", "act"), _EVERY_ACT, ids=lambda one: one.name if isinstance(one, Act) else one)
def test_every_act_names_the_request_and_the_command_that_do_the_same(kind: str, act: Act) -> None:
    """CN-15: also for an id with quotes in it."""
    ask, line = act.ask("it's", {}), act.command("it's", {})

    assert (ask.path.startswith("/"), "'" in ask.path, line.split()[0] in ("hookwire", "curl")) == (True, False, True)


async def test_the_first_page_ranks_what_needs_action_each_with_its_reason_and_a_button(running_hub: RunHub) -> None:
    """CN-01: a held key is worse than dead letters, and these are worse than a paused subscription."""
    async with running_hub(("api", "relay")) as hub, browsing(hub) as browser:
        one = (await hub.subscribe("a", "http://127.0.0.1:9000/"))["id"]
        await hub.client.patch(f"/subscriptions/{one}", json={"state": "disabled"})
        await hub.sql(
            "INSERT INTO hookwire.holds (sink, tenant, topic, key, reason, detail, attempts, probe_at)"
            " VALUES ('kafka', 'default', 'b', 'k', 'unroutable', 'too large', 1, now() + interval '1 min')"
        )
        await hub.sql(
            "INSERT INTO hookwire.relay_dead_letters (sink, event_id, tenant, topic, shard, layout, reason, detail)"
            " VALUES ('kafka', 1, 'default', 'c', 1, 1, 'too_large', '')"
        )
        await hub.until("/status", lambda found: len([part for part in found["parts"] if part["kind"] == "hold"]) == 1)
        await until(lambda: _has(browser, "3 things need action"))
        block = (await browser.open("../console")).text.partition('class="verdict"')[2].partition('class="tiles"')[0]
        states = re.findall(r'class="pill \w+">(\w+)<', block)
        buttons = [unescape(one) for one in re.findall(r'class="button" href="([^"]+)"', block)]
        pages = [(await browser.open(one)).status_code for one in buttons]

        assert (states, "kafka b: 1 key is held" in block) == (["trouble", "held", "dead", "disabled"], True)
        assert (len(buttons), pages) == (3, [200, 200, 200])


async def _has(browser: Browser, words: str) -> bool:
    return words in (await browser.open("../console")).text
