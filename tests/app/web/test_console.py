"""The first page of the console: what it shows, what it never shows, what it tells whoever has nothing yet."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser

import httpx

from tests.app.conftest import ALL_ROLES, Receiver, RunHub, RunningHub
from tests.waiting import until


class _Page(HTMLParser):
    """The text a person sees, and every address the page names."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.addresses: list[str] = []
        self.tags: list[str] = []
        self._hidden = 0
        self.feed(markup)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._hidden += tag in ("style", "script")
        if tag != "base":
            self.addresses += [value or "" for name, value in attrs if name in ("href", "src", "action")]

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("style", "script")

    def handle_data(self, data: str) -> None:
        if not self._hidden and data.strip():
            self.words.append(data.strip())

    @property
    def text(self) -> str:
        return " ".join(self.words)


async def shows(hub: RunningHub, words: str) -> bool:
    """Whether the page has these words; an answer is shared for a second."""
    return words in _Page((await hub.client.get("/console")).text).text


async def test_an_empty_hub_says_what_to_do_next(running_hub: RunHub) -> None:
    """The commands work as they stand: right address, right quotes."""
    async with running_hub() as hub:
        page = _Page((await hub.client.get("/console")).text)

        commands = [word for word in page.words if word.startswith("curl ")]
        assert [command.split()[1] for command in commands] == [
            f"{hub.url}/topics/orders.created/events",
            f"{hub.url}/subscriptions",
        ]
        assert "absent not configured; set HOOKWIRE_AMQP_URL" in page.text
        assert "None. Nothing was given up." in page.text


async def test_a_busy_hub_shows_topics_sinks_subscriptions_and_dead_letters(
    running_hub: RunHub, receiver: Receiver
) -> None:
    """WH-03, GU-05: a phone shows what is held and what waits."""
    receiver.status = 500
    async with running_hub(ALL_ROLES) as hub:
        subscription = await hub.subscribe("orders.*", receiver.callback, retry_schedule_seconds=[])
        event = (await hub.publish("orders.created")).json()["id"]
        await hub.until("/deliveries?state=dead", lambda page: page["items"])
        await until(lambda: shows(hub, "leading"))
        markup = (await hub.client.get("/console")).text
        page, left_out_on_a_phone = _Page(markup), re.findall('<th class="[^"]*detail">([^<]*)<', markup)

        assert left_out_on_a_phone == ["Term", "Leader", "Last event", "Topic or pattern"]
        for shown in ("orders.created", event, subscription["id"], "leading", "exhausted", "1 active", "development"):
            assert shown in page.text
        assert f"events/{event}" in page.addresses


async def test_every_link_of_the_page_leads_somewhere(running_hub: RunHub, receiver: Receiver) -> None:
    receiver.status = 400
    async with running_hub(ALL_ROLES) as hub:
        await hub.subscribe("a", receiver.callback, retry_schedule_seconds=[])
        await hub.publish("a")
        await hub.until("/deliveries?state=dead", lambda page: page["items"])
        page = _Page((await hub.client.get("/console")).text)
        links = {address for address in page.addresses if address != "data:,"}
        root = httpx.URL(f"{hub.url}/console/")
        statuses = {(await hub.client.get(root.join(link))).status_code for link in links}

        assert (len(links) > 25, statuses) == (True, {200})


async def test_a_pull_subscription_is_shown_without_a_callback(running_hub: RunHub) -> None:
    async with running_hub() as hub:
        made = (await hub.client.post("/subscriptions/pull", json={"topic": "a"})).json()["id"]
        pages = [
            _Page((await hub.client.get(path)).text).text for path in ("/console", f"/console/pair?subscription={made}")
        ]

        assert [("fetched by its subscriber" in page, "://" in page.replace(hub.url, "")) for page in pages] == [
            (True, False)
        ] * 2


async def test_what_strangers_wrote_is_text_and_capabilities_are_not_shown(running_hub: RunHub) -> None:
    """AB-05, SE-09: also where a row came into the database by another way."""
    async with running_hub() as hub:
        await hub.subscribe("a", "http://127.0.0.1:9000/<blink>?token=canary")
        await hub.sql("UPDATE hookwire.subscriptions SET state_reason = '<script>alert(1)</script>', state = 'gone'")
        answer = await hub.client.get("/console")

        page = _Page(answer.text)
        assert ("blink" in page.tags, page.tags.count("script")) == (False, 1)
        assert "<script>alert(1)</script>" in unescape(page.text)
        assert "canary" not in answer.text


async def test_the_page_loads_nothing_and_runs_only_its_own_script(running_hub: RunHub) -> None:
    """SV-08: the nonce is new in each answer."""
    async with running_hub() as hub:
        answers = [await hub.client.get("/console") for _ in range(2)]

        policies = [answer.headers["content-security-policy"] for answer in answers]
        nonces = [re.findall(r'nonce="([^"]+)"', answer.text) for answer in answers]
        assert all(policy.startswith("default-src 'none'; style-src 'nonce-") for policy in policies)
        assert all(
            f"'nonce-{found[0]}'" in policy and len(set(found)) == 1
            for found, policy in zip(nonces, policies, strict=True)
        )
        assert (
            nonces[0] != nonces[1],
            "http://" in answers[0].text.replace(hub.url, "").replace("http://127.0.0.1:9000/", ""),
        ) == (True, False)
        assert "style=" not in answers[0].text


async def test_counts_are_exact_up_to_a_hundred_thousand_and_say_so_above(running_hub: RunHub) -> None:
    """CN-11, CN-01: and the page says of which moment they are."""
    async with running_hub() as hub:
        await hub.sql("SELECT hookwire.publish('a', 'x'::bytea) FROM generate_series(1, 5001)")
        await hub.sql(
            "INSERT INTO hookwire.dead_letters (event_id, subscription_id, tenant, kind, attempts, on_purpose)"
            " SELECT n, 1, 'default', 'exhausted', 1, true FROM generate_series(1, 100001) AS n"
        )
        await until(lambda: shows(hub, "more than 100,000 dead letters"))
        page = _Page((await hub.client.get("/console")).text)

        found = ("5,001 owed to sinks" in page.text, "more than 100,000 dead letters" in page.text)
        assert (found, re.search("As of [0-9:]{8} UTC", page.text) is not None) == ((True, True), True)


async def test_holds_are_shown_with_their_reason(running_hub: RunHub) -> None:
    async with running_hub() as hub:
        await hub.sql(
            "INSERT INTO hookwire.holds (sink, tenant, topic, key, reason, detail, attempts, probe_at) VALUES "
            "('amqp', 'default', 'a', 'customer-17', 'unroutable', 'no queue is bound', 1, now() + interval '1 min'), "
            "('kafka', 'default', 'b', '', 'topic_missing', 'there is no such topic', 1, now())"
        )
        page = _Page((await hub.client.get("/console")).text)

        assert "amqp a customer-17 unroutable no queue is bound 0" in page.text
        assert "kafka b whole topic topic missing there is no such topic 0" in page.text


async def test_a_cell_names_its_column_for_narrow_screens(running_hub: RunHub) -> None:
    """FT-06: there each row is a card, whose cells have no head above them."""
    async with running_hub() as hub:
        markup = (await hub.client.get("/console")).text

        heads = re.findall("<th[^>]*>([^<]+)<", markup)
        assert (set(re.findall(r'<td[^>]* data-head="([^"]+)"', markup)), "attr(data-head)" in markup) == (
            set(heads),
            True,
        )
