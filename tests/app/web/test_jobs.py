"""Jobs over HTTP: workers, people, kinds, schedules, keys (JB-40..JB-57)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.app.conftest import RunHub, RunningHub, opened
from tests.app.web.test_authentication import authorized, bearer
from tests.waiting import until

WAIT_SECONDS = 60.0


async def post(hub: RunningHub, path: str, by: str = "ada", **body: Any) -> tuple[int, Any]:
    answer = await hub.client.post(f"/jobs{path}", json=body, headers={"hookwire-actor": by})
    return answer.status_code, answer.json() if answer.content else None


async def enqueue(hub: RunningHub, kind: str = "k", **body: Any) -> str:
    status, made = await post(hub, "", kind=kind, **body)
    assert status in (200, 201), made
    return str(made["id"])


async def claim_one(hub: RunningHub, *kinds: str, **body: Any) -> dict[str, Any]:
    status, found = await post(hub, "/claim", kinds=list(kinds or ("k",)), **body)
    assert (status, len(found["items"])) == (200, 1), found
    item: dict[str, Any] = found["items"][0]
    return item


async def settle(hub: RunningHub, verb: str, item: dict[str, Any], **body: Any) -> tuple[int, Any]:
    return await post(hub, f"/{item['job']['id']}/{verb}", receipt=item["receipt"], **body)


async def show(hub: RunningHub, job: str, *fields: str) -> tuple[Any, ...]:
    found = (await hub.client.get(f"/jobs/{job}")).json()
    return tuple(found[field] for field in fields)


async def test_a_worker_claims_completes_and_the_requester_waits_for_the_result(running_hub: RunHub) -> None:
    """JB-46, JB-52: with an event and a follow-up job in the same commit; the same `uniq` answers 200."""
    async with running_hub() as hub:
        waiting = asyncio.create_task(post(hub, "/claim", kinds=["k"], wait_seconds=30))
        job = await enqueue(hub, args={"n": 1}, uniq="u")
        merged = await post(hub, "", kind="k", uniq="u")
        async with asyncio.timeout(WAIT_SECONDS):
            [item] = (await waiting)[1]["items"]
        result = asyncio.create_task(hub.client.get(f"/jobs/{job}?wait_seconds=30"))
        extra = {"events": [{"topic": "done", "payload": {"n": 1}}], "jobs": [{"kind": "next"}]}
        done = await settle(hub, "complete", item, result={"sum": 2}, **extra)
        again = await settle(hub, "complete", item)
        async with asyncio.timeout(WAIT_SECONDS):
            ended = (await result).json()
        follow_up = await claim_one(hub, "next")
        event = (await hub.client.get("/topics/done")).json()

    assert (merged[0], merged[1]["id"], merged[1]["outcome"]) == (200, job, "merged")
    assert (item["job"]["args"], done, again[0], again[1]["title"]) == ({"n": 1}, (204, None), 409, "The claim is over")
    assert (ended["state"], ended["result"], follow_up["job"]["kind"], event) == (
        "completed",
        {"sum": 2},
        "next",
        {"n": 1},
    )


async def test_each_verb_of_a_worker_answers_with_its_documented_status(running_hub: RunHub) -> None:
    """JB-48, JB-50, JB-55, JB-74, JB-75."""
    async with running_hub() as hub:
        job = await enqueue(hub)
        item = await claim_one(hub)
        seen = [await settle(hub, "progress", item, done=1, total=4, note="page 1"), await settle(hub, "release", item)]
        item = await claim_one(hub)
        seen.append(await settle(hub, "snooze", item, seconds=3600, token="token-of-16-bytes"))
        seen.append(await post(hub, "/resume", token="token-of-16-bytes", answer={"paid": 1}))
        item = await claim_one(hub)
        extended = await settle(hub, "extend", item, lease_seconds=3600)
        await post(hub, f"/{job}/cancel")
        told = await settle(hub, "progress", item, done=2)
        failed = await settle(hub, "fail", item, error="stopped")

    assert seen == [(200, {"is_cancelled": False}), (204, None), (204, None),
                    (200, {"id": job, "state": "available", "outcome": None})]  # fmt: skip
    assert (item["attempts"], item["job"]["resumed"], extended[1]["is_cancelled"]) == (1, {"paid": 1}, False)
    assert extended[1]["leased_until"] == item["job"]["run_until"]
    assert (told[1], failed[1]["state"]) == ({"is_cancelled": True}, "cancelled")


async def test_an_office_assigns_delays_reviews_and_switches_to_machines(running_hub: RunHub) -> None:
    """JB-40..JB-45: as a new user would; the trail says who did what."""
    async with running_hub() as hub:
        await hub.client.put(
            "/job-kinds/k", json={"automation": "manual", "needs_review": True, "reviewer_differs": True}
        )
        job = await enqueue(hub, args={"invoice": 1})
        nothing = await post(hub, "/claim", kinds=["k"])
        pool = (await hub.client.get("/jobs?pool=true")).json()["items"]
        taken = await post(hub, f"/{job}/assign", by="ada")
        late = await post(hub, f"/{job}/assign", by="bob")
        mine = (await hub.client.get("/jobs?assignee=me", headers={"hookwire-actor": "ada"})).json()["items"]
        await post(hub, f"/{job}/delay", by="ada", due_at="2001-01-01T00:00:00Z", reason="on holiday")

        async def holds() -> object:
            return await show(hub, job, "state", "assignee") == ("assigned", "ada")

        await until(holds)
        await post(hub, f"/{job}/finish", by="ada", result={"ok": True})
        own = await post(hub, f"/{job}/approve", by="ada")
        await post(hub, f"/{job}/send-back", by="bob", reason="one page is missing")
        await post(hub, f"/{job}/finish", by="ada", result={"ok": True, "pages": 2})
        approved = await post(hub, f"/{job}/approve", by="bob")
        other = await enqueue(hub, args={"invoice": 2})
        await hub.client.put("/job-kinds/k", json={"automation": "assisted"})
        item = await claim_one(hub)
        await settle(hub, "complete", item, result={"draft": True})
        trail = [(act["actor"], act["verb"]) for act in (await show(hub, job, "trail"))[0]]

        assert (nothing[1]["items"], [found["id"] for found in pool], taken[1]["state"]) == ([], [job], "assigned")
        assert (late[0], "assigned to ada" in late[1]["detail"], [found["id"] for found in mine]) == (409, True, [job])
        assert (own[0], approved[1]["state"], await show(hub, other, "state")) == (409, "completed", ("review",))
        assert trail == [("ada", "assign"), ("ada", "delay"), ("ada", "finish"), ("bob", "send-back"),
                         ("ada", "finish"), ("bob", "approve")]  # fmt: skip


async def test_behind_a_proxy_a_person_has_the_name_in_the_header_of_the_setting(running_hub: RunHub) -> None:
    """JB-40: another header does not count."""
    async with running_hub(access="proxy", actor_header="X-Forwarded-User") as hub:
        hub.client.headers["X-Forwarded-User"] = "ada"
        await hub.client.put("/job-kinds/k", json={"automation": "manual"})
        job = await enqueue(hub)
        await post(hub, f"/{job}/assign", by="mallory")

        assert await show(hub, job, "assignee") == ("ada",)


async def test_a_key_is_a_person_and_its_scopes_and_kinds_hold(running_hub: RunHub) -> None:
    """A key with `work` acts on its own jobs and the pool, `operate` on others; contents need `payloads`."""
    async with running_hub(access="keys") as hub:
        admin = authorized(await bearer(hub, "admin"))
        asked = {"name": "ada", "scopes": ["work", "read", "enqueue"], "kinds": ["mail.*"]}
        ada = authorized((await hub.client.post("/keys", json=asked, headers=admin)).json()["key"])

        async def ask(path: str, key: dict[str, str], **body: Any) -> Any:
            return await hub.client.post(f"/jobs{path}", json=body, headers=key)

        made = (await ask("", ada, kind="mail.send", args={"secret": 1})).json()["id"]
        other = (await ask("", admin, kind="other")).json()["id"]
        statuses = [
            (await ask("", ada, kind="other")).status_code,
            (await ask("/claim", ada, kinds=["other"])).status_code,
            (await ask("/claim", ada)).status_code,
            (await ask(f"/{other}/assign", ada)).status_code,
            (await ask(f"/{made}/assign", ada, assignee="bob")).status_code,
            (await ask(f"/{made}/assign", ada)).status_code,
            (await ask(f"/{made}/cancel", ada)).status_code,
        ]
        listed = (await hub.client.get("/jobs", headers=ada)).json()["items"]
        await ask(f"/{made}/unassign", admin)
        await ask(f"/{made}/assign", admin, assignee="bob")
        foreign = (await ask(f"/{made}/finish", ada)).status_code

    assert statuses == [403, 403, 403, 404, 403, 200, 403]
    assert [(job["id"], job["args"], job["assignee"]) for job in listed] == [(made, None, "ada")]
    assert foreign == 403


async def test_a_receipt_of_a_job_that_is_gone_is_stale_for_a_key_too(running_hub: RunHub) -> None:
    """A worker goes on after a stale receipt, but not after an unknown job."""
    async with running_hub(access="keys") as hub:
        admin = authorized(await bearer(hub, "admin"))

        async def ask(path: str, **body: Any) -> Any:
            return await hub.client.post(f"/jobs{path}", json=body, headers=admin)

        await hub.client.put("/job-kinds/k", json={"retention_days": 0}, headers=admin)
        job = (await ask("", kind="k")).json()["id"]
        [held] = (await ask("/claim")).json()["items"]
        statuses = [(await ask(f"/{job}/complete", receipt=held["receipt"])).status_code for _ in range(2)]

    assert statuses == [204, 409]


async def test_a_key_enqueues_no_follow_up_of_another_kind(running_hub: RunHub) -> None:
    """EY-02: neither by the callbacks of a job nor by those of a job that a result brings along."""
    async with running_hub(access="keys") as hub:
        admin = authorized(await bearer(hub, "admin"))
        asked = {"name": "ada", "scopes": ["work", "enqueue"], "kinds": ["mail.*"]}
        ada = authorized((await hub.client.post("/keys", json=asked, headers=admin)).json()["key"])

        async def ask(path: str, **body: Any) -> Any:
            return await hub.client.post(f"/jobs{path}", json=body, headers=ada)

        refused = [
            (await ask("", kind="mail.send", callbacks={name: "other"})).status_code
            for name in ("on_status", "on_complete", "on_retry", "on_fail")
        ]
        made = await ask("", kind="mail.send", callbacks={"on_complete": "mail.sent"})
        [item] = (await ask("/claim", kinds=["mail.send"])).json()["items"]
        follow_up = {"kind": "mail.next", "callbacks": {"on_fail": "other"}}
        late = await ask(f"/{item['job']['id']}/complete", receipt=item["receipt"], jobs=[follow_up])

    assert (refused, made.status_code, late.status_code) == ([403] * 4, 201, 403)


async def test_a_schedule_enqueues_and_a_paused_kind_waits(running_hub: RunHub, database_url: str) -> None:
    """JB-73, JB-77: the maintainer of the hub fires it."""
    async with running_hub() as hub, opened(database_url) as (_, sql):
        wrong = await hub.client.put("/job-schedules/p", json={"cron": "* * *", "job": {"kind": "k"}})
        made = await hub.client.put(
            "/job-schedules/p", json={"cron": "0 3 * * *", "job": {"kind": "k", "args": {"a": 1}}}
        )
        await hub.client.post("/job-kinds/k/pause", json={"reason": "printer"})
        await sql.execute("UPDATE hookwire.job_schedules SET next_at = now()")

        async def holds() -> object:
            return (await hub.client.get("/jobs?kind=k")).json()["items"]

        await until(holds)
        paused = await post(hub, "/claim", kinds=["k"])
        await hub.client.post("/job-kinds/k/resume", json={})
        item = await claim_one(hub)
        removed = [(await hub.client.delete("/job-schedules/p")).status_code for _ in range(2)]
        counts = (await hub.client.get("/jobs/statistics")).json()["live"]

    assert (wrong.status_code, made.json()["job"], paused[1]["items"], item["job"]["args"]) == (
        400, {"kind": "k", "args": {"a": 1}}, [], {"a": 1},
    )  # fmt: skip
    assert (removed, [(count["kind"], count["state"], count["jobs"]) for count in counts]) == (
        [204, 404],
        [("k", "running", 1)],
    )


async def test_a_schedule_is_refused_as_its_job_would_be(running_hub: RunHub) -> None:
    """Otherwise its first tick would be refused."""
    jobs: list[dict[str, Any]] = [
        {"due_local": "2031-01-01T00:00:00", "due_zone": "Mars/Olympus"}, {"queue": "bad queue!"},
        {"callbacks": {"on_fail": "no good"}}, {"callbacks": {"on_fail": "unknown"}}, {},
    ]  # fmt: skip
    async with running_hub() as hub:
        await hub.client.put("/job-kinds/k", json={})
    async with running_hub(kinds_auto_create=False) as hub:
        answers = [
            await hub.client.put("/job-schedules/p", json={"cron": "0 3 * * *", "job": {"kind": "k", **job}})
            for job in jobs
        ]
        status, _ = await post(hub, "", kind="k", callbacks={"on_fail": "unknown"})

    assert ([answer.status_code for answer in answers], status) == ([400, 400, 400, 404, 200], 404)


async def test_a_date_that_no_client_can_read_is_refused(running_hub: RunHub) -> None:
    """Otherwise no list of jobs could be read while the job lives."""
    async with running_hub() as hub:
        answers = [
            await post(hub, "", kind="k", due_at="9999-12-31T23:59:59-12:00"),
            await post(hub, "", kind="k", due_at="9999-12-31T23:59:59Z"),
            await post(hub, "", kind="k", due_local="9999-12-31T23:59:59", due_zone="Pacific/Honolulu"),
            await post(hub, "", kind="k", due_at="2099-12-31T23:59:59-12:00"),
        ]
        listed = await hub.client.get("/jobs?kind=k")

    assert [status for status, _ in answers] == [400, 400, 400, 201]
    assert (listed.status_code, listed.json()["items"][0]["due_at"]) == (200, "2100-01-01T11:59:59Z")


async def test_bad_input_is_a_clear_refusal(running_hub: RunHub) -> None:
    async with running_hub() as hub:
        job = await enqueue(hub)
        answers = [
            await post(hub, ""), await post(hub, "", kind="no good"), await post(hub, "", kind="k", colour=1),
            await post(hub, "", kind="k", due_local="2031-01-01T00:00:00", due_zone="Mars/Olympus"),
            await post(hub, f"/{job}/complete", receipt="nonsense"),
            await post(hub, "/7b0b1f0c-6f0e-4a53-9a0c-6b1f0f2a9d11/assign"), await post(hub, f"/{job}/approve"),
            await post(hub, f"/{job}/delay"), await post(hub, "", kind="k", args={"x": "y" * 1_100_000}),
        ]  # fmt: skip

    assert [status for status, _ in answers] == [400, 400, 400, 400, 409, 404, 409, 400, 413]
    assert json.dumps(answers).count("/problems/") == len(answers)


REPORTS = {
    "a NUL": (r'"a\u0000b"', "a\ufffdb"),
    "half a character": (r'["\ud800"]', r'["\ud800"]'),
    "NaN": ("[NaN]", "[NaN]"),
    "two members of one name": ('{"a": 1, "a": 2}', '{"a": 1, "a": 2}'),
    "a number of 2,000 digits": ("1" * 2_000, "1" * 2_000),
    "100 levels": ("[" * 100 + "]" * 100, "[" * 100 + "]" * 100),
    "100,000 values": (f"[{'[], ' * 100_000}[]]", f"[{'[], ' * 100_000}"[:65_536]),
    "1.5 MB": (json.dumps("x" * 1_500_000), "x" * 65_536),
}


async def test_work_that_is_reported_done_is_completed_whatever_its_result_is(running_hub: RunHub) -> None:
    """GB-06: what cannot be stored is kept as text, with a note. What else is wrong in the report is still refused."""
    kept, statuses = {}, set()
    async with running_hub() as hub:
        for name, (result, _) in REPORTS.items():
            job = await enqueue(hub)
            item = await claim_one(hub)
            for wrong in (', "events": [NaN]', ""):
                body = f'{{"receipt": "{item["receipt"]}", "result": {result}{wrong}}}'
                headers = {"content-type": "application/json"}
                answer = await hub.client.post(f"/jobs/{job}/complete", content=body, headers=headers)
                statuses.add((bool(wrong), answer.status_code))
            state, stored, trail = await show(hub, job, "state", "result", "trail")
            kept[name] = (state, stored, [act["verb"] for act in trail])

    assert kept == {name: ("completed", result, ["result"]) for name, (_, result) in REPORTS.items()}
    assert statuses == {(True, 400), (False, 204)}
