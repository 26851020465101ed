"""The tutorial of the office by two people in two browsers: one with scripts at a desk, one without on a phone."""

from __future__ import annotations

import os
from pathlib import Path

from tests.app.conftest import ALL_ROLES, RunHub, RunningHub, running_hub
from tests.app.web.test_authentication import authorized, bearer
from tests.hostile.chromium import Chromium, Tab, operated

__all__ = ["running_hub"]


async def person(browser: Chromium, hub: RunningHub, name: str, *scopes: str, width: int, scripts: bool) -> Tab:
    """A browser of its own in which a person has signed in with the key of this name."""
    tab = await browser.tab()
    await tab.shaped(width, scripts=scripts)
    await tab.open(f"{hub.url}/console/sign-in")
    await tab.fill(key=await bearer(hub, "read", "work", "payloads", *scopes, name=name))
    await tab.click("Sign in", "main")
    return tab


async def act(tab: Tab, button: str, **fields: str) -> str:
    """Follow a link or a button to the form of an act, fill it in and send it; the words of the page behind it."""
    await tab.click(button, "main")
    label = await tab.run("() => document.querySelector('form.act button').innerText")
    await tab.fill(**fields)
    return await tab.click(label, "form.act")


async def look(tab: Tab, name: str) -> None:
    """Keep a picture of the page, if somebody wants to look at it."""
    if folder := os.environ.get("HOOKWIRE_TEST_PICTURES"):
        Path(folder, f"{name}.png").write_bytes(await tab.picture())


async def test_two_people_assign_delay_finish_send_back_and_approve_in_two_browsers(
    running_hub: RunHub, tmp_path: Path
) -> None:
    """CN-14, CN-15: a second person who takes the same job is told who has it, and nothing changes."""
    async with running_hub(ALL_ROLES, access="keys") as hub, operated(tmp_path / "profile") as browser:
        operator = authorized(await bearer(hub, "admin"))
        settings = {"automation": "manual", "needs_review": True, "reviewer_differs": True}
        await hub.client.put("/job-kinds/invoice.check", json=settings, headers=operator)
        grace = await person(browser, hub, "grace", "operate", "enqueue", width=1280, scripts=True)
        ada = await person(browser, hub, "ada", width=390, scripts=False)
        await grace.click("Jobs", "nav")
        await act(grace, "New job", kind="invoice.check", args='{"invoice": 4711}', uniq="4711")
        pool = await ada.click("Pool", "nav")
        await look(ada, "pool-390")
        await grace.click("Pool", "nav")
        await grace.click("take", "main")
        await act(ada, "take")
        refused = await grace.click("Take or assign", "form.act")
        await ada.click("My work", "nav")
        await look(ada, "my-work-390")
        await act(ada, "delay", due_local="2031-07-01T09:00", due_zone="Europe/Berlin", reason="on holiday")
        await grace.click("Jobs", "nav")
        await grace.click(await job_of(hub, operator), "main")
        await act(grace, "Run now", reason="back early")
        await ada.click("My work", "nav")
        await act(ada, "finish", result='{"ok": true}')
        own = await act(ada, "Approve")
        review = await grace.click("Review", "nav")
        await look(grace, "review-1280")
        await act(grace, "send back", reason="one page is missing")
        await ada.click("My work", "nav")
        told = await ada.click(await job_of(hub, operator), "main")
        await act(ada, "Finish", result='{"ok": true, "pages": 2}')
        await grace.click("Review", "nav")
        page = await act(grace, "approve")
        await look(grace, "job-1280")
        empty = await ada.click("My work", "nav")
        [found] = (await hub.client.get("/jobs", headers=operator)).json()["items"]
        [trail] = await hub.sql(
            "SELECT array_agg(actor || ' ' || substr(action, 5) ORDER BY id) FROM hookwire.audit WHERE subject = $1",
            found["id"],
        )
        foreign = [url for tab in (ada, grace) for url in tab.asked if not url.startswith(f"{hub.url}/console")]

        assert ('{"invoice": 4711}' in pool, "assigned to ada" in refused, "4711" in review) == (True, True, True)
        assert ("one page is missing" in told, "another person reviews it" in own) == (True, True)
        assert (found["state"], found["result"]) == ("completed", {"ok": True, "pages": 2})
        assert ("Done: approve." in page, "No job is assigned to you." in empty) == (True, True)
        assert trail[0] == [
            "ada assign", "ada delay", "grace retry", "ada finish", "grace send-back", "ada finish", "grace approve",
        ]  # fmt: skip
        assert (foreign, ada.thrown, grace.thrown) == ([], [], [])


async def job_of(hub: RunningHub, operator: dict[str, str]) -> str:
    """The id of the only job."""
    [found] = (await hub.client.get("/jobs", headers=operator)).json()["items"]
    return str(found["id"])
