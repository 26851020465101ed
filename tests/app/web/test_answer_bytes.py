"""Answers with users' contents are bounded in bytes; what does not fit comes with the next call (GS-03)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import asyncpg
import httpx
import pytest

from tests.app.conftest import RunHub, RunningHub

_ITEMS = 24
_ITEM = "repeat('x', 1000000)"  # it compresses well, so its stored size says nothing
_JSON = f"jsonb_build_object('blob', {_ITEM})"
_ANSWER_BYTES_MAX = 10_000_000
_EACH = f"FROM generate_series(1, {_ITEMS}) AS n"
_MOVED = "id, queue, created_at, priority, headers, payload"
_MESSAGE = f"n, 'q', now(), 0, '{{}}', {_ITEM}::bytea"


@dataclass(frozen=True)
class Route:
    """A way to get all items: how they are made, the request, and how an item is named."""

    fill: str
    path: str
    asked: dict[str, Any] | None = None
    name: Callable[[dict[str, Any]], Any] = lambda item: item["id"]
    leased: str | None = None
    """SQL that counts the items that somebody holds; None for a list."""


_ROUTES = {
    "claim of jobs": Route(
        f"SELECT hookwire.enqueue('k', {_JSON}) {_EACH}", "/jobs/claim", {"max": 100}, lambda item: item["job"]["id"],
        "SELECT count(*) FROM hookwire.jobs WHERE state = 'running'",
    ),
    "claim of jobs of all kinds": Route(
        f"SELECT hookwire.enqueue('k' || n % 3, {_JSON}) {_EACH}", "/jobs/claim", {"max": 100},
        lambda item: item["job"]["id"], "SELECT count(*) FROM hookwire.jobs WHERE state = 'running'",
    ),
    "claim of jobs with limits": Route(
        "SELECT hookwire.put_job_kind('k', '{\"running_max\": 30}', 'x'), hookwire.put_job_kind('l', "
        "'{\"key_rate_per_second\": 0.001, \"key_burst\": 30}', 'x');"
        f"SELECT hookwire.enqueue(CASE n % 2 WHEN 0 THEN 'k' ELSE 'l' END, {_JSON}, key => 'a') {_EACH}",
        "/jobs/claim", {"max": 100}, lambda item: item["job"]["id"],
        "SELECT count(*) FROM hookwire.jobs WHERE state = 'running'",
    ),
    "list of jobs": Route(f"SELECT hookwire.enqueue('k', {_JSON}) {_EACH}", "/jobs?limit=100"),
    "list of ended jobs": Route(
        f"SELECT hookwire.enqueue('k') {_EACH};"
        f"SELECT hookwire.complete_job(id, claim, {_JSON}) FROM hookwire.claim_jobs('{{k}}', 100, 'w')",
        "/jobs?limit=100&state=completed",
    ),
    "receive": Route(
        f"SELECT hookwire.submit('q', {_ITEM}) {_EACH}", "/queues/q/receive", {"max": 100},
        lambda item: item["message"]["id"], "SELECT count(*) FROM hookwire.messages WHERE claim IS NOT NULL",
    ),
    "receive with a filter": Route(
        f"SELECT hookwire.submit('q', {_ITEM}, type => 't') {_EACH}", "/queues/q/receive",
        {"max": 100, "filter": {"type": "t"}}, lambda item: item["message"]["id"],
        "SELECT count(*) FROM hookwire.messages WHERE claim IS NOT NULL",
    ),
    "browse": Route(f"SELECT hookwire.submit('q', {_ITEM}) {_EACH}", "/queues/q/messages?limit=100"),
    "dead messages": Route(
        f"INSERT INTO hookwire.dead_messages ({_MOVED}, died_at, deliveries, reason)"
        f" SELECT {_MESSAGE}, now(), 1, 'r' {_EACH}",
        "/queues/q/dead?limit=100",
    ),
    "archive": Route(
        f"INSERT INTO hookwire.message_archive ({_MOVED}, claimed_at, accepted_at, deliveries)"
        f" SELECT {_MESSAGE}, now(), now(), 1 {_EACH}",
        "/queues/q/archive?limit=100",
    ),
    "claim of requests": Route(
        f"SELECT hookwire.request('s', {_ITEM}) {_EACH}", "/services/s/claim", {"max": 100},
        lambda item: item["request"]["id"], "SELECT count(*) FROM hookwire.requests WHERE state = 'leased'",
    ),
    "schedules": Route(
        "INSERT INTO hookwire.job_schedules (name, cron, next_at, job)"
        f" SELECT 's' || n, '* * * * *', 'infinity', jsonb_build_object('kind', 'k', 'args', {_JSON}) {_EACH}",
        "/job-schedules", name=lambda item: item["name"],
    ),
    "kinds of jobs": Route(
        "INSERT INTO hookwire.job_kinds (kind, machine_rule)"
        f" SELECT 'k' || n, {_JSON} FROM generate_series(2, {_ITEMS}) AS n",
        "/job-kinds", name=lambda item: item["kind"],  # one more kind is `*`
    ),
    "subscriptions": Route(
        "INSERT INTO hookwire.subscriptions (public_id, tenant, protocol, topic, topic_regex, callback, state, filter)"
        f" SELECT 'sub_' || n, 'default', 'pull', 't', '^t$', '', 'active', {_JSON} {_EACH}",
        "/subscriptions?limit=100",
    ),
    "tasks": Route(f"SELECT hookwire.enqueue_task('k', {_JSON}, is_unique => false) {_EACH}", "/tasks?limit=100"),
    "dead tasks": Route(
        "INSERT INTO hookwire.dead_tasks (id, kind, description, reason, attempts, created_at)"
        f" SELECT n::text, 'k', {_ITEM}, 'r', 1, now() {_EACH}",
        "/tasks/dead?limit=100",
    ),
}  # fmt: skip


async def _fill(hub: RunningHub, statements: str) -> None:
    connection = await asyncpg.connect(hub.database_url)
    try:
        await connection.execute(statements)
    finally:
        await connection.close()


async def _ask(hub: RunningHub, path: str, asked: dict[str, Any] | None) -> httpx.Response:
    answer = await (hub.client.get(path) if asked is None else hub.client.post(path, json=asked))
    assert answer.status_code == 200, answer.text[:500]
    return answer


async def _drained(hub: RunningHub, route: Route) -> list[httpx.Response]:
    """All answers: a list by its links, a claim until it is empty."""
    answers = [await _ask(hub, route.path, route.asked)]
    while link := answers[-1].links.get("next", {}).get("url") if route.asked is None else route.path:
        answers.append(await _ask(hub, link, route.asked))
        if not answers[-1].json()["items"]:
            break
    return answers


@pytest.mark.parametrize("name", _ROUTES)
async def test_large_items_come_in_several_answers_and_none_is_lost(running_hub: RunHub, name: str) -> None:
    """GS-03: no answer has more than some 8 MB; each item comes once."""
    route = _ROUTES[name]
    async with running_hub() as hub:
        await _fill(hub, route.fill)
        answers = await _drained(hub, route)
    largest = max(len(answer.content) for answer in answers)
    names = [route.name(item) for answer in answers for item in answer.json()["items"]]

    assert largest < _ANSWER_BYTES_MAX, f"an answer has {largest:,} bytes"
    assert (len(names), len(set(names))) == (_ITEMS, _ITEMS)


@pytest.mark.parametrize("name", [name for name, route in _ROUTES.items() if route.leased])
async def test_what_does_not_fit_is_not_leased(running_hub: RunHub, name: str) -> None:
    """GS-03: a claim holds exactly the items of its answer."""
    route = _ROUTES[name]
    async with running_hub() as hub:
        await _fill(hub, route.fill)
        found = (await _ask(hub, route.path, route.asked)).json()["items"]
        [(held,)] = await hub.sql(str(route.leased))

    assert 0 < len(found) == held < _ITEMS


async def test_a_job_that_does_not_fit_takes_no_token_of_its_key(running_hub: RunHub) -> None:
    """GS-03: the rate of a key counts only jobs that were claimed."""
    route = _ROUTES["claim of jobs with limits"]
    async with running_hub() as hub:
        await _fill(hub, route.fill)
        found = (await _ask(hub, route.path, {"max": 100, "kinds": ["l"]})).json()["items"]
        [(tokens,)] = await hub.sql("SELECT round(30 - tokens)::integer FROM hookwire.job_rates WHERE kind = 'l'")

    assert 0 < len(found) == tokens < _ITEMS / 2


def _rabbithub(topic: str, details: str) -> str:
    return f"""
        INSERT INTO hookwire.rabbithub_resources (tenant, vhost, kind, name, exchange_type)
        VALUES ('default', '/', 'x', 'e', 'fanout');
        INSERT INTO hookwire.subscriptions
            (public_id, tenant, protocol, topic, topic_regex, callback, state, lease_until)
        SELECT 'sub_' || n, 'default', 'rabbithub', 't', '^t$', 'https://a.example/' || n, 'active', now() + '1 day'
        {_EACH};
        INSERT INTO hookwire.rabbithub_subscriptions
            (subscription_id, resource_id, lease_seconds, error_count, hub_topic, details)
        SELECT s.id, q.id, 60, 1, {topic}, {details}
        FROM hookwire.subscriptions s JOIN hookwire.rabbithub_resources q ON q.name = 'e'
    """


@pytest.mark.parametrize(
    ("name", "path", "texts"),
    [
        ("subscriptions", "/rabbithub/subscriptions?hub.expires=9", (_ITEM, "'{}'")),
        ("subscriptions", "/rabbithub/subscriptions", ("''", f"jsonb_build_object('contact', {_JSON})")),
        ("errors", "/rabbithub/subscriptions/errors", (_ITEM, "'{}'")),
    ],
    ids=["bindings", "contacts", "errors"],
)
async def test_lists_of_rabbithub_come_in_several_answers_and_none_is_lost(
    running_hub: RunHub, name: str, path: str, texts: tuple[str, str]
) -> None:
    """GS-03: a contact of an older version, and a binding, may have any length."""
    sizes, found = [], []
    async with running_hub() as hub:
        await _fill(hub, _rabbithub(*texts))
        link: str | None = path
        while link:
            answer = await _ask(hub, link, None)
            sizes.append(len(answer.content))
            found += answer.json()[name]
            link = answer.links.get("next", {}).get("url")

    assert max(sizes) < _ANSWER_BYTES_MAX
    assert [one["callback"] for one in found] == [f"https://a.example/{n}" for n in range(1, _ITEMS + 1)]
    assert {len(text) for one in found for text in one.get("contact", {}).values()} <= {1_000}


async def test_copies_come_in_several_answers_and_none_is_lost(running_hub: RunHub) -> None:
    """GS-03: a consumer of copies reads on behind what it accepted; a filter leaves out no large copy."""
    seen = []
    async with running_hub() as hub:
        await hub.client.put("/queues/q", json={"moves": False, "copies": True})
        await hub.client.put("/queues/q/consumers/c", json={})
        await _fill(hub, f"SELECT hookwire.submit('q', {_ITEM}, type => 't' || n % 2) {_EACH}")
        while True:
            answer = await _ask(hub, "/queues/q/receive", {"consumer": "c", "max": 100, "filter": {"type": "t1"}})
            if not (items := answer.json()["items"]):
                break
            seen.append(len(answer.content))
            await hub.client.post("/queues/q/accept", json={"receipts": [item["receipt"] for item in items]})

    assert max(seen) < _ANSWER_BYTES_MAX
    assert sum(size // 1_000_000 for size in seen) == _ITEMS // 2


async def test_a_second_pull_subscription_gets_cached_events_within_the_same_bytes(running_hub: RunHub) -> None:
    """GS-03: events that this process has read before count as others do."""
    sizes = []
    async with running_hub(roles=("api", "relay", "deliver")) as hub:
        made = [(await hub.client.post("/subscriptions/pull", json={"topic": "a"})).json()["id"] for _ in range(2)]
        for _ in range(_ITEMS):
            await hub.publish("a", b"x" * 1_000_000)
        for subscription in made:
            found = 0
            while found < _ITEMS:
                asked = {"max": 100, "lease_seconds": 3600, "wait_seconds": 20}
                answer = await _ask(hub, f"/subscriptions/{subscription}/dequeue", asked)
                found += len(answer.json()["items"])
                sizes.append(len(answer.content))

    assert max(sizes) < _ANSWER_BYTES_MAX


async def test_many_small_items_come_in_one_answer(running_hub: RunHub) -> None:
    """GS-03: the bound costs small items nothing."""
    async with running_hub() as hub:
        await _fill(hub, "SELECT hookwire.enqueue('k', '{\"n\": 1}') FROM generate_series(1, 300)")
        listed = await _ask(hub, "/jobs?limit=300", None)
        claimed = await _ask(hub, "/jobs/claim", {"max": 300})

    assert [len(answer.json()["items"]) for answer in (listed, claimed)] == [300, 300]
    assert "next" not in listed.links
