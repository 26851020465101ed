"""Test the scope that each route needs, and the answers to a key without `payloads` (docs/how-to/api-keys.md)."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.routing import Match

from app.web.api.contract import openapi_document
from app.web.application import build_api
from app.web.problem import Problems
from app.web.route_needs import RouteNeeds
from app.web.scopes import Need
from hub.keys import SCOPES, Grant
from tests.app.conftest import ALL_ROLES, RunHub
from tests.app.web.test_authentication import authorized, bearer

_TABLE = {
    "no key": [
        "GET /healthz", "GET /readyz", "GET /handshakes/{token}", "POST /handshakes/{token}", "POST /in/{source}",
        "GET /hub/callback/{token}", "POST /hub/callback/{token}",
    ],
    "publish": [
        "POST /topics/{topic}/events", "POST /topics/{topic}/batch", "POST /hub/content",
        "POST /rabbithub/endpoint/{kind}/{name}",
    ],
    "subscribe": [
        "POST /subscriptions", "PATCH /subscriptions/{subscription_id}", "DELETE /subscriptions/{subscription_id}",
        "POST /subscriptions/{subscription_id}/keys", "DELETE /subscriptions/{subscription_id}/keys/{number}",
        "POST /subscriptions/{subscription_id}/handshake", "POST /subscriptions/{subscription_id}/denial",
        "POST /subscriptions/pull", "POST /subscriptions/{subscription_id}/dequeue",
        "POST /subscriptions/{subscription_id}/replay", "POST /subscriptions/{subscription_id}/test",
        "POST /subscriptions/{subscription_id}/ack", "POST /subscriptions/{subscription_id}/nack",
        "POST /subscriptions/{subscription_id}/extend", "POST /filters/test", "POST /hub",
        "POST /rabbithub/subscribe/{kind}/{name}",
    ],
    "subscribe or read": [
        "GET /subscriptions", "GET /subscriptions/{subscription_id}", "GET /subscriptions/{subscription_id}/keys",
        "GET /subscriptions/{subscription_id}/stats",
        "GET /hub",
    ],
    "read": [
        "GET /events", "GET /events/{event_id}", "GET /events/{event_id}/timeline",
        "GET /deliveries", "GET /deliveries/{delivery_id}/attempts",
        "GET /undelivered", "GET /topics", "GET /topics/{topic}/settings", "GET /topics/{topic}/stats",
        "GET /topics/{topic}/schema", "GET /topics/{topic}/schemas",
        "GET /foreign-topics",
        "GET /hub/pairs", "GET /upstreams",
        "GET /in/{source}",
        "GET /sinks", "GET /sinks/{sink}", "GET /sinks/{sink}/forecast",
        "GET /sources", "GET /sources/{source}", "GET /sources/{source}/refusals", "GET /source-refusals",
        "GET /source-refusals/{refusal}",
        "GET /incidents", "GET /incidents/{incident}",
        "GET /keys", "GET /holds", "GET /holds/{hold}", "GET /dead-letters", "GET /dead-letters/{dead_letter}",
        "GET /replays", "GET /replays/{replay}", "GET /audit", "GET /metrics", "GET /status",
        "GET /rabbithub/endpoint/{kind}/{name}",
        "GET /rabbithub/subscriptions", "GET /rabbithub/subscriptions/errors",
        "GET /rabbithub/subscriptions/{kind}/{name}", "GET /queues", "GET /queues/{queue}",
        "GET /queues/{queue}/messages", "GET /queues/{queue}/dead", "GET /queues/{queue}/consumers",
        "GET /queues/{queue}/archive", "GET /tasks",
        "GET /jobs", "GET /jobs/{job_id}", "GET /job-kinds", "GET /job-kinds/{kind}/stats",
        "GET /task-kinds/{kind}/stats",
        "GET /queues/{queue}/stats", "GET /job-schedules", "GET /jobs/statistics",
        "GET /tasks/counts", "GET /tasks/dead", "GET /task-kinds", "GET /tasks/{task_id}", "GET /requests",
    ],
    "read and payloads": ["GET /topics/{topic}"],
    "operate": [
        "POST /sinks/{sink}/pause", "POST /sinks/{sink}/resume",
        "POST /in/{source}/test", "POST /sources/{source}/pause", "POST /sources/{source}/resume",
        "POST /sources/{source}/reset", "POST /sources/forget",
        "POST /source-refusals/{refusal}/retry", "POST /source-refusals/{refusal}/give-up",
        "POST /incidents/{incident}/probe", "POST /incidents/{incident}/recover",
        "POST /incidents/{incident}/acknowledge",
        "POST /incidents/{incident}/resolve",
        "POST /incidents/{incident}/ignore", "POST /incidents/{incident}/reopen",
        "POST /deliveries/{delivery_id}/retry", "POST /holds/{hold}/give-up",
        "POST /deliveries/{delivery_id}/give-up", "POST /holds/{hold}/retry",
        "POST /dead-letters/{dead_letter}/retry",
        "POST /dead-letters/{dead_letter}/purge", "POST /replays", "POST /replays/{replay}/pause",
        "POST /replays/{replay}/resume", "POST /replays/{replay}/cancel", "POST /queues/{queue}/pause",
        "POST /queues/{queue}/resume", "POST /queues/{queue}/dead/redrive", "POST /queues/{queue}/dead/purge",
        "POST /tasks/dead/redrive", "POST /tasks/dead/purge", "POST /tasks/{task_id}/cancel",
        "POST /services/{name}/disable", "POST /services/{name}/enable",
        "POST /jobs/{job_id}/cancel", "POST /jobs/{job_id}/retry", "POST /job-kinds/{kind}/pause",
        "POST /job-kinds/{kind}/resume",
    ],
    "call": ["POST /services/{name}", "GET /requests/{request_id}", "DELETE /requests/{request_id}"],
    "call or read": ["GET /services", "GET /services/{name}", "GET /services/{name}/stats"],
    "enqueue": ["POST /queues/{queue}/messages", "POST /jobs"],
    "work": [
        "POST /queues", "POST /queues/{queue}/receive", "POST /queues/{queue}/accept", "POST /queues/{queue}/reject",
        "POST /queues/{queue}/extend", "PUT /queues/{queue}/consumers/{consumer}",
        "DELETE /queues/{queue}/consumers/{consumer}", "POST /services/{name}/claim",
        "POST /requests/{request_id}/reply", "POST /jobs/claim", "POST /jobs/resume",
        "POST /jobs/{job_id}/complete", "POST /jobs/{job_id}/fail", "POST /jobs/{job_id}/snooze",
        "POST /jobs/{job_id}/release", "POST /jobs/{job_id}/progress", "POST /jobs/{job_id}/extend",
        "POST /jobs/{job_id}/assign", "POST /jobs/{job_id}/unassign", "POST /jobs/{job_id}/delay",
        "POST /jobs/{job_id}/finish", "POST /jobs/{job_id}/approve", "POST /jobs/{job_id}/send-back",
        "POST /jobs/{job_id}/decline",
    ],
    "admin": [
        "PUT /topics/{topic}/settings", "PUT /topics/{topic}/schema",
        "PUT /foreign-topics", "PUT /upstreams", "DELETE /upstreams", "POST /keys",
        "PUT /in/{source}", "DELETE /in/{source}",
        "DELETE /keys/{key_id}", "PUT /rabbithub/endpoint/{kind}/{name}", "DELETE /rabbithub/endpoint/{kind}/{name}",
        "DELETE /rabbithub/subscribe/{kind}/{name}", "POST /rabbithub/subscriptions", "PUT /queues/{queue}",
        "DELETE /queues/{queue}", "PUT /task-kinds/{kind}", "PUT /services/{name}",
        "PUT /job-kinds/{kind}", "PUT /job-schedules/{name}", "DELETE /job-schedules/{name}", "POST /erasures",
    ],
}  # fmt: skip


def test_every_route_of_the_contract_needs_what_the_table_says() -> None:
    """SE-04: a new route appears here, or this fails. The published document says the same."""
    found: dict[str, list[str]] = {}
    for path, operations in openapi_document(build_api(Problems("https://hub.example")))["paths"].items():
        for method, operation in operations.items():
            words = " or ".join(" and ".join(scopes) for scopes in operation.get("x-scopes", ()))
            found.setdefault(words or "no key", []).append(f"{method.upper()} {path}")

    assert {scope: sorted(routes) for scope, routes in found.items()} == {
        scope: sorted(routes) for scope, routes in _TABLE.items()
    }


_REQUESTS = {
    "HEAD /subscriptions": ("subscribe", "read"), "HEAD /topics/a": ("read",), "OPTIONS /subscriptions": ("admin",),
    "DELETE /queues/tmp.0a": ("work",), "DELETE /queues/mail": ("admin",), "PATCH /topics/a": ("admin",),
    "GET /": (), "GET /pair": (), "GET /console": SCOPES, "POST /console/sign-in": (),
    "GET /problems/busy": (), "GET /docs/swagger-ui.css": (),
    "GET /topics/a/events": ("publish",), "POST /topics/a/b/events": ("publish",), "PUT /hub": ("subscribe",),
    "GET /hub/callback/x": (), "GET /nothing": ("read",), "POST /nothing": ("admin",), "TRACE /hub": ("admin",),
    "POST /rabbithub/v/endpoint/x/e": ("publish",), "OPTIONS /rabbithub/endpoint/x/e": ("admin",),
    "GET /rabbithub/endpoint/x/e?hub.mode=subscribe&hub.verify_token=t": (),
    "GET /rabbithub/subscriptions?hub.mode=subscribe&hub.verify_token=t": ("read",),
}  # fmt: skip


def test_a_request_of_any_method_and_path_needs_something() -> None:
    """SE-04: default deny; pages, plain routes and methods that no route has."""
    needs = RouteNeeds(build_api(Problems()).routes)
    found = {}
    for request in _REQUESTS:
        method, _, url = request.partition(" ")
        path, _, query = url.partition("?")
        scope = {"type": "http", "method": method, "path": path, "query_string": query.encode()}
        found[request] = tuple(needs.of(scope).scopes)

    assert found == _REQUESTS


def test_a_request_is_judged_by_the_route_that_the_router_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """SE-04: routes overlap, such as /tasks/counts and /tasks/{task_id}; each gets the name of its own declaration."""
    routes: list[Any] = build_api(Problems()).routes
    for route in routes:
        monkeypatch.setattr(route.endpoint, "declared_need", Need((str(route.endpoint),)))
    needs, found = RouteNeeds(routes), []
    for path in [route.path.replace("{", "").replace("}", "") for route in routes]:
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            scope = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": []}
            taken = next((one for one in routes if one.matches(scope)[0] is Match.FULL), None)
            found.append((tuple(needs.of(scope).scopes), (str(taken.endpoint),) if taken else None))
    disagreeing = [(needed, taken) for needed, taken in found if taken is not None and needed != taken]
    assert (len(found) > 400, disagreeing) == (True, [])


@pytest.mark.parametrize("name", ["queue", "topic"])
def test_a_need_for_a_name_names_what_is_in_the_path(name: str) -> None:
    scope = {"type": "http", "method": "GET", "path": f"/{name}s/mail.out"}

    assert RouteNeeds(build_api(Problems()).routes).of(scope).name == "mail.out"


def test_a_route_without_a_declaration_ends_the_start() -> None:
    """SE-04: what a colleague forgets is found before the first request."""

    async def forgotten() -> None: ...

    api = build_api(Problems())
    api.get("/forgotten")(forgotten)

    with pytest.raises(RuntimeError, match=r"'/forgotten' declares no scope"):
        RouteNeeds(api.routes)


@pytest.mark.parametrize(
    ("patterns", "reached"),
    [
        ({}, "qks"),
        ({"topics": ("orders.#",)}, ""),
        ({"queues": ("mail.*",)}, "qks"),
        ({"topics": ("#",), "queues": ("mail.*",)}, "qks"),
        ({"queues": ("other",), "kinds": ("other",), "services": ("other",)}, ""),
        ({"topics": ("#",), "kinds": ("other",)}, "qs"),
    ],
    ids=str,
)
def test_a_key_reaches_what_its_patterns_say(patterns: dict[str, tuple[str, ...]], reached: str) -> None:
    """Null is all of them; a key that names only topics has no queue, kind or service."""
    grant = Grant("key", frozenset({"work"}), patterns.get("topics"), None, **{
        name: patterns.get(name) for name in ("queues", "kinds", "services")
    })  # fmt: skip
    found = {
        "q": grant.reaches_queue("mail.out"), "k": grant.reaches_kind("report"), "s": grant.reaches_service("echo"),
    }  # fmt: skip
    assert "".join(name for name, yes in found.items() if yes) == reached


async def test_a_key_without_payloads_sees_no_contents(running_hub: RunHub) -> None:
    async with running_hub(ALL_ROLES, access="keys", hub_access="keys") as hub:
        keys: dict[str, Any] = {
            "all": authorized(await bearer(hub, "admin")),
            "read": authorized(await bearer(hub, "read")),
            "both": authorized(await bearer(hub, "read", "payloads")),
        }
        made = (await hub.client.post("/topics/a/events", content=b"secret", headers=keys["all"])).json()
        await hub.client.post("/queues/q/messages", content=b"secret", headers=keys["all"])
        seen = {}
        for name in ("read", "both"):
            event = (await hub.client.get(f"/events/{made['id']}", headers=keys[name])).json()
            messages = (await hub.client.get("/queues/q/messages", headers=keys[name])).json()["items"]
            latest = (await hub.client.get("/topics/a", headers=keys[name])).status_code
            seen[name] = (event["payload"], messages[0]["payload"], latest)

        assert seen == {"read": (None, None, 403), "both": ("secret", "secret", 200)}


async def test_a_key_for_some_queues_reaches_no_others(running_hub: RunHub) -> None:
    async with running_hub(access="keys") as hub:
        admin = authorized(await bearer(hub, "admin"))
        for queue in ("mail.out", "other"):
            await hub.client.post(f"/queues/{queue}/messages", content=b"x", headers=admin)
        asked = {"name": "k", "scopes": ["enqueue", "work", "read"], "queues": ["mail.*"]}
        key = authorized((await hub.client.post("/keys", json=asked, headers=admin)).json()["key"])
        statuses = [
            (await hub.client.post(f"/queues/{queue}/{verb}", json={}, headers=key)).status_code
            for queue in ("mail.out", "other")
            for verb in ("messages", "receive")
        ]
        listed = [item["queue"] for item in (await hub.client.get("/queues", headers=key)).json()["items"]]
        temporary = await hub.client.post("/queues", json={}, headers=key)  # FS-20

        assert (statuses, listed, temporary.status_code) == ([201, 200, 403, 403], ["mail.out"], 403)


_DEAD = (
    "INSERT INTO hookwire.dead_tasks (id, kind, description, reason, attempts, created_at)"
    " SELECT k || '_dead', k, 'x', 'r', 1, now() FROM unnest('{mine,theirs}'::text[]) AS k"
)
_WAITING = (
    "INSERT INTO hookwire.task_rows (id, kind, description) SELECT k, k, 'x' FROM unnest('{mine,theirs}'::text[]) AS k"
)


@pytest.mark.parametrize("named", [{"kinds": ["mine"]}, {"topics": ["orders.#"], "kinds": ["mine"]}], ids=str)
async def test_a_key_for_some_kinds_reaches_no_tasks_of_others(running_hub: RunHub, named: dict[str, Any]) -> None:
    """FS-20: cancelled, redriven or purged by nobody else's key."""
    async with running_hub(access="keys") as hub:
        for statement in (_DEAD, _WAITING):
            await hub.sql(statement)
        asked = {"name": "k", "scopes": ["operate", "read", "admin"], **named}
        admin = authorized(await bearer(hub, "admin"))
        key = authorized((await hub.client.post("/keys", json=asked, headers=admin)).json()["key"])

        async def status(method: str, path: str, body: Any = None) -> int:
            return (await hub.client.request(method, path, json=body, headers=key)).status_code

        why = {"reason": "r"}
        found = [
            await status("GET", "/tasks/counts"), await status("PUT", "/task-kinds/*", {}),
            await status("PUT", "/task-kinds/theirs", {}), await status("PUT", "/task-kinds/mine", {}),
            await status("GET", "/tasks/theirs"),
            await status("POST", "/tasks/theirs/cancel", why), await status("POST", "/tasks/mine/cancel", why),
        ]  # fmt: skip
        purged = await hub.client.post("/tasks/dead/purge", json=why, headers=key)
        left = {kind for (kind,) in await hub.sql("SELECT kind FROM hookwire.dead_tasks")}

        assert found == [403, 403, 403, 200, 404, 404, 204]
        assert (len(purged.json()["numbers"]), left) == (1, {"theirs"})


