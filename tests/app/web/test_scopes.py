"""What each route needs of a key: the whole table, and what a key without `payloads` sees (DESIGN section 8)."""

from __future__ import annotations

from typing import Any

import pytest

from app.web.api.contract import openapi_document
from app.web.application import build_api
from app.web.problem import Problems
from app.web.scopes import need_of
from hub.keys import Grant
from tests.app.conftest import ALL_ROLES, RunHub
from tests.app.web.test_authentication import authorized, bearer

_OPEN = ("/healthz", "/readyz", "/handshakes/{token}", "/hub/callback/{token}")
_TABLE = {
    "publish": [
        "POST /topics/{topic}/events", "POST /hub/content", "POST /rabbithub/endpoint/{kind}/{name}",
    ],
    "subscribe": [
        "POST /subscriptions", "PATCH /subscriptions/{subscription_id}", "DELETE /subscriptions/{subscription_id}",
        "POST /subscriptions/{subscription_id}/keys", "DELETE /subscriptions/{subscription_id}/keys/{number}",
        "POST /subscriptions/{subscription_id}/handshake", "POST /subscriptions/{subscription_id}/denial",
        "POST /subscriptions/pull", "POST /subscriptions/{subscription_id}/dequeue",
        "POST /subscriptions/{subscription_id}/replay",
        "POST /subscriptions/{subscription_id}/ack", "POST /subscriptions/{subscription_id}/nack",
        "POST /subscriptions/{subscription_id}/extend", "POST /filters/test", "POST /hub",
        "POST /rabbithub/subscribe/{kind}/{name}",
    ],
    "subscribe or read": [
        "GET /subscriptions", "GET /subscriptions/{subscription_id}", "GET /subscriptions/{subscription_id}/keys",
        "GET /hub",
    ],
    "read": [
        "GET /events/{event_id}", "GET /deliveries", "GET /deliveries/{delivery_id}/attempts", "GET /undelivered",
        "GET /topics", "GET /topics/{topic}/settings", "GET /foreign-topics", "GET /hub/pairs", "GET /upstreams",
        "GET /keys", "GET /holds", "GET /holds/{hold}", "GET /dead-letters", "GET /dead-letters/{dead_letter}",
        "GET /replays", "GET /replays/{replay}", "GET /audit", "GET /metrics", "GET /rabbithub/endpoint/{kind}/{name}",
        "GET /rabbithub/subscriptions", "GET /rabbithub/subscriptions/errors",
        "GET /rabbithub/subscriptions/{kind}/{name}", "GET /queues", "GET /queues/{queue}",
        "GET /queues/{queue}/messages", "GET /queues/{queue}/dead", "GET /queues/{queue}/consumers", "GET /tasks",
        "GET /tasks/counts", "GET /tasks/dead", "GET /tasks/kinds", "GET /tasks/{task_id}",
    ],
    "read and payloads": ["GET /topics/{topic}"],
    "operate": [
        "POST /deliveries/{delivery_id}/try", "POST /deliveries/{delivery_id}/give-up", "POST /holds/{hold}/retry",
        "POST /holds/{hold}/skip", "POST /holds/{hold}/purge", "POST /dead-letters/{dead_letter}/retry",
        "POST /dead-letters/{dead_letter}/purge", "POST /replays", "POST /replays/{replay}/pause",
        "POST /replays/{replay}/resume", "POST /replays/{replay}/cancel", "POST /queues/{queue}/pause",
        "POST /queues/{queue}/resume", "POST /queues/{queue}/dead/redrive", "POST /queues/{queue}/dead/purge",
        "POST /tasks/dead/redrive", "POST /tasks/dead/purge", "POST /tasks/{task_id}/cancel",
    ],
    "enqueue": ["POST /queues/{queue}/messages"],
    "work": [
        "POST /queues", "POST /queues/{queue}/receive", "POST /queues/{queue}/accept", "POST /queues/{queue}/reject",
        "POST /queues/{queue}/extend", "PUT /queues/{queue}/consumers/{consumer}",
        "DELETE /queues/{queue}/consumers/{consumer}",
    ],
    "admin": [
        "PUT /topics/{topic}/settings", "PUT /foreign-topics", "PUT /upstreams", "DELETE /upstreams", "POST /keys",
        "DELETE /keys/{key_id}", "PUT /rabbithub/endpoint/{kind}/{name}", "DELETE /rabbithub/endpoint/{kind}/{name}",
        "DELETE /rabbithub/subscribe/{kind}/{name}", "POST /rabbithub/subscriptions", "PUT /queues/{queue}",
        "DELETE /queues/{queue}", "PUT /tasks/kinds/{kind}",
    ],
}  # fmt: skip


def test_every_route_of_the_contract_needs_what_the_table_says() -> None:
    """SE-04: a new route appears here, or this fails."""
    found: dict[str, list[str]] = {}
    for path, methods in openapi_document(build_api(Problems("https://hub.example")))["paths"].items():
        for method in methods:
            need = need_of(method.upper(), path)
            words = " or ".join(need.scopes) + (" and payloads" if need.payloads else "")
            if path not in _OPEN:
                found.setdefault(words, []).append(f"{method.upper()} {path}")

    assert {scope: sorted(routes) for scope, routes in found.items()} == {
        scope: sorted(routes) for scope, routes in _TABLE.items()
    }


def test_a_temporary_queue_is_removed_by_a_worker() -> None:
    assert need_of("DELETE", "/queues/tmp.0a").scopes == ("work",)


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

        assert (statuses, listed) == ([201, 200, 403, 403], ["mail.out"])


async def test_keys_that_could_read_contents_still_can_after_the_migration(database_url: str) -> None:
    """0042_scopes.sql; rehearsed on a row as it was before."""
    import asyncpg

    sql = await asyncpg.connect(database_url)
    constraint = await sql.fetchval(
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'api_keys_scopes_check'"
    )
    await sql.close()
    assert all(scope in constraint for scope in ("payloads", "operate", "enqueue", "work", "call"))
