"""Workers behind a callback: a POST for each request, whose 2xx body is the reply (ZU-04, ZU-11)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from db.statements import STATEMENTS
from tests.app.callback_server import LOOPBACK, callback_server
from tests.app.callback_server import CallbackServer as Worker
from tests.app.conftest import ALL_ROLES, RunHub, RunningHub
from tests.app.web.test_authentication import authorized, bearer
from webhooks.signature import parse_key


@pytest.fixture
async def worker() -> AsyncIterator[Worker]:
    async with callback_server() as made:
        yield made


async def offer(hub: RunningHub, worker: Worker, **more: Any) -> dict[str, Any]:
    answer = await hub.client.post("/subscriptions", json={"service": "echo", "callback": worker.callback, **more})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def test_a_request_is_posted_and_the_body_of_the_answer_is_the_reply(running_hub: RunHub, worker: Worker) -> None:
    """Signed as a delivery is; shown as protocol `service`."""
    async with running_hub(ALL_ROLES, **LOOPBACK) as hub:
        made = await offer(hub, worker, headers={"Authorization": "Bearer x"})
        answer = await hub.client.post("/services/echo", content=b"\xff?", headers={"content-type": "a/b"})
        listed = (await hub.client.get(f"/subscriptions/{made['id']}")).json()
        counts = (await hub.client.get("/services/echo")).json()["counts"]
        [(headers, body)] = worker.seen
        request_id = answer.headers["hookwire-request-id"]
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        verified = parse_key(made["secret"]).sign(signed) == headers["webhook-signature"]
        shown = {name: headers[name] for name in (
            "webhook-id", "hookwire-service", "hookwire-request-id", "hookwire-attempt", "content-type",
            "authorization",
        )}  # fmt: skip

        assert (answer.status_code, answer.content, answer.headers["content-type"], body, verified) == (
            200, b"done", "text/x-answer", b"\xff?", True,
        )  # fmt: skip
        assert shown == {
            "webhook-id": f"req_{request_id}", "hookwire-service": "echo", "hookwire-request-id": request_id,
            "hookwire-attempt": "1", "content-type": "a/b", "authorization": "Bearer x",
        }  # fmt: skip
        assert (listed["protocol"], listed["service"], counts["callbacks"], counts["has_workers"]) == (
            "service", "echo", 1, True,
        )  # fmt: skip


async def test_a_callback_that_fails_gets_the_request_again(running_hub: RunHub, worker: Worker) -> None:
    """ZU-04: also where an answer is too large."""
    worker.answer = lambda number: {1: (500, b"no"), 2: (200, b"x" * 1001)}.get(number, (201, b"third"))
    async with running_hub(ALL_ROLES, event_bytes_max=1000, **LOOPBACK) as hub:
        await offer(hub, worker)
        answer = await hub.client.post("/services/echo", content="?", headers={"prefer": "wait=60"}, timeout=70)

        assert (answer.text, [headers["hookwire-attempt"] for headers, _ in worker.seen]) == ("third", ["1", "2", "3"])


async def test_a_reply_counts_whatever_its_content_type_is(running_hub: RunHub, worker: Worker) -> None:
    """GW-02, GB-06: with one that cannot be stored, the work was done three times, and its caller got no reply."""
    types = ["text/plain;\tcharset=utf-8", f"text/plain; a={'x' * 300}", "text/plain; a=\xff"]
    worker.answer = lambda number: (200, b"done", f"Content-Type: {types[number - 1]}")
    async with running_hub(ALL_ROLES, **LOOPBACK) as hub:
        await offer(hub, worker)
        prefer = {"prefer": "wait=60"}
        answers = [await hub.client.post("/services/echo", content="?", headers=prefer, timeout=70) for _ in types]

    found = [(answer.status_code, answer.text, answer.headers.get("content-type")) for answer in answers]
    assert (found[0], [one[:2] for one in found[1:]], len(worker.seen)) == (
        (200, "done", "text/plain; charset=utf-8"), [(200, "done")] * 2, 3,
    )  # fmt: skip


async def test_a_request_is_given_up_after_so_many_tries(running_hub: RunHub, worker: Worker) -> None:
    worker.answer = lambda _: (302, b"")
    async with running_hub(ALL_ROLES, **LOOPBACK) as hub:
        await hub.client.put("/services/echo", json={"tries_max": 2})
        await offer(hub, worker)
        answer = await hub.client.post("/services/echo", content="?", headers={"prefer": "wait=60"}, timeout=70)

        assert (answer.status_code, answer.json()["detail"], len(worker.seen)) == (
            502, "2 tries have failed; the last one: the callback answered 302.", 2,
        )  # fmt: skip


async def test_410_ends_the_subscription_and_another_worker_answers(running_hub: RunHub, worker: Worker) -> None:
    worker.answer = lambda _: (410, b"")
    async with running_hub(ALL_ROLES, **LOOPBACK) as hub:
        made = await offer(hub, worker)
        asked = await hub.client.post("/services/echo", content="?", headers={"prefer": "respond-async"})
        ended = await hub.until(f"/subscriptions/{made['id']}", lambda answer: answer["state"] == "gone")
        claimed = await hub.client.post("/services/echo/claim", json={"wait_seconds": 20})
        [item] = claimed.json()["items"]

        assert (ended["state_reason"], item["request"]["id"]) == ("the callback answered 410", asked.json()["id"])


async def test_a_request_made_in_sql_is_found_by_the_poll(running_hub: RunHub, worker: Worker) -> None:
    async with running_hub(ALL_ROLES, sql_notify=False, **LOOPBACK) as hub:
        await offer(hub, worker)
        [(request_id,)] = await hub.sql("SELECT hookwire.request('echo', 'hello')")
        answer = await hub.client.get(f"/requests/{request_id}", headers={"prefer": "wait=20"})

        assert (answer.status_code, answer.text, worker.seen[0][1]) == (200, "done", b"hello")


async def test_callbacks_without_a_request_do_not_hide_the_one_that_has_one(sql: asyncpg.Connection) -> None:
    """ZU-04: a hub that may call one subscription finds the request among 200 callbacks of idle services."""
    await sql.execute(
        "INSERT INTO hookwire.subscriptions (public_id, protocol, topic, callback, state, service)"
        " SELECT 's' || n, 'service', '', 'http://x/', 'active', CASE WHEN n > 1 THEN 'idle' || n ELSE 'busy' END"
        " FROM generate_series(1, 200) n"
    )
    await sql.execute("SELECT hookwire.request('busy', 'hello')")
    leased = await sql.fetch(STATEMENTS["request.lease_for_callbacks"], [], 4, 10.0, 5.0, 1)

    assert [(row["service"], row["body"]) for row in leased] == [("busy", b"hello")]


async def test_a_callback_that_may_not_be_called_is_refused(running_hub: RunHub, worker: Worker) -> None:
    """EG-13: the guarded client judges the address, at the subscription and at each POST."""
    async with running_hub(ALL_ROLES, profile="production", access="proxy") as hub:
        refused = await hub.client.post("/subscriptions", json={"service": "echo", "callback": worker.callback})

        assert (refused.status_code, worker.seen) == (422, [])


@pytest.mark.parametrize(
    ("body", "parameter"),
    [
        ({}, "topic"), ({"service": "echo", "topic": "a"}, "topic"), ({"service": "mmi.x"}, "name"),
        ({"service": "echo", "filter": {}}, "filter"), ({"service": "echo", "mode": "ordered"}, "mode"),
    ],
    ids=str,
)  # fmt: skip
async def test_what_makes_no_sense_for_a_service_is_refused(
    kept_hub: RunningHub, body: dict[str, Any], parameter: str
) -> None:
    answer = await kept_hub.client.post("/subscriptions", json={"callback": "http://127.0.0.1:9000/x", **body})

    assert (answer.status_code, answer.json()["parameter"]) == (400, parameter)


async def test_a_worker_of_a_key_needs_the_scope_work_and_the_service(running_hub: RunHub, worker: Worker) -> None:
    async with running_hub(access="keys", **LOOPBACK) as hub:
        found = {}
        for name, (scopes, services) in {
            "both": (["subscribe", "work"], None), "subscribe": (["subscribe"], None),
            "other": (["subscribe", "work"], ["other"]),
        }.items():  # fmt: skip
            admin = authorized(await bearer(hub, "admin"))
            made = await hub.client.post(
                "/keys", json={"name": name, "scopes": scopes, "services": services}, headers=admin
            )
            key = {"authorization": f"Bearer {made.json()['key']}"}
            body = {"service": "echo", "callback": worker.callback}
            found[name] = (await hub.client.post("/subscriptions", json=body, headers=key)).status_code

        assert found == {"both": 201, "subscribe": 403, "other": 403}


async def test_a_disabled_callback_gets_nothing_until_it_is_active(running_hub: RunHub, worker: Worker) -> None:
    async with running_hub(ALL_ROLES, **LOOPBACK) as hub:
        made = await offer(hub, worker, state="disabled")
        asked = await hub.client.post("/services/echo", content="?", headers={"prefer": "wait=2"})
        before = len(worker.seen)
        bad = await hub.client.patch(f"/subscriptions/{made['id']}", json={"topic": "x"})
        await hub.client.patch(f"/subscriptions/{made['id']}", json={"state": "active"})
        answer = await hub.client.get(asked.headers["location"], headers={"prefer": "wait=20"})

        assert (before, bad.status_code, answer.text) == (0, 400, "done")