async def test_a_key_for_some_kinds_changes_no_job_kinds_or_schedules_of_others(running_hub: RunHub) -> None:
    """And sees no arguments without the scope `payloads`."""
    async with running_hub(access="keys") as hub:
        admin = authorized(await bearer(hub, "admin"))
        asked = {"name": "k", "scopes": ["operate", "read", "admin"], "kinds": ["mail.*"]}
        key = authorized((await hub.client.post("/keys", json=asked, headers=admin)).json()["key"])
        reader = {**asked, "scopes": ["read"]}
        read = authorized((await hub.client.post("/keys", json=reader, headers=admin)).json()["key"])

        async def status(method: str, path: str, body: Any = None, by: dict[str, str] = key) -> int:
            return (await hub.client.request(method, path, json=body, headers=by)).status_code

        def schedule(kind: str, **more: Any) -> dict[str, Any]:
            return {"cron": "0 0 1 1 *", "job": {"kind": kind, "args": {"pin": 1}, **more}}

        for kind, name in (("mail.send", "mine"), ("pay", "theirs")):
            assert await status("PUT", f"/job-kinds/{kind}", {}, admin) == 200
            assert await status("PUT", f"/job-schedules/{name}", schedule(kind), admin) == 200
        found = {
            kind: [
                await status("PUT", f"/job-kinds/{kind}", {}),
                await status("POST", f"/job-kinds/{kind}/pause", {"reason": "r"}),
                await status("POST", f"/job-kinds/{kind}/resume", {"reason": "r"}),
                await status("PUT", f"/job-schedules/new.{kind}", schedule(kind)),
                await status("PUT", f"/job-schedules/{name}", schedule("mail.send")),
                await status("DELETE", f"/job-schedules/{name}"),
            ]
            for kind, name in (("mail.send", "mine"), ("pay", "theirs"))
        }  # fmt: skip
        follows = await status("PUT", "/job-schedules/x", schedule("mail.send", callbacks={"on_fail": "pay"}))
        every = await status("PUT", "/job-kinds/*", {"attempts_max": 1})
        kinds = (await hub.client.get("/job-kinds", headers=read)).json()["items"]
        schedules = (await hub.client.get("/job-schedules", headers=read)).json()["items"]

        assert found == {"mail.send": [200, 204, 204, 200, 200, 204], "pay": [403] * 6}
        assert (follows, every, {kind["kind"] for kind in kinds}) == (403, 400, {"*", "mail.send"})
        assert [(one["name"], one["job"]["args"]) for one in schedules] == [("new.mail.send", None)]


async def test_a_key_that_only_subscribes_changes_no_callback_of_a_worker(running_hub: RunHub) -> None:
    """It would get the work of others, and might answer it."""
    async with running_hub(access="keys") as hub:
        admin = authorized(await bearer(hub, "admin"))
        key = authorized(await bearer(hub, "subscribe"))
        own = {"kind": "pay", "callback": "http://127.0.0.1:9000/"}
        path = f"/subscriptions/{(await hub.client.post('/subscriptions', json=own, headers=admin)).json()['id']}"
        statuses = [
            (await hub.client.request(method, f"{path}{below}", json=body, headers=key)).status_code
            for method, below, body in (
                ("GET", "", None), ("PATCH", "", {"callback": "http://127.0.0.1:9001/"}), ("POST", "/keys", {}),
                ("DELETE", "/keys/1", None), ("POST", "/handshake", None), ("DELETE", "", None),
            )
        ]  # fmt: skip

        assert statuses == [200, 403, 403, 403, 403, 403]
