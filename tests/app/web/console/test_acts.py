"""What a reader does on the console: each act has the checks and the audit entry of its route in the API."""

from __future__ import annotations

import re

import httpx
import pytest

from tests.app.conftest import ALL_ROLES, Receiver, RunHub, RunningHub
from tests.app.web.console.harness import Browser, Page, browsing
from tests.app.web.test_authentication import authorized, bearer


async def made(browser: Browser, callback: str, topic: str = "a") -> str:
    """The id of a new subscription, made by its form."""
    answer = await browser.send("subscriptions/new", topic=topic, callback=callback)
    found = re.search(r"sub_[0-9a-f]+", answer.text)
    assert found is not None, answer.text
    return found[0]


async def states(hub: RunningHub) -> list[str]:
    return [state for (state,) in await hub.sql("SELECT state FROM hookwire.subscriptions ORDER BY id")]


async def audit(hub: RunningHub) -> list[tuple[str, str]]:
    """Actor and action of each audit entry, the oldest first."""
    return await hub.sql("SELECT actor, action FROM hookwire.audit ORDER BY id")


async def test_an_operator_pauses_and_resumes_a_subscription_and_the_audit_names_the_key(running_hub: RunHub) -> None:
    """CN-15: the entries are those of the API, with the key as the actor."""
    async with running_hub(access="keys") as hub, browsing(hub, "read", "subscribe") as browser:
        one = await made(browser, "http://127.0.0.1:9000/")
        paused = await browser.send(f"subscriptions/{one}/pause")
        after_pause = await states(hub)
        await browser.send(f"subscriptions/{one}/resume")
        [(key,)] = await hub.sql("SELECT public_id FROM hookwire.api_keys")

        assert (paused.url.path, "Done: pause." in paused.text) == (f"/console/subscriptions/{one}", True)
        assert (after_pause, await states(hub)) == (["disabled"], ["active"])
        acts = ("console.sign-in", "subscription.make", "subscription.change", "subscription.change")
        assert await audit(hub) == [(key, act) for act in acts]


async def test_a_form_shows_the_request_and_the_command_that_do_the_same(running_hub: RunHub) -> None:
    """CN-15."""
    async with running_hub() as hub, browsing(hub) as browser:
        one = await made(browser, "http://127.0.0.1:9000/")
        text = (await browser.page(f"subscriptions/{one}/pause")).text

        assert f'PATCH {hub.url}/subscriptions/{one} {{"state": "disabled"}}' in " ".join(text.split())
        assert f"hookwire subscriptions pause {one}" in text


async def test_what_was_given_up_is_counted_first_and_then_sent_again(running_hub: RunHub, receiver: Receiver) -> None:
    """CN-07, GU-06: the page of the endpoint has its dead letters; the count comes before the confirmation."""
    receiver.status = 500
    async with running_hub(ALL_ROLES) as hub, browsing(hub) as browser:
        one = (await hub.subscribe("a", receiver.callback, retry_schedule_seconds=[]))["id"]
        event = (await hub.publish("a", b"1")).json()["id"]
        await hub.until("/dead-letters", lambda page: page["items"])
        receiver.status = 204
        subscription = await browser.page(f"subscriptions/{one}")
        counted = await browser.open(f"subscriptions/{one}/replay")
        before = await hub.sql("SELECT count(*) FROM hookwire.replays")
        done = await browser.send_form(Page(counted.text), f"subscriptions/{one}/replay", reason="mended")
        await hub.until("/dead-letters", lambda page: page["items"] == [])

        assert f"events/{event}" in subscription.links
        assert ("1 delivery would be sent again." in counted.text, before) == (True, [(0,)])
        assert done.url.path.startswith("/console/replays/replay_")
        assert len(await receiver.wait_for(2)) == 2


async def test_a_test_event_leads_to_its_delivery_with_the_receivers_own_words(
    running_hub: RunHub, receiver: Receiver
) -> None:
    """GU-06: sending the same form twice sends one event."""
    async with running_hub(ALL_ROLES) as hub, browsing(hub) as browser:
        one = await made(browser, receiver.callback)
        page = await browser.page(f"subscriptions/{one}/test")
        answers = [await browser.send_form(page, f"subscriptions/{one}/test") for _ in range(2)]
        await receiver.wait_for(1)

        assert answers[0].url == answers[1].url
        assert (answers[0].url.path[:23], len(await receiver.wait_for(1))) == ("/console/deliveries/dlv", 1)


async def test_an_event_that_is_published_by_form_is_the_bytes_of_the_form(
    running_hub: RunHub, receiver: Receiver
) -> None:
    async with running_hub(ALL_ROLES) as hub, browsing(hub) as browser:
        await made(browser, receiver.callback)
        await hub.publish("a", b"first", content_type="text/css")
        content = '{"ä": "1\\n2"}\n<b>'
        answer = await browser.send("topics/a/publish", content=content, key="k 1", content_type="text/plain")
        found = {one.headers["content-type"]: one.body.decode() for one in await receiver.wait_for(2)}

        assert (answer.url.path.startswith("/console/events/evt_"), found["text/plain"]) == (True, content)


