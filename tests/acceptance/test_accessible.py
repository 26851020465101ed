"""Each page of the console for people with a screen reader or a keyboard, as axe-core judges it in a browser."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from app.web.console.acting.acts import NEW
from app.web.console.acting.bulk_acts import BULK
from app.web.console.listing.lists import LISTS
from tests.app.conftest import ALL_ROLES, RunHub, RunningHub, running_hub
from tests.app.web.console.harness import browsing
from tests.app.web.console.test_pages import all_pages, away, fill
from tests.hostile.chromium import Tab, operated
from tests.hub.callback import answers, serve_callbacks

__all__ = ["running_hub"]

_AXE = Path(__file__).parents[1] / "hostile" / "axe" / "axe.min.js.gz"
_AXE_SHA256 = "880970c081707360e64f34cea25ff91892f5bc95675b0776925b9709dd8a68bb"
_JUDGE = """
async rules => (await axe.run(document, {resultTypes: ["violations"], ...rules})).violations
  .filter(one => ["serious", "critical"].includes(one.impact))
  .map(one => `${one.id}: ${one.nodes[0].html.slice(0, 120)}`)"""
_COLOURS = {"runOnly": ["color-contrast"]}
_FORMS = (*(f"{kind}/new" for kind in NEW), *(f"{kind}/all/{act.name}" for kind, acts in BULK.items() for act in acts))
_ERRORS = ("nowhere", "events?cursor=x", "events/evt_none", "pair", "subscriptions/sub_none", "search?q=none")

Found = dict[str, list[str]]


async def judged(tab: Tab, hub: RunningHub, addresses: Iterable[str]) -> Found:
    """The serious violations of each page that has some."""
    found = {}
    for address in addresses:
        await tab.open(f"{hub.url}/console/{address}" if address else f"{hub.url}/console")
        found[address] = await violations(tab)
    return {address: violated for address, violated in found.items() if violated}


async def violations(tab: Tab) -> list[str]:
    """The serious violations of the open page, with the colours of the day and of the night."""
    await tab.call("Runtime.evaluate", expression=gzip.decompress(_AXE.read_bytes()).decode())
    found = list(await tab.run(_JUDGE, {}))
    for scheme, words in (("dark", "in the dark "), ("light", "")):
        await tab.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        found += [words + one for one in await tab.run(_JUDGE, _COLOURS)] if words else []
    return found


async def full(hub: RunningHub) -> set[str]:
    """The addresses of the pages of a hub whose every list has rows."""
    async with serve_callbacks() as callbacks, browsing(hub) as browser:
        callbacks.script["/"] = answers(500, b"no")
        await fill(hub, callbacks.url("/"))
        return {link for link in await all_pages(browser) if not link.startswith("../")}


def test_the_judge_is_the_file_of_its_package() -> None:
    assert hashlib.sha256(gzip.decompress(_AXE.read_bytes())).hexdigest() == _AXE_SHA256


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1280])
async def test_no_page_has_a_serious_fault_for_people_with_a_screen_reader(
    running_hub: RunHub, tmp_path: Path, width: int
) -> None:
    """CN-14: each page when there is nothing, when there is something, when it is refused, and without its database;
    forms, too, also with a refusal. By day and by night.
    """
    found: dict[str, Any] = {}
    async with operated(tmp_path / "profile") as browser:
        tab = await browser.tab()
        await tab.shaped(width)
        async with running_hub(ALL_ROLES) as hub:
            found["empty"] = await judged(tab, hub, ["", *LISTS, *_FORMS])
            found["error"] = await judged(tab, hub, _ERRORS)
            found["full"] = await judged(tab, hub, ["", *sorted(await full(hub))])
            await tab.open(f"{hub.url}/console/subscriptions/new")
            await tab.fill(topic="a..b", callback="ftp://x")
            await tab.click("Subscribe", "form.act")
            found["refused form"] = await violations(tab)
            async with away(hub):
                found["outage"] = await judged(tab, hub, ["", "topics"])
            foreign = [url for url in tab.asked if not url.startswith((hub.url, "data:", "about:"))]
        async with running_hub(access="keys") as hub:
            found["not signed in"] = await judged(tab, hub, [""])

    assert found == {
        "empty": {}, "error": {}, "full": {}, "refused form": [], "outage": {}, "not signed in": {},
    }  # fmt: skip
    assert foreign == []
