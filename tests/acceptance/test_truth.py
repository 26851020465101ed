"""Seven receivers, of which one is well: API, pages, command and metrics say the same of each (FT-01, FT-03, FT-04)."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from prometheus_client.parser import text_string_to_metric_families

from scripts.small_png import small_png
from tests.app.conftest import ALL_ROLES, RunHub, RunningHub, running_hub
from tests.app.web.publishing.test_ingest import kind
from tests.app.web.test_authentication import bearer
from tests.hostile.browser import dom_of, picture_of, serve_site
from tests.hub.callback import Callbacks, answers, hang, serve_callbacks
from tests.waiting import until

__all__ = ["running_hub"]

HOOKWIRE = Path(sys.executable).with_name("hookwire")
SETTINGS: dict[str, Any] = {"breaker_attempts_min": 2, "breaker_seconds": 600}
Known = dict[str, dict[str, Any]]


@asynccontextmanager
async def troubled_hub(
    running_hub: RunHub, closed_port: int, access: str = "open"
) -> AsyncIterator[tuple[RunningHub, Known, Callbacks]]:
    """A hub, its subscriptions by name as soon as each is as it will stay, and their receivers."""
    async with running_hub(ALL_ROLES, **SETTINGS, access=access) as hub, serve_callbacks() as callbacks:
        if access == "keys":
            hub.client.headers["Authorization"] = f"Bearer {await bearer(hub, 'admin')}"
        callbacks.script = {
            "/500": answers(500), "/400": answers(400), "/hangs": hang, "/held": answers(500),
            "/paused": answers(429, headers="Retry-After: 3600\r\n"),
        }  # fmt: skip
        names = {
            "well": {"callback": callbacks.url("/well")},
            "500": {"callback": callbacks.url("/500"), "retry_schedule_seconds": [0, 3600]},
            "400": {"callback": callbacks.url("/400"), "retry_schedule_seconds": [3600]},
            "hangs": {"callback": callbacks.url("/hangs"), "timeout_seconds": 1, "retry_schedule_seconds": [3600]},
            "refused": {"callback": f"http://127.0.0.1:{closed_port}/", "retry_schedule_seconds": [0, 3600]},
            "held": {"callback": callbacks.url("/held"), "mode": "ordered", "retry_schedule_seconds": []},
            "paused": {"callback": callbacks.url("/paused"), "retry_schedule_seconds": [3600]},
            "disabled": {"callback": callbacks.url("/disabled")},
        }
        made = {name: (await hub.subscribe("a", **options))["id"] for name, options in names.items()}
        await hub.publish("a", b"1", hookwire_key="k")
        await hub.until(f"/subscriptions/{made['disabled']}", lambda one: one["last_success_at"])
        await hub.client.patch(f"/subscriptions/{made['disabled']}", json={"state": "disabled"})
        await hub.until("/subscriptions", lambda page: _all_settled({one["id"]: one for one in page["items"]}, made))
        yield hub, made, callbacks


def _all_settled(found: Known, made: dict[str, str]) -> bool:
    healths = {name: (found[one]["health"], found[one]["blocked_by"]) for name, one in made.items()}
    return healths == HEALTHS


HEALTHS = {
    "well": ("healthy", None),
    "500": ("failing", "breaker"),
    "400": ("failing", "schedule"),
    "hangs": ("failing", "schedule"),
    "refused": ("failing", "breaker"),
    "held": ("failing", "hold"),
    "paused": ("paused", "pause"),
    "disabled": ("disabled", "pause"),
}


async def command(hub: RunningHub, *arguments: str) -> tuple[int | None, Any]:
    """Exit code and JSON of a command."""
    process = await asyncio.create_subprocess_exec(
        str(HOOKWIRE), *arguments, "--url", hub.url, "--json", stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(60):
        output, _ = await process.communicate()
    return process.returncode, json.loads(output)


def shown(markup: str) -> dict[str, tuple[str, str, str]]:
    """Of each row of the page's subscriptions: tone of the pill, its word, and the reason."""
    row = (
        r'href="subscriptions/(sub_\w+)"><code>.*?<span class="pill (\w*)">(\w+)</span> <span class="soft">(.*?)</span>'
    )
    return {found[0]: (found[1], found[2], unescape(found[3])) for found in re.findall(row, markup)}


async def metrics(hub: RunningHub) -> dict[str, dict[str, str]]:
    """The labels of each troubled subscription."""
    text = (await hub.client.get("/metrics")).text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    samples = families["hookwire_subscription_troubled"].samples
    return {sample.labels["subscription"]: sample.labels for sample in samples}