async def test_a_key_is_made_shown_once_and_revoked(running_hub: RunHub) -> None:
    async with running_hub(access="keys") as hub, browsing(hub, "admin") as browser:
        answer = await browser.send("keys/new", name="shop", read="yes", topics="a b.#", days="2")
        key = re.search(r"hwk_([0-9a-f]{12})_[0-9a-f]{40}", answer.text)
        assert key is not None, answer.text
        usable = (await hub.client.get("/topics", headers=authorized(key[0]))).status_code
        listed = await browser.send(f"keys/key_{key[1]}/revoke")
        [facts] = await hub.sql(
            "SELECT scopes, topics, round(extract(epoch FROM expires_at - created_at)), revoked_at IS NOT NULL"
            " FROM hookwire.api_keys WHERE name = 'shop'"
        )

        assert (usable, listed.url.path, key[0] in listed.text) == (200, "/console/keys", False)
        assert facts == (["read"], ["a", "b.#"], 172_800, True)


async def test_a_signing_key_is_shown_on_its_own_page_alone(running_hub: RunHub) -> None:
    async with running_hub() as hub, browsing(hub) as browser:
        one = await made(browser, "http://127.0.0.1:9000/")
        rotated = await browser.send(f"subscriptions/{one}/rotate", overlap_seconds="3600")
        secret = re.search(r"whsec_[A-Za-z0-9+/=]+", rotated.text)
        assert secret is not None, rotated.text

        assert secret[0] not in (await browser.open(f"subscriptions/{one}")).text


async def test_a_parked_delivery_is_given_up_with_a_reason_and_its_dead_letter_deleted(
    running_hub: RunHub, receiver: Receiver
) -> None:
    receiver.status = 500
    async with running_hub(ALL_ROLES) as hub, browsing(hub) as browser:
        await hub.subscribe("a", receiver.callback, retry_schedule_seconds=[3600])
        await hub.publish("a", b"1")
        page = await hub.until("/deliveries?state=retrying", lambda page: page["items"])
        one = page["items"][0]["id"]
        await browser.send(f"deliveries/{one}/give-up", reason="the customer left")
        await browser.send(f"dead-letters/{one}/purge", reason="done")
        entries = await hub.sql("SELECT action, reason FROM hookwire.audit WHERE reason IS NOT NULL ORDER BY id")

        assert [reason for _, reason in entries] == ["the customer left", "done"]
        assert await hub.sql("SELECT FROM hookwire.dead_letters") == []


async def test_a_queue_is_paused_and_resumed(running_hub: RunHub) -> None:
    async with running_hub() as hub, browsing(hub) as browser:
        await hub.client.post("/queues/mail/messages", content=b"1")
        await browser.send("queues/mail/pause", reason="the server moves")
        paused = (await hub.client.get("/queues/mail")).json()["paused"]
        await browser.send("queues/mail/resume")

        assert (paused, (await hub.client.get("/queues/mail")).json()["paused"]) == (True, False)


async def test_people_take_finish_send_back_and_approve_a_job_in_two_browsers(running_hub: RunHub) -> None:
    """CN-15: each with a key of their own, which the trail names; a button is there only where the act is possible."""
    async with running_hub(access="keys") as hub, browsing(hub, "read", "work") as ada, browsing(hub, "admin") as bob:
        operator = authorized(await bearer(hub, "admin"))
        await hub.client.put("/job-kinds/check", json={"needs_review": True, "automation": "manual"}, headers=operator)
        job = (await hub.client.post("/jobs", json={"kind": "check"}, headers=operator)).json()["id"]
        buttons = [link.rpartition("/")[2] for link in (await ada.page(f"jobs/{job}")).links if f"jobs/{job}/" in link]
        await ada.send(f"jobs/{job}/assign")
        await ada.send(f"jobs/{job}/finish", result='{"pages": 3}')
        await bob.send(f"jobs/{job}/send-back", reason="one page is missing")
        await ada.send(f"jobs/{job}/finish", result='{"pages": 4}')
        await bob.send(f"jobs/{job}/approve")
        found = (await hub.client.get(f"/jobs/{job}", headers=operator)).json()

        assert (buttons, found["state"], found["result"]) == (["assign"], "completed", {"pages": 4})
        verbs = [step["verb"] for step in found["trail"]]
        assert verbs[-5:] == ["assign", "finish", "send-back", "finish", "approve"]


async def test_a_replay_begins_with_the_filters_of_the_list_that_led_to_it(running_hub: RunHub) -> None:
    """CN-07: everything that matches, not only the rows of a page."""
    async with running_hub() as hub, browsing(hub) as browser:
        one = await made(browser, "http://127.0.0.1:9000/")
        page = await browser.page(f"dead-letters?subscription_id={one}&kind=exhausted&sink=webhooks")
        (address,) = [link for link in page.links if link.startswith("replays/new")]
        counted = await browser.send(address, status="503")

        text, fields = Page(counted.text).text, Page(counted.text).forms[-1].fields
        assert "0 deliveries would be sent again." in text
        assert f'"kinds": ["exhausted"], "statuses": [503], "subscription_id": "{one}"' in text
        assert [fields[name] for name in ("subscription_id", "status")] == [one, "503"]


