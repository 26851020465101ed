"""Our pages in a real browser: a refresh keeps focus and scroll, nothing lies outside of its card (FT-06, FT-19)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.test_truth import troubled_hub
from tests.app.conftest import RunHub, RunningHub, running_hub
from tests.hostile.browser import browsing, serve_site
from tests.hostile.chromium import operated
from tests.waiting import until

__all__ = ["running_hub"]

SAY = 'const say = facts => fetch("/report", {method: "POST", body: JSON.stringify(facts)});'
REFRESHED = """
addEventListener("load", async () => {
  const links = () => [...document.querySelectorAll('main td a[href^="subscriptions/sub_"]')];
  const card = () => links()[2].closest("section");
  links()[2].focus();
  card().scrollLeft = 40;
  const href = links()[2].href;
  await say({left: card().scrollLeft});
  while (!document.getElementById("status").textContent.includes("changed since")) {
    await new Promise(resolve => setTimeout(resolve, 50));
  }
  const same = document.activeElement === links()[2] && document.activeElement.href === href;
  await say({same, left: card().scrollLeft});
});
"""
LOOKED_AT = """
addEventListener("load", () => say({
  width: innerWidth,
  outside: [...document.querySelectorAll("section *")].filter(
    one => one.getBoundingClientRect().right > one.closest("section").getBoundingClientRect().right).length,
  sideways: document.documentElement.scrollWidth > innerWidth,
  bare: [...document.querySelectorAll("p a, .soft a, footer a")].filter(
    one => getComputedStyle(one).textDecorationLine !== "underline").map(one => one.textContent),
  headless: [...document.querySelectorAll("th")].filter(one => !one.textContent.trim()).length,
}));
"""


def with_script(page: str, script: str, style: str = "") -> str:
    """The page with a script and a style of the test's own; the site sends no policy that forbids them."""
    return page.replace("</head>", f"<style>{style}</style><script>{SAY}{script}</script></head>")


async def page_of(hub: RunningHub, path: str) -> str:
    answer: httpx.Response = await hub.client.get(path, headers={"Accept": "text/html"})
    return answer.text


async def reported(page: str, folder: Path, width: int) -> Any:
    """What the script of a page reports, in a frame of this width: a window has at least 500 pixels."""
    async with serve_site() as site:
        site.pages["/"] = f'<iframe src="/page" width="{width}" height="900" style="border: 0"></iframe>'
        site.pages["/page"] = page
        async with browsing(f"http://127.0.0.1:{site.port}/", folder):
            return await site.report()


async def test_a_refresh_keeps_the_keyboards_focus_and_the_sideways_scroll(
    running_hub: RunHub, free_port: int, tmp_path: Path
) -> None:
    """FT-06: the third subscription's link has the focus, in a table that is scrolled."""
    async with troubled_hub(running_hub, free_port) as (hub, _, _), serve_site() as site:
        page = with_script(await page_of(hub, "/console"), REFRESHED, "table { min-width: 3000px; }")
        site.pages["/"] = page
        async with browsing(f"http://127.0.0.1:{site.port}/", tmp_path / "profile"):
            begun = await site.report()
            site.pages["/"] = page.replace("failing since", "changed since, and failing since")
            refreshed = await site.report()

    assert (begun, refreshed) == ({"left": 40}, {"same": True, "left": 40})


@pytest.mark.parametrize("width", [390, 1280])
async def test_nothing_lies_outside_of_its_card_and_links_and_heads_are_told_apart(
    running_hub: RunHub, free_port: int, tmp_path: Path, width: int
) -> None:
    """FT-06, FT-19: on a phone and on a desk; axe's rules link-in-text-block and empty-table-header."""
    async with troubled_hub(running_hub, free_port) as (hub, made, _):
        paths = [
            "/console", f"/console/pair?subscription={made['held']}", f"/console/subscriptions/{made['held']}",
            "/console/dead-letters", "/console/subscriptions/new", "/problems", "/problems/not-found",
        ]  # fmt: skip
        pages = {path: with_script(await page_of(hub, path), LOOKED_AT) for path in paths}
        found = {
            path: await reported(page, tmp_path / f"profile{number}", width)
            for number, (path, page) in enumerate(pages.items())
        }

    good = {"width": width, "outside": 0, "sideways": False, "bare": [], "headless": 0}
    assert found == dict.fromkeys(paths, good)


@pytest.mark.parametrize("path", ["/problems", "/problems/not-found", "/events/evt_none"])
async def test_the_page_of_a_problem_leads_back(running_hub: RunHub, path: str) -> None:
    """FT-19: to the status page, behind any prefix; the page that a refused browser sees as well."""
    async with running_hub(access="keys") as hub:
        page = await page_of(hub, path)
        links = re.findall(r'<a href="([^"]+)">Status page</a>', page)

        assert [str(httpx.URL(hub.url + path).join(link)) for link in links] == [hub.url + "/"]


_REFRESHED = """
async state => {
  const field = document.querySelector("main input"), real = window.fetch, main = document.getElementById("status");
  const looks = {hidden: () => Object.defineProperty(document, "hidden", {value: true, configurable: true}),
    selected: () => getSelection().selectAllChildren(main), typed: () => field.focus(), calm: () => {},
    away: () => { window.fetch = async () => { throw new TypeError("away"); }; },
    newer: () => { window.fetch = async () => new Response('<html data-version="0000">'); }};
  let asked = 0;
  window.fetch = (...given) => { asked += 1; return real(...given); };
  looks[state]();
  await refresh();
  window.fetch = real;
  delete document.hidden;
  getSelection().removeAllRanges();
  field.blur();
  return [asked, main.classList.contains("stale"), document.getElementById("pulse").textContent.includes("tries")];
}"""


async def test_a_page_refreshes_only_for_who_reads_it_and_turns_grey_when_it_cannot(
    running_hub: RunHub, tmp_path: Path
) -> None:
    """CN-12: not while it is hidden, text is selected, or a field is filled in. With another script it loads anew."""
    async with running_hub() as hub, operated(tmp_path / "profile") as browser:
        await hub.publish("a")
        tab = await browser.tab()
        await tab.open(f"{hub.url}/console/events")
        found = {state: await tab.run(_REFRESHED, state) for state in ("hidden", "selected", "typed", "calm", "away")}
        again = await tab.run(_REFRESHED, "calm")
        before = tab.loads
        await tab.run(_REFRESHED, "newer")
        await until(lambda: tab.loads > before)

    asks_not, asks, grey = [0, False, False], [1, False, False], [0, True, True]
    assert found == {"hidden": asks_not, "selected": asks_not, "typed": asks_not, "calm": asks, "away": grey}
    assert again == asks


async def test_a_moment_is_told_in_the_zone_of_its_reader(running_hub: RunHub, tmp_path: Path) -> None:
    """CN-14: as soon as the pointer comes near."""
    async with running_hub() as hub, operated(tmp_path / "profile") as browser:
        await hub.publish("a")
        tab = await browser.tab()
        await tab.call("Emulation.setTimezoneOverride", timezoneId="Asia/Kolkata")
        await tab.open(f"{hub.url}/console/events")
        x, y = await tab.run(
            "() => { const at = document.querySelector('td time').getClientRects()[0]; return [at.x, at.y]; }"
        )
        await tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=x + 2, y=y + 2)
        titles = await tab.run("() => [...document.querySelectorAll('td time')].map(one => one.title)")

    assert "GMT+5:30" in titles[0]
