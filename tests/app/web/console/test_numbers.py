"""The numbers of the console's pages, while events flow and when all is still: those of SQL and of the receivers."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from datetime import UTC, datetime
from functools import partial
from typing import Any

import httpx
import pytest

from app.verdict.counts import CurrentCounts
from app.web import overview
from tests.app.conftest import ALL_ROLES, RunHub, RunningHub
from tests.app.web.console.harness import Browser, Page, Table, browsing
from tests.app.web.test_stats import fold
from tests.hub.callback import answers, serve_callbacks
from tests.waiting import until

_EVENTS = 120
_WORK = _EVENTS // 4
_SQL = """
SELECT clock_timestamp(), (SELECT count(*) FROM hookwire.events), (SELECT count(*) FROM hookwire.dead_letters),
       (SELECT count(*) FROM hookwire.deliveries d JOIN hookwire.subscriptions s ON s.id = d.subscription_id
        WHERE s.callback LIKE '%/later'),
       (SELECT count(*) FROM hookwire.messages), (SELECT count(*) FROM hookwire.outbox),
       (SELECT count(*) FROM hookwire.attempts)
"""
Sample = tuple[Any, ...]


def number(text: str) -> int:
    """A number as a page has it."""
    return int(text.replace(",", ""))


async def sample(hub: RunningHub) -> Sample:
    """The numbers of one moment."""
    [found] = await hub.sql(_SQL)
    return tuple(found)


async def whole(browser: Browser, address: str) -> list[dict[str, str]]:
    """The rows of all pages of a list."""
    rows: list[dict[str, str]] = []
    following = [address]
    while following:
        answer = await browser.open(following.pop())
        rows += [row for row in Table(answer.text).rows if row]
        following = [link for link in Page(answer.text).links if "cursor=" in link]
    return rows


async def first_page(browser: Browser) -> str:
    """The first page, as soon as the database answers it in time; under load it may say that it is slow."""

    async def full() -> str | None:
        answer = await browser.open("../console")
        return answer.text if answer.status_code == httpx.codes.OK else None

    return str(await until(full))


async def publish(hub: RunningHub) -> None:
    """The load: eight publishers at a time, and work beside them."""

    async def some(first: int) -> None:
        for event in range(first, _EVENTS, 8):
            await hub.publish("a", b"%d" % event)
            if event % 4 == 0:
                await hub.client.post("/queues/mail/messages", content=b"x")
                await hub.client.post("/jobs", json={"kind": "nobody"})

    await asyncio.gather(*(some(first) for first in range(8)))


async def seen_under_load(hub: RunningHub, browser: Browser, later: str) -> list[tuple[str, int, int, int]]:
    """Of numbers of the first page, of a subscription and of a queue: the name, the least and the most that it may be,
    and what was shown. None of these numbers falls while events flow.

    The first page says of which moment its numbers are. What it shows was true then, or came to be until it arrived.
    """
    samples: list[Sample] = [(datetime.min.replace(tzinfo=UTC), *[0] * 6), await sample(hub)]
    found = []
    loading = asyncio.ensure_future(publish(hub))
    while not loading.done():
        samples.append(await sample(hub))
        markup = await first_page(browser)
        one, queue = [
            Table((await browser.open(page)).text).facts for page in (f"subscriptions/{later}", "queues/mail")
        ]
        before, after = samples[-1], await sample(hub)
        moments = [
            datetime.fromisoformat(at) for at in re.findall(' of <time datetime="([^"]+)"', markup, re.IGNORECASE)
        ]
        told, counted = (max(one for one in samples if one[0] <= at) for at in (moments[0], moments[-1]))
        tiles = Table(markup).tiles
        found += [
            ("accepted", told[1], after[1], number(tiles["latest event number"])),
            ("dead letters", counted[2], after[2], number(tiles["dead letters"].replace("–", str(after[2])))),
            ("waiting", before[3], after[3], number(one.get("Waiting", "0"))),
            ("messages", before[4], after[4], number(queue["Counts"].partition("available ")[2].partition(",")[0])),
        ]
    await loading
    return found


async def settled(hub: RunningHub) -> bool:
    """Whether nothing is on its way any more."""
    _, events, dead, later, _, outbox, attempts = await sample(hub)
    return (events, dead, later, outbox, attempts) == (_EVENTS, _EVENTS, _EVENTS, 0, 3 * _EVENTS)


async def shown(hub: RunningHub, browser: Browser, ids: dict[str, str]) -> dict[str, int]:
    """The numbers of all pages by page and name."""
    first = Table(await first_page(browser))
    waiting = {row["Subscription"]: row["Waiting"] for row in first.rows if "Health" in row}
    work = {row["Kind"]: row["Waiting"] for row in first.rows if "In flight" in row}
    ones = {name: Table((await browser.open(f"subscriptions/{one}")).text).facts for name, one in ids.items()}
    incidents = await whole(browser, "incidents")
    found = {
        "first page, accepted": first.tiles["latest event number"],
        "first page, owed": first.tiles["owed to sinks"],
        "first page, open": first.tiles["open deliveries"],
        "first page, dead": first.tiles["dead letters"],
        **{f"first page, {name} waits": waiting[one] for name, one in ids.items()},
        **{f"first page, {kind} waits": work[kind] for kind in ("queue", "job")},
        **{f"{name}, waiting": one.get("Waiting", "0") for name, one in ones.items()},
        **{f"{name}, attempts": one["Attempts"].partition(",")[0] for name, one in ones.items()},
        **{f"{name}, delivered": one["Delivered"].partition(",")[0] for name, one in ones.items()},
        "incidents, dead": sum(number(row["Dead letters"]) for row in incidents),
        "incidents, waiting": sum(number(row["Waiting"]) for row in incidents),
        "queues, available": (await whole(browser, "queues"))[0]["Available"],
        "services, waiting": (await whole(browser, "services"))[0]["Requests"]
        .partition("waiting ")[2]
        .partition(",")[0],
        "topic, events": len(await whole(browser, "events?topic=a")),
        "events": len(await whole(browser, "events")),
        "delivered": len(await whole(browser, "deliveries?state=delivered")),
        "open": len(await whole(browser, "undelivered?outcome=waiting")),
        "dead letters": len(await whole(browser, "dead-letters")),
        "jobs": len(await whole(browser, "jobs")),
        "requests": len(await whole(browser, "requests")),
    }
    return {name: number(str(text)) for name, text in found.items()}


async def test_the_numbers_of_every_page_are_those_of_sql_and_of_what_the_receivers_saw(
    running_hub: RunHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CN-11: one receiver is well, one gives up at once, and one waits for its next attempt.

    A count of a second on a busy machine would be kept for a hundred; here it is kept for as long as it took.
    """
    monkeypatch.setattr(overview, "CurrentCounts", partial(CurrentCounts, kept_times=1.0))
    async with (
        running_hub(ALL_ROLES, breaker_failure_share=0) as hub,
        serve_callbacks() as callbacks,
        browsing(hub) as browser,
    ):
        callbacks.script |= {"/dead": answers(500, b"no"), "/later": answers(503, b"later")}
        schedules: dict[str, Any] = {"well": [], "dead": [], "later": [86_400]}
        ids = {
            name: (await hub.subscribe("a", callbacks.url(f"/{name}"), retry_schedule_seconds=schedule))["id"]
            for name, schedule in schedules.items()
        }
        await hub.client.put("/queues/mail", json={})
        await hub.client.put("/services/s", json={})
        for _ in "123":
            await hub.client.post("/services/s", content=b"{}", headers={"Prefer": "respond-async"})
        loaded = await seen_under_load(hub, browser, ids["later"])
        await until(lambda: settled(hub))
        await fold(hub)
        seen = Counter(path.strip("/") for path, _, _ in callbacks.posted)
        found = await still(hub, browser, ids)

        assert [one for one in loaded if not one[1] <= one[3] <= one[2]] == []
        assert (len({name for name, *_ in loaded}), seen) == (4, dict.fromkeys(ids, _EVENTS))
        assert found == {
            "first page, accepted": _EVENTS, "first page, owed": 0, "first page, open": _EVENTS,
            "first page, dead": _EVENTS, "first page, well waits": 0, "first page, dead waits": 0,
            "first page, later waits": _EVENTS, "first page, queue waits": _WORK, "first page, job waits": _WORK,
            "well, waiting": 0, "dead, waiting": 0, "later, waiting": _EVENTS,
            **{f"{name}, attempts": seen[name] for name in ids},
            "well, delivered": seen["well"], "dead, delivered": 0, "later, delivered": 0,
            "incidents, dead": _EVENTS, "incidents, waiting": _EVENTS,
            "queues, available": _WORK, "services, waiting": 3, "topic, events": _EVENTS, "events": _EVENTS,
            "delivered": seen["well"], "open": _EVENTS, "dead letters": seen["dead"], "jobs": _WORK, "requests": 3,
        }  # fmt: skip


async def still(hub: RunningHub, browser: Browser, ids: dict[str, str]) -> dict[str, int]:
    """The numbers of all pages, as soon as the first page, which may be some seconds old, is younger than the load."""
    [(now,)] = await hub.sql("SELECT now()")

    async def is_younger() -> bool:
        times = re.findall(' of <time datetime="([^"]+)"', await first_page(browser), re.IGNORECASE)
        return all(datetime.fromisoformat(at) > now for at in times)

    await until(is_younger)
    return await shown(hub, browser, ids)