async def test_api_page_command_and_metrics_say_the_same_of_every_receiver(running_hub: RunHub, free_port: int) -> None:
    """FT-01: and no green pill stands beside a receiver that fails."""
    async with troubled_hub(running_hub, free_port) as (hub, made, _):
        api = {one["id"]: one for one in (await hub.client.get("/subscriptions")).json()["items"]}
        code, listed = await command(hub, "status")
        markup = (await hub.client.get("/console")).text
        page = shown(markup)
        diagnosis = {
            one: unescape((await hub.client.get(f"/console/pair?subscription={one}")).text) for one in made.values()
        }

        told = {
            one["id"]: (one["health"], one["blocked_by"], one["reason"], one["next_attempt_at"])
            for one in listed["subscriptions"]
        }
        assert (code, told) == (
            1,
            {i: (one["health"], one["blocked_by"], one["reason"], one["next_attempt_at"]) for i, one in api.items()},
        )
        assert {one: found[1:] for one, found in page.items()} == {
            i: (v["health"], v["reason"]) for i, v in api.items()
        }
        assert {found[1] for found in page.values() if found[0] == "good"} == {"healthy"}
        assert 'data-word="trouble"' in markup
        failing = {i for i, one in api.items() if one["health"] == "failing"}
        assert failing <= set(re.findall(r"subscription (sub_\w+): ", markup.partition('class="tiles"')[0]))
        assert [one for one, text in diagnosis.items() if api[one]["reason"] not in text] == []

        async def metrics_agree() -> bool:  # the metrics may be some seconds old
            labels = await metrics(hub)
            troubled = {made[name]: found for name, found in HEALTHS.items() if name != "well"}
            return {one: (found["health"], found["blocked_by"] or None) for one, found in labels.items()} == troubled

        await until(metrics_agree)


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("access", ["open", "keys"])
async def test_a_browser_shows_no_green_pill_beside_a_receiver_that_fails(
    running_hub: RunHub, free_port: int, tmp_path: Path, access: str, width: int
) -> None:
    """FT-01, FT-02: in Chromium, on a phone and on a desk, with API keys and without."""
    async with troubled_hub(running_hub, free_port, access=access) as (hub, _, _):

        async def tells_trouble() -> bool:  # its verdict may be of a moment before
            return 'data-word="trouble"' in (await hub.client.get("/console", headers={"Accept": "text/html"})).text

        await until(tells_trouble)
        async with serve_site(urlsplit(hub.url).port) as site:
            url = f"http://127.0.0.1:{site.port}/console"
            if access == "keys":
                url = site.sends_form("/console/sign-in", key=await bearer(hub, "read"))
            page = await dom_of(url, tmp_path / "profile")
            picture = await picture_of(url, tmp_path / "profile", width, 1400 if width < 500 else 1000)

        assert Counter(found[:2] for found in shown(page).values()) == {
            ("bad", "failing"): 5, ("good", "healthy"): 1, ("warn", "paused"): 1, ("warn", "disabled"): 1,
        }  # fmt: skip
        assert (picture[1:4], int.from_bytes(picture[16:20], "big")) == (b"PNG", width)
        if folder := os.environ.get("HOOKWIRE_TEST_PICTURES"):  # `make pictures`
            Path(folder, f"status-{access}-{width}.png").write_bytes(small_png(picture))


async def test_every_delivery_says_what_blocks_it_and_what_is_next(running_hub: RunHub, free_port: int) -> None:
    """FT-04: a second event of the key, while the first one fails; one reason in event, delivery and undelivered."""
    async with troubled_hub(running_hub, free_port) as (hub, made, _):
        second = (await hub.publish("a", b"2", hookwire_key="k")).json()["id"]
        names = {one: name for name, one in made.items()}
        await hub.until(f"/events/{second}", lambda event: _blocks(event["deliveries"], names) == BLOCKS)
        event = (await hub.client.get(f"/events/{second}")).json()
        deliveries = (await hub.client.get(f"/deliveries?event_id={second}")).json()["items"]
        undelivered = (await hub.client.get("/undelivered?limit=500")).json()["items"]

        keys = ("state", "reason", "blocked_by", "next_attempt_at")
        by_delivery = {one["id"]: [one[key] for key in keys] for one in deliveries}
        assert {one["id"]: [one[key] for key in keys] for one in event["deliveries"]} == by_delivery
        owed = [one for one in undelivered if one["event_id"] == second]
        assert {one["delivery_id"]: [one[key] for key in keys] for one in owed} == {
            key: value for key, value in by_delivery.items() if value[0] != "delivered"
        }
        assert (event["state"], event["reason"][:15]) == ("retrying", "2 of 7 retrying")
        assert all(one["reason"] for one in [*deliveries, *event["sinks"]])


BLOCKS = {
    "well": ("delivered", None), "500": ("pending", "breaker"), "400": ("retrying", "schedule"),
    "hangs": ("retrying", "breaker"), "refused": ("pending", "breaker"), "held": ("pending", "order"),
    "paused": ("pending", "pause"),
}  # fmt: skip


def _blocks(deliveries: list[dict[str, Any]], names: dict[str, str]) -> dict[str, tuple[str, str | None]]:
    return {names[one["subscription_id"]]: (one["state"], one["blocked_by"]) for one in deliveries}


async def test_a_try_passes_an_open_breaker_as_its_probe_and_names_what_it_cannot_pass(
    running_hub: RunHub, free_port: int
) -> None:
    """FT-03: of two that wait behind the breaker, the one that was asked for is the probe, then the other goes."""
    async with troubled_hub(running_hub, free_port) as (hub, made, callbacks):
        for body in (b"2", b"3"):
            last = (await hub.publish("a", body, hookwire_key="k")).json()["id"]
        page = await hub.until(f"/deliveries?event_id={last}", lambda page: len(page["items"]) == 7)
        by_name = {name: one for one in page["items"] for name, i in made.items() if i == one["subscription_id"]}
        callbacks.script["/500"] = answers(204)
        sent = len(callbacks.posted)
        done = await hub.client.post(f"/deliveries/{by_name['500']['id']}/retry")
        await hub.until(f"/subscriptions/{made['500']}", lambda one: (one["health"], one["waiting"]) == ("healthy", 1))
        refused = {
            name: await hub.client.post(f"/deliveries/{by_name[name]['id']}/retry") for name in ("paused", "held")
        }

        bodies = [body for path, _, body in callbacks.posted[sent:] if path == "/500"]
        assert (done.json()["done"], done.json()["reason"], bodies[0]) == (
            "retried", "it is sent as the probe of the breaker", b"3",
        )  # fmt: skip
        assert {name: (kind(answer)[::2], answer.json()["blocked_by"]) for name, answer in refused.items()} == {
            "paused": ((409, "delivery-waits"), "pause"),
            "held": ((409, "delivery-waits"), "order"),
        }
