"""Services over HTTP: call, claim, reply, fetch, close, settings (ZU-01..ZU-08, ZU-12..ZU-14)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import asyncpg
import httpx
import pytest

from tests.app.conftest import ALL_ROLES, RunHub, RunningHub
from tests.app.web.test_authentication import authorized, bearer
from tests.waiting import until

FRAMES = "application/vnd.hookwire.frames+json"
_SHOWN = ("content-type", "content-security-policy", "cache-control")
ASYNC = {"prefer": "respond-async"}


async def call(hub: RunningHub, body: str = "hello", service: str = "echo", **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await hub.client.post(f"/services/{service}", content=body, headers=named)


async def ask(hub: RunningHub, body: str = "hello", service: str = "echo", **headers: str) -> str:
    """The id of a request that nobody waits for."""
    answer = await call(hub, body, service, prefer="respond-async", **headers)
    assert answer.status_code == 202, answer.text
    return answer.json()["id"]


async def claim(hub: RunningHub, service: str = "echo", **asked: Any) -> list[dict[str, Any]]:
    answer = await hub.client.post(f"/services/{service}/claim", json=asked)
    assert answer.status_code == 200, answer.text
    return answer.json()["items"]


async def reply(hub: RunningHub, item: dict[str, Any], body: str = "done", **headers: str) -> int:
    headers = {"hookwire-receipt": item["receipt"], **{n.replace("_", "-"): value for n, value in headers.items()}}
    answer = await hub.client.post(f"/requests/{item['request']['id']}/reply", content=body, headers=headers)
    return answer.status_code


async def work(hub: RunningHub, service: str = "echo", body: str = "done", **headers: str) -> dict[str, Any]:
    """Wait for one request and answer it."""
    [item] = await until(lambda: claim(hub, service, wait_seconds=20))
    assert await reply(hub, item, body, **headers) == 204
    return item


async def test_a_caller_that_waits_gets_the_reply_of_a_worker_that_waits(running_hub: RunHub) -> None:
    """ZU-01, ZU-05: whichever comes first."""
    async with running_hub() as hub:
        found = []
        for worker_first in (True, False):
            steps: list[Any] = [work(hub, content_type="text/html"), call(hub, content_type="text/plain")]
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(step) for step in (steps if worker_first else reversed(steps))]
            item, answer = [task.result() for task in (tasks if worker_first else reversed(tasks))]
            asked = {name: item["request"][name] for name in ("service", "content_type", "payload", "payload_base64")}
            shown = {name: answer.headers[name] for name in _SHOWN}
            same = answer.headers["hookwire-request-id"] == item["request"]["id"]
            found.append((asked, item["attempts"], answer.status_code, answer.text, shown, same))

        assert found == [(
            {"service": "echo", "content_type": "text/plain", "payload": "hello", "payload_base64": None}, 1,
            200, "done",
            {
                "content-type": "text/html", "content-security-policy": "default-src 'none'; sandbox",
                "cache-control": "no-store",
            },
            True,
        )] * 2  # fmt: skip


async def test_a_caller_that_does_not_wait_is_told_where_the_reply_will_be(running_hub: RunHub) -> None:
    """ZU-02, ZU-05: 202 with Location and Retry-After, then 200 as often as one likes, then 404 after it was closed."""
    async with running_hub() as hub:
        first = await call(hub, prefer="respond-async")
        place, request_id = first.headers["location"], first.json()["id"]
        pending = await hub.client.get(place)
        await work(hub)
        replies = [await hub.client.get(path) for path in (place, place, f"/requests/{request_id.upper()}")]
        closed = [(await hub.client.delete(path)).status_code for path in (place, place, "/requests/x")]
        missing = [(await hub.client.get(path)).status_code for path in (place, "/requests/x", "/requests/" + "0" * 32)]

        assert (first.status_code, place, first.headers["preference-applied"], first.headers["retry-after"]) == (
            202, f"/requests/{request_id}", "respond-async", "1",
        )  # fmt: skip
        assert (pending.status_code, pending.json()["state"], [r.text for r in replies], closed, missing) == (
            202, "waiting", ["done"] * 3, [204] * 3, [404] * 3,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("prefer", "applied"),
    [
        ("wait=0", "wait=0"), ("respond-async, wait=0", "wait=0"), ('foo; bar, WAIT = "0"', "wait=0"),
        ("Respond-Async", "respond-async"),
    ],
)  # fmt: skip
async def test_preferences_are_read_as_the_rfc_says(shared_hub: RunHub, prefer: str, applied: str) -> None:
    """ZU-05: RFC 7240."""
    async with shared_hub() as hub:
        answer = await call(hub, prefer=prefer)

        assert (answer.status_code, answer.headers["preference-applied"]) == (202, applied)


async def test_waiting_ends_when_a_reply_comes_from_sql(running_hub: RunHub) -> None:
    """ZU-01: without a notification, because the process asks while somebody waits."""
    async with running_hub(sql_notify=False) as hub:
        waiting = asyncio.ensure_future(call(hub, prefer="wait=20"))
        [(request_id, fence)] = await rows_until(hub, "SELECT id, claim FROM hookwire.claim_requests('echo')")
        await hub.sql("SELECT hookwire.reply($1, $2, '{\"n\": 1}'::jsonb)", request_id, fence)
        answer = await waiting

        assert (answer.status_code, answer.json(), answer.headers["content-type"]) == (
            200,
            {"n": 1},
            "application/json",
        )


async def test_a_worker_by_http_answers_a_request_made_in_sql(running_hub: RunHub) -> None:
    """ZU-01: the waiting worker is woken by the poll."""
    async with running_hub(sql_notify=False) as hub:
        working = asyncio.ensure_future(work(hub))
        [(request_id,)] = await hub.sql("SELECT hookwire.request('echo', 'hello')")
        await working

        assert await hub.sql("SELECT state, body FROM hookwire.answer_of($1)", request_id) == [("answered", b"done")]


async def test_the_same_idempotency_key_is_the_same_request(running_hub: RunHub) -> None:
    """ZU-06, ID-03, ID-04: two callers at once get the reply of one execution."""
    async with running_hub() as hub:
        both = [asyncio.ensure_future(call(hub, idempotency_key="k")) for _ in range(2)]
        item = await work(hub)
        replies = [await one for one in both]
        later = await call(hub, idempotency_key="k")
        other = await call(hub, "other", idempotency_key="k")
        await hub.client.delete(f"/requests/{item['request']['id']}")
        closed = await call(hub, idempotency_key="k")

        assert ([(r.status_code, r.text) for r in (*replies, later)], other.status_code, closed.status_code) == (
            [(200, "done")] * 3, 422, 410,
        )  # fmt: skip
        assert await claim(hub) == []


async def test_refusals_are_known_where_the_schema_is_on_the_search_path(
    running_hub: RunHub, database_url: str
) -> None:
    """FC-06: a role named hookwire has its schema there, and then errors name our functions without it."""
    name = database_url.rpartition("/")[2]
    connection = await asyncpg.connect(database_url)
    await connection.execute(f"ALTER DATABASE {name} SET search_path TO hookwire, public")
    await connection.close()
    async with running_hub(services_auto_create=False) as hub:
        await hub.client.put("/services/echo", json={"without_workers": "refuse"})
        await hub.client.put("/services/other", json={})
        await call(hub, "1", "other", idempotency_key="k", prefer="wait=0")
        statuses = [
            (await call(hub, "2", "other", idempotency_key="k", prefer="wait=0")).status_code,
            (await call(hub, service="unknown")).status_code,
            (await call(hub)).json()["type"].rpartition("/")[2],
        ]

        assert statuses == [422, 404, "service-unavailable"]


async def test_the_first_reply_wins_and_the_second_is_a_409(running_hub: RunHub) -> None:
    """ZU-04: the first worker was lost after its effect; its late reply is refused by its fence. GW-09: and another
    body by the same receipt."""
    async with running_hub() as hub:
        request_id = await ask(hub)
        [slow] = await claim(hub, lease_seconds=1)
        [fast] = await claim(hub, wait_seconds=20)
        statuses = [await reply(hub, fast, "fast"), await reply(hub, slow, "slow"), await reply(hub, fast, "again")]
        found = (await hub.client.get(f"/requests/{request_id}")).text

        assert (fast["attempts"], statuses, found) == (2, [204, 409, 409], "fast")


async def test_a_reply_for_an_unknown_or_closed_request_is_a_409(running_hub: RunHub) -> None:
    async with running_hub() as hub:
        request_id = await ask(hub)
        [item] = await claim(hub)
        await hub.client.delete(f"/requests/{request_id}")
        receipts = [item["receipt"], f"req_{'0' * 32}_1", "nonsense", f"req_{request_id}_{'9' * 18}"]
        refused = [
            (await hub.client.post(f"/requests/{each}/reply", headers={"hookwire-receipt": receipt})).json()["type"]
            for receipt in receipts for each in (request_id, "0" * 32)
        ]  # fmt: skip
        missing = await hub.client.post(f"/requests/{request_id}/reply", content=b"x")

        assert ({kind.rpartition("/")[2] for kind in refused}, missing.status_code) == ({"stale-receipt"}, 400)


async def test_what_no_worker_answers_in_time_is_a_504_and_what_fails_too_often_a_502(running_hub: RunHub) -> None:
    """ZU-07, MD-10."""
    async with running_hub() as hub:
        await hub.client.put("/services/frail", json={"tries_max": 1})
        expired = await call(hub, hookwire_expiry_seconds="1", prefer="wait=30")
        request_id = await ask(hub, service="frail")
        await claim(hub, "frail", lease_seconds=1)
        failed = await hub.client.get(f"/requests/{request_id}", headers={"prefer": "wait=20"})

        assert [(a.status_code, a.json()["type"].rpartition("/")[2]) for a in (expired, failed)] == [
            (504, "request-expired"), (502, "request-failed"),
        ]  # fmt: skip


async def test_a_service_without_a_worker_or_disabled_refuses_at_once(running_hub: RunHub) -> None:
    """ZU-07, ZU-08: 503; requests that wait are still worked off."""
    async with running_hub() as hub:
        await hub.client.put("/services/echo", json={"without_workers": "refuse"})
        statuses = [(await call(hub)).status_code]
        await claim(hub)
        await ask(hub)
        await hub.client.post("/services/echo/disable", json={"reason": "moving"})
        statuses.append((await call(hub)).status_code)
        await work(hub)
        await hub.client.post("/services/echo/enable")
        await ask(hub)
        unknown = (await hub.client.post("/services/nobody/disable")).status_code
        audited = [item["action"] for item in (await hub.client.get("/audit")).json()["items"]]

        assert (statuses, unknown, sorted(audited)) == ([503, 503], 404, ["service.disable", "service.enable"])


async def test_services_and_requests_are_listed_with_what_is_under_way(running_hub: RunHub) -> None:
    """ZU-08: the same data as mmi.*."""
    async with running_hub() as hub:
        first, second = await ask(hub), await ask(hub)
        [item] = await claim(hub)
        await hub.sql("SELECT hookwire.request('sql', 'x')")
        sql = (await hub.client.get("/services/sql")).json()
        listed = (await hub.client.get("/services")).json()["items"]
        requests = (await hub.client.get("/requests", params={"service": "echo"})).json()["items"]
        leased = (await hub.client.get("/requests", params={"state": "leased"})).json()["items"]
        page = (await hub.client.get("/requests", params={"limit": 2})).json()
        rest = (await hub.client.get("/requests", params={"limit": 2, "cursor": page["next_cursor"]})).json()

        counts = {s["name"]: {n: s["counts"][n] for n in ("waiting", "leased", "has_workers")} for s in listed}
        assert (counts, sql["counts"]["waiting"]) == (
            {
                "echo": {"waiting": 1, "leased": 1, "has_workers": True},
                "sql": {"waiting": 1, "leased": 0, "has_workers": False},
            },
            1,
        )
        assert [[one["id"] for one in items] for items in (requests, leased)] == [[second, first], [first]]
        assert (item["request"]["id"], len(page["items"]), len(rest["items"])) == (first, 2, 1)


async def test_several_frames_pass_unchanged_both_ways(running_hub: RunHub) -> None:
    """ZU-13."""
    async with running_hub() as hub:
        document = json.dumps({"frames": ["", "AP8=", "eA=="]})
        request_id = await ask(hub, document, content_type=FRAMES)
        [item] = await claim(hub)
        await reply(hub, item, document, content_type=FRAMES + "; charset=utf-8")
        found = await hub.client.get(f"/requests/{request_id}")
        bad = await call(hub, '{"frames": 1}', content_type=FRAMES)

        assert (item["request"]["content_type"], json.loads(item["request"]["payload"])) == (
            FRAMES,
            json.loads(document),
        )
        assert (found.headers["content-type"], found.json(), bad.status_code) == (FRAMES, json.loads(document), 400)


async def test_frames_that_are_nested_too_deep_are_refused(running_hub: RunHub) -> None:
    """EY-04: of a caller and of a worker; they were answered as if the database had failed."""
    deep = "[" * 100_000 + "]" * 100_000
    async with running_hub() as hub:
        asked = await call(hub, deep, content_type=FRAMES)
        request_id = await ask(hub, "x")
        [item] = await claim(hub)
        answered = await reply(hub, item, deep, content_type=FRAMES)

    assert (asked.status_code, item["request"]["id"], answered) == (400, request_id, 400)


@pytest.mark.parametrize("name", ["mmi.service", "titanic.request", "hub.publish", "a b", "a..b", "x" * 201, "%00"])
async def test_only_names_of_topic_words_are_services(kept_hub: RunningHub, name: str) -> None:
    """ZU-14."""
    answers = [await kept_hub.client.post(f"/services/{name}{verb}", json={}) for verb in ("", "/claim", "/disable")]

    assert [answer.status_code for answer in answers] == [400] * 3


async def test_bodies_are_bounded_and_binary_ones_survive(running_hub: RunHub) -> None:
    async with running_hub(event_bytes_max=1000) as hub:
        large = await call(hub, "x" * 1001)
        answer = await hub.client.post("/services/echo", content=b"\xff" * 1000, headers=ASYNC)
        [item] = await claim(hub)
        too_large = await reply(hub, item, "x" * 1001)
        done = await reply(hub, item, "")
        found = await hub.client.get(answer.headers["location"])

        assert (large.status_code, item["request"]["payload"], too_large, done, found.content) == (
            413,
            None,
            413,
            204,
            b"",
        )


async def test_an_unknown_service_is_a_404_where_services_are_not_made_by_their_use(running_hub: RunHub) -> None:
    async with running_hub(services_auto_create=False) as hub:
        before = (await call(hub)).status_code
        await hub.client.put("/services/echo", json={})

        assert (before, (await call(hub, prefer="wait=0")).status_code) == (404, 202)


async def test_a_request_of_a_key_answers_to_that_key_only(running_hub: RunHub) -> None:
    """ZU-12: the id alone is not enough; a request that was made in SQL answers to any caller that has the id."""
    async with running_hub(access="keys") as hub:
        keys = {name: authorized(await bearer(hub, *scopes)) for name, scopes in {
            "mine": ("call",), "other": ("call",), "worker": ("work",), "reader": ("read",), "admin": ("admin",),
        }.items()}  # fmt: skip
        asked = await hub.client.post("/services/echo", content="x", headers={**ASYNC, **keys["mine"]})
        [(by_sql,)] = await hub.sql("SELECT hookwire.request('echo', 'x')")
        seen = {}
        for name, key in keys.items():
            await hub.client.delete(
                f"/requests/{asked.json()['id']}", headers=key if name == "other" else keys["other"]
            )
            seen[name] = [
                (await hub.client.get(path, headers=key)).status_code
                for path in (asked.headers["location"], f"/requests/{by_sql}")
            ]

        assert seen == {
            "mine": [202, 202], "other": [404, 202], "worker": [403, 403], "reader": [403, 403], "admin": [202, 202],
        }  # fmt: skip


async def test_a_key_for_some_services_reaches_no_other(running_hub: RunHub) -> None:
    """A key has patterns of services."""
    async with running_hub(access="keys") as hub:
        admin = authorized(await bearer(hub, "admin"))
        made = await hub.client.post("/keys", json={
            "name": "k", "scopes": ["call", "work", "read"], "services": ["mine.*"]
        }, headers=admin)  # fmt: skip
        key = {"authorization": f"Bearer {made.json()['key']}"}
        ids = [
            (await hub.client.post(f"/services/{name}", headers={**ASYNC, **admin})).json()["id"]
            for name in ("mine.a", "yours")
        ]
        items = [
            (await hub.client.post(f"/services/{name}/claim", json={}, headers=admin)).json()["items"][0]
            for name in ("mine.a", "yours")
        ]
        statuses = {
            "call": [
                (await hub.client.post(f"/services/{name}", headers={**ASYNC, **key})).status_code
                for name in ("mine.b", "yours")
            ],
            "claim": [
                (await hub.client.post(f"/services/{name}/claim", json={}, headers=key)).status_code
                for name in ("mine.b", "yours")
            ],
            "reply": [
                (await hub.client.post(
                    f"/requests/{each}/reply", headers={"hookwire-receipt": item["receipt"], **key}
                )).status_code
                for each, item in zip(ids, items, strict=True)
            ],
        }  # fmt: skip
        listed = [s["name"] for s in (await hub.client.get("/services", headers=key)).json()["items"]]
        requests = {r["service"] for r in (await hub.client.get("/requests", headers=key)).json()["items"]}

        assert (statuses, listed, requests) == (
            {"call": [202, 403], "claim": [200, 403], "reply": [204, 403]}, ["mine.a", "mine.b"], {"mine.a", "mine.b"},
        )  # fmt: skip


async def test_a_reply_reaches_subscribers_of_its_topic(running_hub: RunHub, receiver: Any) -> None:
    """ZU-09: the event is written with the reply."""
    async with running_hub(ALL_ROLES, egress_allow_cidrs="127.0.0.1/32") as hub:
        await hub.subscribe("hookwire.service.echo.reply", receiver.callback)
        request_id = await ask(hub)
        await work(hub, content_type="text/plain")
        [delivered] = await receiver.wait_for(1)

        assert (delivered.body, delivered.headers["content-type"], delivered.headers["request-id"]) == (
            b"done", "text/plain", request_id,
        )  # fmt: skip


async def test_the_metrics_count_calls_replies_and_what_was_reaped(running_hub: RunHub) -> None:
    async with running_hub() as hub:
        await ask(hub)
        await work(hub)
        await call(hub, service="late", hookwire_expiry_seconds="1", prefer="wait=20")
        lines = (await hub.client.get("/metrics")).text.splitlines()
        found = {line for line in lines if line.startswith("hookwire_service_") and "_created" not in line}

        assert {
            'hookwire_service_calls_total{answer="pending"} 1.0',
            'hookwire_service_replies_total{outcome="stored"} 1.0',
            'hookwire_service_requests_reaped_total{outcome="expired"} 1.0',
            'hookwire_service_calls_total{answer="request-expired"} 1.0',
        } <= found  # fmt: skip


async def rows_until(hub: RunningHub, statement: str) -> list[Any]:
    return await until(lambda: hub.sql(statement))
