"""Signing in to the console: the session's cookie, and when a session ends."""

from __future__ import annotations

import asyncio
import re

import httpx
import pytest

from app.web.pages.sign_in_page import return_address
from tests.app.conftest import RunHub, RunningHub
from tests.app.web.console.harness import Browser, Page, browsing
from tests.app.web.test_authentication import authorized, bearer
from tests.waiting import until

_TOKEN = re.compile(r"hookwire_session=([0-9a-f]{64}); HttpOnly; Max-Age=28800; SameSite=lax")


async def is_out(browser: Browser) -> bool:
    """Whether the browser is asked to sign in again."""
    return (await browser.open("topics")).status_code == 401


async def test_a_browser_without_a_session_is_led_through_the_form_to_the_page_it_asked_for(
    running_hub: RunHub,
) -> None:
    """CN-14: the answer names no challenge that would open the browser's own login."""
    async with running_hub(access="keys") as hub, browsing(hub) as browser:
        asked = await browser.open("events?topic=a")
        answer = await browser.send_form(Page(asked.text), "sign-in", key=await bearer(hub, "read"))

        assert (asked.status_code, asked.headers["www-authenticate"]) == (401, 'Bearer realm="hookwire"')
        assert (answer.status_code, str(answer.url)) == (200, f"{hub.url}/console/events?topic=a")


async def test_the_cookie_is_for_the_console_alone_and_its_token_is_not_stored(running_hub: RunHub) -> None:
    """CN-14: HttpOnly, SameSite, no path but the folder of the form; other routes want a key."""
    async with running_hub(access="keys") as hub:
        form = {"key": await bearer(hub, "admin")}
        answer = await hub.client.post("/console/sign-in", data=form, headers={"Origin": hub.url})
        found = _TOKEN.fullmatch(answer.headers["set-cookie"])
        assert found is not None, answer.headers
        cookie = {"Cookie": f"hookwire_session={found[1]}"}
        hub.client.cookies.clear()
        statuses = [(await hub.client.get(path, headers=cookie)).status_code for path in ("/console", "/topics")]
        [(stored,)] = await hub.sql("SELECT encode(digest, 'hex') FROM hookwire.console_sessions")

        assert (answer.status_code, statuses, stored == found[1]) == (303, [200, 401], False)


async def test_a_hub_behind_https_marks_the_cookie_as_secure(running_hub: RunHub, free_port: int) -> None:
    address = f"127.0.0.1:{free_port}"
    async with running_hub(access="keys", listen=address, public_url="https://hub.example") as hub:
        form = {"key": await bearer(hub, "read")}
        answer = await hub.client.post("/console/sign-in", data=form, headers={"Origin": "https://hub.example"})

        assert "; Secure" in answer.headers["set-cookie"]


async def test_a_session_ends_at_sign_out(running_hub: RunHub) -> None:
    """The former cookie opens nothing any more."""
    async with running_hub(access="keys") as hub, browsing(hub, "read") as browser:
        token = browser.client.cookies["hookwire_session"]
        await browser.send_form(await browser.page("topics"), "sign-out")
        answer = await hub.client.get("/console/topics", headers={"Cookie": f"hookwire_session={token}"})

        assert (answer.status_code, await hub.sql("SELECT FROM hookwire.console_sessions")) == (401, [])


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE hookwire.api_keys SET revoked_at = now()",
        "UPDATE hookwire.api_keys SET expires_at = now()",
        "UPDATE hookwire.console_sessions SET expires_at = now()",
    ],
)
async def test_a_session_ends_with_its_key_and_with_its_time(running_hub: RunHub, statement: str) -> None:
    """CN-14: by another process, so that this one has to look."""
    async with running_hub(access="keys") as hub, browsing(hub, "read") as browser:
        before = await is_out(browser)
        await hub.sql(statement)
        await until(lambda: is_out(browser))

        assert before is False


