"""Pushed jobs: a POST for each job of a kind, whose answer settles it (JB-60, JB-67, JB-82)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.app.callback_server import LOOPBACK, Answer, CallbackServer, callback_server
from tests.app.conftest import ALL_ROLES, RunHub, RunningHub, hub_of_file, kept_hub, running_hub
from tests.app.web.test_authentication import authorized, bearer
from tests.waiting import until
from webhooks.signature import parse_key

__all__ = ["hub_of_file", "kept_hub", "running_hub"]

ENDED = ("completed", "discarded", "cancelled")


@pytest.fixture
async def worker() -> AsyncIterator[CallbackServer]:
    async with callback_server() as made:
        yield made


async def offer(hub: RunningHub, worker: CallbackServer, **more: Any) -> dict[str, Any]:
    answer = await hub.client.post("/subscriptions", json={"kind": "pay", "callback": worker.callback, **more})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def enqueue(hub: RunningHub, **body: Any) -> str:
    answer = await hub.client.post("/jobs", json={"kind": "pay", **body})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


async def counted(hub: RunningHub, line: str) -> None:
    """Return once the metrics have this line."""

    async def is_shown() -> bool:
        return line in (await hub.client.get("/metrics")).text

    await until(is_shown)


async def ended(hub: RunningHub, job: str) -> dict[str, Any]:
    found: dict[str, Any] = await hub.until(f"/jobs/{job}", lambda answer: answer["state"] in ENDED)
    return found


async def test_a_job_is_posted_as_an_item_of_a_claim_and_the_answer_is_its_result(
    running_hub: RunHub, worker: CallbackServer
) -> None:
    """JB-82: signed as a delivery is; shown as protocol `job`; the trail names the subscription as the worker."""
    worker.answer = lambda _: (200, b'{"paid": true}', "Content-Type: application/json")
    async with running_hub(ALL_ROLES, **LOOPBACK) as hub:
        made = await offer(hub, worker, headers={"Authorization": "Bearer x"})
        job = await enqueue(hub, args={"invoice": 7}, key="ada")
        found = await ended(hub, job)
        listed = (await hub.client.get(f"/subscriptions/{made['id']}")).json()
        [(headers, body)] = worker.seen
        item = json.loads(body)
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        verified = parse_key(made["secret"]).sign(signed) == headers["webhook-signature"]
        names = ("webhook-id", "hookwire-kind", "hookwire-job-id", "hookwire-attempt", "content-type", "authorization")

        assert (found["state"], found["result"], found["worker"], verified) == (
            "completed", {"paid": True}, made["id"], True,
        )  # fmt: skip
        assert {name: headers[name] for name in names} == {
            "webhook-id": f"job_{job}", "hookwire-kind": "pay", "hookwire-job-id": job, "hookwire-attempt": "1",
            "content-type": "application/json", "authorization": "Bearer x",
        }  # fmt: skip
        assert (sorted(item), item["attempts"], item["job"]["args"], item["job"]["key"]) == (
            ["attempts", "job", "leased_until", "receipt"], 1, {"invoice": 7}, "ada",
        )  # fmt: skip
        assert (listed["protocol"], listed["kind"], listed["queue"], listed["service"]) == (
            "job", "pay", "default", None,
        )  # fmt: skip


async def test_a_callback_that_fails_gets_the_job_again_and_retry_after_costs_no_attempt(
    running_hub: RunHub, worker: CallbackServer
) -> None:
    """JB-48, JB-75, JB-78: the second POST is asked to come later."""
    answers: dict[int, Answer] = {1: (500, b"no"), 2: (503, b"", "Retry-After: 1")}
    worker.answer = lambda number: answers.get(number, (200, b"third", "Content-Type: text/plain"))
    async with running_hub(ALL_ROLES, **LOOPBACK) as hub:
        await hub.client.put("/job-kinds/pay", json={"backoff_seconds_min": 0.05})
        await offer(hub, worker)
        found = await ended(hub, await enqueue(hub))

        assert (found["state"], found["result"], found["attempts"], [error["error"] for error in found["errors"]]) == (
            "completed", "third", 2, ["the callback answered 500"],
        )  # fmt: skip
        assert [headers["hookwire-attempt"] for headers, _ in worker.seen] == ["1", "2", "2"]


async def test_a_4xx_gives_up_at_once(running_hub: RunHub, worker: CallbackServer) -> None:
    worker.answer = lambda _: (422, b"no such invoice")
    async with running_hub(ALL_ROLES, **LOOPBACK) as hub:
        await offer(hub, worker)
        found = await ended(hub, await enqueue(hub))

        assert (found["state"], found["reason"], found["attempts"], len(worker.seen)) == (
            "discarded", "the callback answered 422", 1, 1,
        )  # fmt: skip


async def test_410_ends_the_subscription_and_another_worker_gets_the_job(
    running_hub: RunHub, worker: CallbackServer
) -> None:
    """The job is given back without an attempt."""
    worker.answer = lambda _: (410, b"")
    async with running_hub(ALL_ROLES, **LOOPBACK) as hub:
        made = await offer(hub, worker)
        job = await enqueue(hub)
        gone = await hub.until(f"/subscriptions/{made['id']}", lambda answer: answer["state"] == "gone")
        claimed = await hub.client.post("/jobs/claim", json={"kinds": ["pay"], "wait_seconds": 20})
        [item] = claimed.json()["items"]

        assert (gone["state_reason"], item["job"]["id"], item["attempts"]) == ("the callback answered 410", job, 1)


async def test_a_job_enqueued_in_sql_is_found_by_the_poll_in_the_queue_of_the_subscription(
    running_hub: RunHub, worker: CallbackServer
) -> None:
    """JB-65: without NOTIFY; jobs of the same kind in another queue are not pushed."""
    async with running_hub(ALL_ROLES, sql_notify=False, **LOOPBACK) as hub:
        await offer(hub, worker, queue="eu")
        [(other,)] = await hub.sql("SELECT hookwire.enqueue('pay')")
        [(job,)] = await hub.sql("SELECT hookwire.enqueue('pay', queue => 'eu')")
        found = await ended(hub, str(job))
        waiting = (await hub.client.get(f"/jobs/{other}")).json()

        assert (found["state"], waiting["state"], len(worker.seen)) == ("completed", "available", 1)


async def test_a_callback_may_settle_by_the_receipt_with_events_and_jobs_in_one_commit(
    running_hub: RunHub, worker: CallbackServer
) -> None:
    """JB-60, JB-67: the answer to the POST comes after that, finds nothing to settle and changes nothing."""
    worker.gate = asyncio.Event()
    worker.answer = lambda _: (500, b"too late")
    async with running_hub(ALL_ROLES, **LOOPBACK) as hub:
        await offer(hub, worker)
        job = await enqueue(hub)
        [(_, body)] = await worker.wait_for(1)
        extra = {"events": [{"topic": "paid", "payload": {"n": 1}}], "jobs": [{"kind": "mail"}]}
        settled = await hub.client.post(
            f"/jobs/{job}/complete", json={"receipt": json.loads(body)["receipt"], "result": 1, **extra}
        )
        worker.gate.set()
        await counted(hub, 'hookwire_job_callbacks_total{outcome="stale"} 1.0')
        found = await ended(hub, job)
        [(mails,)] = await hub.sql("SELECT count(*) FROM hookwire.jobs WHERE kind = 'mail'")
        event = (await hub.client.get("/topics/paid")).json()

        assert (settled.status_code, found["state"], found["result"], found["errors"], mails, event) == (
            204, "completed", 1, [], 1, {"n": 1},
        )  # fmt: skip


async def test_a_pushed_job_that_was_to_be_cancelled_is_not_done_later(
    running_hub: RunHub, worker: CallbackServer
) -> None:
    """JB-74: the callback asks to come later, and there is no later."""
    worker.gate = asyncio.Event()
    worker.answer = lambda _: (503, b"", "Retry-After: 1")
    async with running_hub(ALL_ROLES, **LOOPBACK) as hub:
        await offer(hub, worker)
        job = await enqueue(hub)
        await worker.wait_for(1)
        await hub.client.post(f"/jobs/{job}/cancel", json={})
        worker.gate.set()
        found = await ended(hub, job)

        assert (found["state"], len(worker.seen)) == ("cancelled", 1)


async def test_jobs_for_people_are_not_pushed(running_hub: RunHub, worker: CallbackServer) -> None:
    """JB-45: the ramp decides, and a switch of it counts at once."""
    async with running_hub(ALL_ROLES, **LOOPBACK) as hub:
        await hub.client.put("/job-kinds/pay", json={"automation": "manual"})
        await offer(hub, worker)
        job = await enqueue(hub)
        await ended(hub, await enqueue(hub, deadline_seconds=1))
        before = len(worker.seen)
        await hub.client.put("/job-kinds/pay", json={"automation": "automatic"})
        found = await ended(hub, job)

        assert (before, found["state"], len(worker.seen)) == (0, "completed", 1)


async def test_a_limit_of_a_kind_holds_for_pushed_jobs(running_hub: RunHub, worker: CallbackServer) -> None:
    """JB-70: one at a time, though a callback may have eight."""
    worker.gate = asyncio.Event()
    async with running_hub(ALL_ROLES, **LOOPBACK) as hub:
        await hub.client.put("/job-kinds/pay", json={"running_max": 1})
        await offer(hub, worker)
        jobs = [await enqueue(hub) for _ in range(3)]
        await worker.wait_for(1)
        [(running,)] = await hub.sql("SELECT count(*) FROM hookwire.jobs WHERE state = 'running'")
        worker.gate.set()
        states = [(await ended(hub, job))["state"] for job in jobs]

        assert (running, states, len(worker.seen)) == (1, ["completed"] * 3, 3)


@pytest.mark.parametrize(
    ("body", "parameter"),
    [
        ({"kind": "k", "topic": "a"}, "topic"), ({"kind": "a b"}, "kind"), ({"kind": "k", "service": "s"}, "kind"),
        ({"kind": "k", "filter": {}}, "filter"), ({"kind": "k", "queue": ""}, "queue"), ({"queue": "q"}, "queue"),
    ],
    ids=str,
)  # fmt: skip
async def test_what_makes_no_sense_for_a_kind_is_refused(
    kept_hub: RunningHub, body: dict[str, Any], parameter: str
) -> None:
    answer = await kept_hub.client.post("/subscriptions", json={"callback": "http://127.0.0.1:9000/x", **body})

    assert (answer.status_code, answer.json()["parameter"]) == (400, parameter)


async def test_a_callback_of_a_key_needs_the_scope_work_and_the_kind(
    running_hub: RunHub, worker: CallbackServer
) -> None:
    """A subscription of a kind that the key is not for does not exist for it."""
    async with running_hub(access="keys", **LOOPBACK) as hub:
        found, path = {}, ""
        admin = authorized(await bearer(hub, "admin"))
        for name, (scopes, kinds) in {
            "both": (["subscribe", "work"], None), "subscribe": (["subscribe"], None),
            "other": (["subscribe", "work"], ["other"]),
        }.items():  # fmt: skip
            made = await hub.client.post("/keys", json={"name": name, "scopes": scopes, "kinds": kinds}, headers=admin)
            key = {"authorization": f"Bearer {made.json()['key']}"}
            body = {"kind": "pay", "callback": worker.callback}
            answer = await hub.client.post("/subscriptions", json=body, headers=key)
            found[name] = answer.status_code
            path = f"/subscriptions/{answer.json()['id']}" if name == "both" else path
            found[f"{name} reads"] = (await hub.client.get(path, headers=key)).status_code

        assert found == {
            "both": 201, "both reads": 200, "subscribe": 403, "subscribe reads": 200, "other": 403, "other reads": 404,
        }  # fmt: skip
