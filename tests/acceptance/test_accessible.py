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
from tests.app.web.console.test_pages import all_pages, fill
from tests.hostile.chromium import Tab, operated
from tests.hub.callback import answers, serve_callbacks

__all__ = ["running_hub"]

_AXE = Path(__file__).parents[1] / "hostile" / "axe" / "axe.min.js.gz"
_AXE_SHA256 = "880970c081707360e64f34cea25ff91892f5bc95675b0776925b9709dd8a68bb"
_JUDGE = """
async () => (await axe.run(document, {resultTypes: ["violations"]})).violations
  .filter(one => ["serious", "critical"].includes(one.impact))
  .map(one => `${one.id}: ${one.nodes[0].html.slice(0, 120)}`)"""
_FORMS = (*(f"{kind}/new" for kind in NEW), *(f"{kind}/all/{act.name}" for kind, acts in BULK.items() for act in acts))
_ERRORS = ("nowhere", "events?cursor=x", "events/evt_none", "pair", "subscriptions/sub_none", "search?q=none")

Found = dict[str, list[str]]


async def judged(tab: Tab, hub: RunningHub, addresses: Iterable[str]) -> Found:
    """The serious violations of each page that has some."""
    script, found = gzip.decompress(_AXE.read_bytes()).decode(), {}
    for address in addresses:
        await tab.open(f"{hub.url}/console/{address}" if address else f"{hub.url}/console")
        await tab.call("Runtime.evaluate", expression=script)
        found[address] = await tab.run(_JUDGE)
    return {address: violations for address, violations in found.items() if violations}


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
    """CN-14: each page when there is nothing, when there is something, and when it is refused; forms, too."""
    found: dict[str, Any] = {}
    async with operated(tmp_path / "profile") as browser:
        tab = await browser.tab()
        await tab.shaped(width)
        async with running_hub(ALL_ROLES) as hub:
            found["empty"] = await judged(tab, hub, ["", *LISTS, *_FORMS])
            found["error"] = await judged(tab, hub, _ERRORS)
            found["full"] = await judged(tab, hub, ["", *sorted(await full(hub))])
            foreign = [url for url in tab.asked if not url.startswith((hub.url, "data:", "about:"))]
        async with running_hub(access="keys") as hub:
            found["not signed in"] = await judged(tab, hub, [""])

    assert (found, foreign) == ({"empty": {}, "error": {}, "full": {}, "not signed in": {}}, [])