async def test_a_token_that_was_planted_in_a_browser_is_never_the_token_of_its_session(running_hub: RunHub) -> None:
    """Session fixation: signing in makes a new token, and ends the session that the browser had."""
    async with running_hub(access="keys") as hub, browsing(hub, "read") as browser:
        former = browser.client.cookies["hookwire_session"]
        await browser.send("sign-in", key=await bearer(hub, "read"))
        answer = await hub.client.get("/console", headers={"Cookie": f"hookwire_session={former}"})

        assert (browser.client.cookies["hookwire_session"] == former, answer.status_code) == (False, 401)


async def test_a_wrong_key_gets_the_form_again_and_many_are_slowed_down(running_hub: RunHub) -> None:
    async with running_hub(access="keys") as hub, browsing(hub) as browser:
        page = await browser.page("sign-in")
        answers: list[httpx.Response] = []

        async def guess() -> None:
            while all(answer.status_code != 429 for answer in answers):  # a slow machine is allowed more guesses
                answers.append(await browser.send_form(page, "sign-in", key=f"hwk_{'0' * 12}_{'1' * 40}"))

        await asyncio.gather(*(guess() for _ in range(8)))

        assert [answer.status_code for answer in answers[:2]] == [401, 401]
        assert "unknown, expired or revoked" in answers[0].text


async def test_a_form_that_a_foreign_page_sends_signs_nobody_in(running_hub: RunHub) -> None:
    """Else a page could sign a browser in with a key of its own, and read what its user then does."""
    async with running_hub(access="keys") as hub:
        form = {"key": await bearer(hub, "read")}
        sent = [{"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}, {}]
        answers = [await hub.client.post("/console/sign-in", data=form, headers=headers) for headers in sent]

        assert [(one.status_code, "set-cookie" in one.headers) for one in answers] == [(403, False)] * 4


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("events?topic=a.b&cursor=W10", "events?topic=a.b&cursor=W10"),
        ("subscriptions/sub_1/pause", "subscriptions/sub_1/pause"),
        *(
            (text, "../console")
            for text in (
                "", "//evil.example", "https://evil.example", "javascript:alert(1)", "\\\\evil.example", "../../topics",
                "events/../..//evil.example", "/events", "events\r\nSet-Cookie: a=b", "sign-out", "e" * 3_000,
            )
        ),
    ],
)  # fmt: skip
def test_a_browser_is_led_to_a_page_of_the_console_only(text: str, address: str) -> None:
    """Open redirect."""
    assert return_address(text) == address


async def test_a_hub_without_keys_has_no_form_to_sign_in(running_hub: RunHub) -> None:
    async with running_hub() as hub, browsing(hub) as browser:
        answer = await browser.open("sign-in")

        assert (str(answer.url), "Sign out" in answer.text) == (f"{hub.url}/console", False)


async def test_the_old_addresses_lead_to_the_console(kept_hub: RunningHub) -> None:
    answers = [await kept_hub.client.get(path) for path in ("/", "/pair?topic=a&callback=b", "/console/")]

    assert [str(httpx.URL(kept_hub.url + "/").join(one.headers["location"])) for one in answers[:2]] == [
        f"{kept_hub.url}/console", f"{kept_hub.url}/console/pair?topic=a&callback=b",
    ]  # fmt: skip
    assert {one.status_code for one in answers} == {308}


async def test_basic_still_reads_and_changes_nothing(running_hub: RunHub) -> None:
    """For curl: the key is the password; the pages then have no buttons."""
    async with running_hub(access="keys") as hub:
        login = httpx.BasicAuth("me", await bearer(hub, "admin"))
        made = await hub.client.post(
            "/subscriptions", json={"topic": "a", "callback": "http://127.0.0.1:9000/"},
            headers=authorized(await bearer(hub, "admin")),
        )  # fmt: skip
        path = f"/console/subscriptions/{made.json()['id']}"
        page = await hub.client.get(path, auth=login)
        change = await hub.client.post(f"{path}/pause", auth=login, headers={"Origin": hub.url})

        assert (page.status_code, "/pause" in page.text, change.status_code) == (200, False, 401)
