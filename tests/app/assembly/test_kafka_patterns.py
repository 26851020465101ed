"""Kafka topics that are read by a pattern of their names: a whole hub on a real Kafka."""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import asyncpg
import pytest
import structlog

from app.settings.kafka_source import kafka_route_of
from relay.kafka.source import pattern
from scripts.servers.kafka import KafkaServer
from tests.app.assembly.test_kafka_sources import ROLES, send, stored
from tests.app.cli.commands.test_services import hookwire
from tests.app.conftest import RunHub, RunningHub
from tests.app.web.test_status import part_of
from tests.relay.kafka.kafka_topic import make_topic
from tests.waiting import until


async def test_each_topic_that_fits_is_read_also_one_that_appears_later(
    running_hub: RunHub, kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KS-27: a name that makes no topic of the hub is passed over and named. ``start`` counts for the topics of the
    start.
    """
    monkeypatch.setattr(pattern, "_LOOK_SECONDS", 0.1)
    word = secrets.token_hex(4)
    for name in ("a", "b..c"):
        await make_topic(kafka.bootstrap, f"{word}-{name}", 1)
        await send(kafka, f"{word}-{name}", {"value": b"before"})
    named = {"kafka_source_servers": kafka.bootstrap, "kafka_sources": f"{word}-*?topic={word}.*"}
    with structlog.testing.capture_logs() as logs:
        async with running_hub(ROLES, **named) as hub:

            async def are_read(count: int) -> object:
                return len(await hub.sql("SELECT FROM hookwire.source_offsets")) >= count

            await until(lambda: are_read(1))
            await make_topic(kafka.bootstrap, f"{word}-later", 1)
            await send(kafka, f"{word}-later", {"value": b"first"})
            await until(lambda: are_read(2))
            await send(kafka, f"{word}-a", {"value": b"after"})

            async def events() -> object:
                rows = await hub.sql(
                    "SELECT topic, payload FROM hookwire.events WHERE topic LIKE $1 ORDER BY topic", f"{word}%"
                )
                return rows if len(rows) >= 2 else None

            found = await until(events)

            def tells(answer: Any) -> object:
                return next((one for one in answer["items"] if one["kind"] == "pattern"), None)

            sources = (await hub.until("/sources", tells))["items"]
            shown = (await hub.client.get(f"/sources/{word}-*")).json()
            code, table, _ = await hookwire(hub, "sources", "list")
            status = await hub.until(
                "/status", lambda found: part_of(found, "source", f"{word}-*")["state"] == "failing"
            )

    passed_over = [one["kafka_topic"] for one in logs if one["event"] == "kafka_source_passed_over"]
    assert (found, passed_over) == ([(f"{word}.a", b"after"), (f"{word}.later", b"first")], [f"{word}-b..c"])
    assert [(one["source"], one["topic"]) for one in sources] == [
        (f"{word}-*", f"{word}.*"), (f"{word}-a", f"{word}.a"), (f"{word}-later", f"{word}.later"),
    ]  # fmt: skip
    (unread,) = shown["passed_over"]
    assert (unread["topic"], unread["kind"], unread["is_unread"]) == (f"{word}-b..c", "name", True)
    assert (shown, code, f"passes over {word}-b..c" in " ".join(table.split())) == (sources[0], 1, True)
    reason = f"1 Kafka topic that fits is not read: {word}-b..c: {unread['reason']}"
    assert part_of(status, "source", f"{word}-*")["reason"] == reason


@asynccontextmanager
async def unread(database_url: str, source: str) -> AsyncIterator[None]:
    """A source that nobody can begin to read: its row belongs to an open transaction, which is rolled back."""
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute("BEGIN")
        await connection.execute("INSERT INTO hookwire.sources (name) VALUES ($1)", source)
        yield
    finally:
        await connection.close()


async def test_processes_agree_which_topics_were_there_when_the_first_of_them_looked(
    running_hub: RunHub, kafka: KafkaServer, database_url: str
) -> None:
    """KS-26: the second took a new topic for an old one, and passed its first record over. The third took an old topic
    that was not begun yet for a new one, and read its history.
    """
    word = secrets.token_hex(4)
    old, new = f"{word}-old", f"{word}-new"
    named = {"kafka_source_servers": kafka.bootstrap, "kafka_sources": f"{word}-*?topic={word}.*"}
    await make_topic(kafka.bootstrap, old, 1)
    await send(kafka, old, {"value": b"history"})

    async def begun(hub: RunningHub, source: str) -> None:
        await until(lambda: hub.sql("SELECT FROM hookwire.source_offsets WHERE source = $1", source))

    async with AsyncExitStack() as first, AsyncExitStack() as second, AsyncExitStack() as third:
        async with unread(database_url, old):
            hub = await first.enter_async_context(running_hub(ROLES, **named))
            await until(lambda: hub.sql("SELECT FROM hookwire.source_patterns"))
            await make_topic(kafka.bootstrap, new, 1)
            await send(kafka, new, {"value": b"first"})
            hub = await second.enter_async_context(running_hub(ROLES, **named))
            await first.aclose()
            await begun(hub, new)
            hub = await third.enter_async_context(running_hub(ROLES, **named))
            await second.aclose()
        await begun(hub, old)
        await send(kafka, old, {"value": b"later"})
        found = [await stored(hub, f"{word}.{name}", 1) for name in ("new", "old")]

    assert found == [[(None, b"first")], [(None, b"later")]]


@pytest.mark.parametrize("source", ["a*b*", "a*?group=g", "a*?topic=b..*"])
def test_a_pattern_that_is_none_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(source))):
        kafka_route_of(source)
