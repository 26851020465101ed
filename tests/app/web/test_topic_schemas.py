"""/topics/{topic}/schema: the JSON Schema of a topic's events, by version (GP-13)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.app.cli.commands.test_services import hookwire, printed
from tests.app.conftest import RunHub, RunningHub
from tests.app.web.publishing.test_ingest import kind

ORDER = {"type": "object", "properties": {"b": {"type": "integer"}, "a": {"type": "string", "minLength": 1}}}
LATER = {"type": "object", "properties": {"b": {"type": "number"}}}
TITLED = {"title": "An order", "properties": {"b": {"type": "number"}}, "type": "object"}


def numbered(number: int) -> dict[str, Any]:
    """A schema with columns of its own."""
    return {"type": "object", "properties": {f"a{number}": True}}


async def test_a_schema_is_stored_by_version_and_keeps_the_order_of_its_properties(running_hub: RunHub) -> None:
    """A version never changes, and a schema that gives the columns of the newest makes no new one."""
    async with running_hub() as hub:
        await hub.client.put("/topics/a/settings", json={})
        answers = [await hub.client.put("/topics/a/schema", json={"schema": each}) for each in (ORDER, LATER, TITLED)]
        newest, first = [await hub.client.get(f"/topics/a/schema{query}") for query in ("", "?version=1")]

        assert [(one.status_code, one.headers["etag"], one.json()["version"]) for one in answers] == [
            (200, '"1"', 1), (200, '"2"', 2), (200, '"2"', 2),
        ]  # fmt: skip
        assert (newest.json(), newest.headers["etag"]) == (answers[1].json(), '"2"')
        assert first.json() == answers[0].json()
        assert list(first.json()["schema"]["properties"]) == ["b", "a"]
        assert first.json()["ignored"] == ["#/properties/a/minLength"]


async def test_the_versions_are_listed_page_by_page(shared_hub: RunHub, topic: str) -> None:
    async with shared_hub() as hub:
        await hub.client.put(f"/topics/{topic}/settings", json={})
        for number in range(3):
            await hub.client.put(f"/topics/{topic}/schema", json={"schema": numbered(number)})
        page = await hub.client.get(f"/topics/{topic}/schemas?limit=2")
        rest = await hub.client.get(page.links["next"]["url"])
        none = await hub.client.get(f"/topics/{topic}.b/schemas")

        assert [[one["version"] for one in each.json()["items"]] for each in (page, rest, none)] == [[3, 2], [1], []]
        assert (page.json()["next_cursor"] in page.headers["link"], rest.json()["next_cursor"]) == (True, None)


async def test_a_schema_that_has_changed_meanwhile_is_not_replaced(shared_hub: RunHub, topic: str) -> None:
    async with shared_hub() as hub:
        await hub.client.put(f"/topics/{topic}/settings", json={})
        made = await hub.client.put(f"/topics/{topic}/schema", json={"schema": ORDER})
        etag = {"If-Match": made.headers["etag"]}
        changed, stale = [
            await hub.client.put(f"/topics/{topic}/schema", json={"schema": each}, headers=etag)
            for each in (LATER, ORDER)
        ]

        assert (changed.status_code, kind(stale)) == (
            200, (412, "application/problem+json", "precondition-failed"),
        )  # fmt: skip


async def test_two_that_set_the_next_version_at_once_do_not_both_get_it(shared_hub: RunHub, topic: str) -> None:
    async with shared_hub() as hub:
        await hub.client.put(f"/topics/{topic}/settings", json={})
        bodies = [{"schema": numbered(number)} for number in range(8)]
        answers = await asyncio.gather(*(hub.client.put(f"/topics/{topic}/schema", json=body) for body in bodies))
        stored = [one.json()["version"] for one in answers if one.status_code == 200]
        listed = [one["version"] for one in (await hub.client.get(f"/topics/{topic}/schemas")).json()["items"]]

        assert sorted(stored) == sorted(listed) == [*range(1, len(stored) + 1)]
        assert {one.status_code for one in answers} <= {200, 412}


@pytest.mark.parametrize(
    ("topic", "body", "said"),
    [
        ("a", {"schema": {"type": "array"}}, (422, "invalid-schema")),
        ("a", {"schema": {"type": "object", "properties": {"a.b": {}}}}, (422, "invalid-schema")),
        ("a", {"schema": []}, (400, "invalid-parameter")),
        ("a", {}, (400, "missing-parameter")),
        ("a", {"schema": ORDER, "why": "x"}, (400, "invalid-parameter")),
        ("none", {"schema": ORDER}, (404, "unknown-topic")),
        ("a..b", {"schema": ORDER}, (422, "invalid-topic")),
    ],
    ids=str,
)
async def test_what_gives_no_columns_is_refused(
    kept_hub: RunningHub, topic: str, body: dict[str, Any], said: tuple[int, str]
) -> None:
    await kept_hub.client.put("/topics/a/settings", json={})
    answer = await kept_hub.client.put(f"/topics/{topic}/schema", json=body)

    assert (answer.status_code, kind(answer)[2]) == said


async def test_a_topic_has_a_bounded_number_of_versions(shared_hub: RunHub, topic: str) -> None:
    async with shared_hub() as hub:
        await hub.client.put(f"/topics/{topic}/settings", json={})
        await hub.sql(
            "INSERT INTO hookwire.topic_schemas (tenant, topic, version, schema) VALUES ('default', $1, 1000, '{}')",
            topic,
        )
        answer = await hub.client.put(f"/topics/{topic}/schema", json={"schema": ORDER})

        assert (answer.status_code, kind(answer)[2]) == (422, "invalid-schema")


async def test_a_version_of_milder_rules_is_shown(running_hub: RunHub) -> None:
    async with running_hub() as hub:
        await hub.client.put("/topics/a/settings", json={})
        await hub.sql(
            "INSERT INTO hookwire.topic_schemas (tenant, topic, version, schema) "
            """VALUES ('default', 'a', 1, '{"type": "array"}')"""
        )
        answer = await hub.client.get("/topics/a/schema")

        assert (answer.status_code, answer.json()["ignored"]) == (200, [])


async def test_a_schema_that_is_not_there_is_not_found(running_hub: RunHub) -> None:
    async with running_hub() as hub:
        await hub.client.put("/topics/a/settings", json={})
        await hub.client.put("/topics/a/schema", json={"schema": ORDER})
        answers = [await hub.client.get(f"/topics/{path}") for path in ("b/schema", "a/schema?version=2")]
        odd = await hub.client.get("/topics/a/schema?version=0")

        assert [kind(one)[2] for one in answers] == ["unknown-schema"] * 2
        assert (odd.status_code, kind(odd)[2]) == (400, "invalid-parameter")


async def test_a_topic_with_a_schema_is_not_one_that_its_use_made(shared_hub: RunHub, topic: str) -> None:
    """So it is never forgotten, and neither is its schema."""
    async with shared_hub() as hub:
        await hub.publish(topic, b"1")
        await hub.client.put(f"/topics/{topic}/schema", json={"schema": ORDER})
        [row] = await hub.sql("SELECT made_by, used_on FROM hookwire.topics WHERE name = $1", topic)

        assert row == (None, None)


async def test_the_commands_set_and_show_it(running_hub: RunHub, tmp_path: Path) -> None:
    file = tmp_path / "orders.json"
    file.write_text(json.dumps(ORDER))
    async with running_hub() as hub:
        await hub.client.put("/topics/a/settings", json={})
        code, said, _ = await hookwire(hub, "topics", "set-schema", "a", f"@{file}")
        shown = await printed(hub, "topics", "schema", "a", "--version", "1", "--json")
        listed = await printed(hub, "topics", "schemas", "a", "--json")

        assert code == 0
        assert said == "a has version 1 of its schema; no column comes from #/properties/a/minLength\n"
        assert (shown["schema"], [one["version"] for one in listed]) == (ORDER, [1])