async def test_what_the_api_refuses_is_told_in_the_form_with_what_was_entered(running_hub: RunHub) -> None:
    async with running_hub() as hub, browsing(hub) as browser:
        answer = await browser.send("subscriptions/new", topic="a..b", callback="ftp://x")
        fields = Page(answer.text).forms[-1].fields

        assert (answer.status_code, fields["topic"], fields["callback"]) == (422, "a..b", "ftp://x")
        assert 'role="alert"' in answer.text
        assert await states(hub) == []


# --- forms of others -----------------------------------------------------------------------------------------------

_FOREIGN = {
    "another site": {"Origin": "https://evil.example"},
    "an opaque origin": {"Origin": "null"},
    "a page that the browser calls foreign": {"Sec-Fetch-Site": "cross-site"},
    "nothing": {},
}


@pytest.mark.parametrize("access", ["keys", "open", "proxy"])
async def test_a_form_that_no_page_of_the_console_sent_changes_nothing(running_hub: RunHub, access: str) -> None:
    """CSRF: judged by the origin, with keys and without, also with the session and its token."""
    async with running_hub(access=access) as hub, browsing(hub, *(["admin"] if access == "keys" else [])) as browser:
        one = await made(browser, "http://127.0.0.1:9000/")
        (form,) = [form for form in (await browser.page(f"subscriptions/{one}/end")).forms if "end" in form.action]
        url, cookies = f"{hub.url}/console/subscriptions/{one}/end", dict(browser.client.cookies)
        async with httpx.AsyncClient(cookies=cookies, trust_env=False) as client:
            answers = {name: await client.post(url, data=form.fields, headers=h) for name, h in _FOREIGN.items()}

        assert {name: answer.status_code for name, answer in answers.items()} == dict.fromkeys(_FOREIGN, 403)
        assert await states(hub) == ["active"]


@pytest.mark.parametrize("token", ["", "0" * 64, "that of another session"])
async def test_a_form_without_the_token_of_its_own_session_changes_nothing(running_hub: RunHub, token: str) -> None:
    """CSRF: the origin is right, so that the token alone decides."""
    async with running_hub(access="keys") as hub, browsing(hub, "admin") as browser, browsing(hub, "admin") as other:
        one = await made(browser, "http://127.0.0.1:9000/")
        if token.startswith("that"):
            token = (await other.page(f"subscriptions/{one}/end")).forms[-1].fields["form_token"]
        answer = await browser.send(f"subscriptions/{one}/end", form_token=token)

        assert (answer.status_code, await states(hub)) == (403, ["active"])


async def test_a_key_with_fewer_rights_has_no_button_and_its_form_is_refused(running_hub: RunHub) -> None:
    """A page that shows more than its reader may do would be no border: the API refuses the form."""
    async with running_hub(access="keys") as hub, browsing(hub, "admin") as admin, browsing(hub, "read") as browser:
        one = await made(admin, "http://127.0.0.1:9000/")
        page = await browser.page(f"subscriptions/{one}")
        answers = [await browser.send(f"subscriptions/{one}/{act}") for act in ("pause", "end", "rotate", "replay")]

        assert [link for link in page.links if link.startswith(f"subscriptions/{one}/")] == []
        assert ([answer.status_code for answer in answers], await states(hub)) == ([403] * 4, ["active"])


async def test_a_session_that_has_ended_changes_nothing_and_leads_back_to_the_form(running_hub: RunHub) -> None:
    async with running_hub(access="keys") as hub, browsing(hub, "admin") as browser:
        one = await made(browser, "http://127.0.0.1:9000/")
        page = await browser.page(f"subscriptions/{one}/end")
        await browser.send_form(page, "sign-out")
        browser.client.cookies.set("hookwire_session", "0" * 64)
        answer = await browser.send_form(page, f"subscriptions/{one}/end")
        fields = next(form for form in Page(answer.text).forms if form.action == "sign-in").fields

        assert (answer.status_code, fields["next"], await states(hub)) == (401, f"subscriptions/{one}/end", ["active"])


async def test_behind_a_proxy_the_actor_is_in_the_header_that_a_setting_names(running_hub: RunHub) -> None:
    """CN-15: another header does not count."""
    async with running_hub(access="proxy", actor_header="X-Forwarded-User") as hub, browsing(hub) as browser:
        browser.client.headers.update({"X-Forwarded-User": "alice", "Hookwire-Actor": "mallory"})
        await made(browser, "http://127.0.0.1:9000/")

        assert await audit(hub) == [("alice@127.0.0.1", "subscription.make")]


async def test_a_key_in_the_header_sends_no_forms(running_hub: RunHub) -> None:
    """A program uses the API: a form is of a session."""
    async with running_hub(access="keys") as hub:
        headers = {**authorized(await bearer(hub, "admin")), "Origin": hub.url}
        answer = await hub.client.post("/console/queues/mail/pause", headers=headers, data={"reason": "x"})

        assert answer.status_code == 403
