"""relay/kafka/source/pattern.py: which topics a pattern reads, and from where, without a broker."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs
from typing_extensions import override

from db.pool import Database
from relay.kafka.options import KafkaOptions
from relay.kafka.source import pattern
from relay.kafka.source.metrics import KafkaSourceMetrics
from relay.kafka.source.pattern import KafkaPattern
from relay.kafka.source.pattern_notes import PatternNotes
from relay.kafka.source.reader import PartitionOptions
from relay.kafka.source.route import KafkaRoute
from relay.kafka.source.service import KafkaSource
from tests.app.conftest import opened
from tests.waiting import until

OPTIONS: Any = KafkaOptions("nobody:1", "here")
"""Nothing here asks a broker: the names of topics come from the test."""
NOTHING: Any = None


class Source:
    """Stands for the source of one topic."""

    name = "a source"

    def __init__(self, route: KafkaRoute) -> None:
        self.route = route

    def stop(self) -> None:
        pass

    async def run(self) -> None:
        pass


class Pattern(KafkaPattern):
    """Its broker has the topics ``names``."""

    names: frozenset[str] = frozenset({"shop-a"})
    looks = 0

    @override
    async def _names(self) -> set[str]:
        self.looks += 1
        return set(self.names)


def make_source(route: KafkaRoute) -> Any:
    return Source(route)


@asynccontextmanager
async def looking(
    database: Database, route: KafkaRoute, routes: Sequence[KafkaRoute] = (), *names: str
) -> AsyncIterator[Pattern]:
    """A pattern of a process of its own, after its first look."""
    reading = Pattern(OPTIONS, route, routes or [route], make_source, PatternNotes(database, route))
    reading.names = frozenset(names or reading.names)
    running = asyncio.create_task(reading.run())
    try:
        await until(lambda: reading.state in {"reading", "passing over"})
        yield reading
    finally:
        reading.stop()
        await running


async def look_again(reading: Pattern, *names: str) -> None:
    """Let the broker have other topics, until they were looked at."""
    reading.names = frozenset(names)
    looks = reading.looks
    await until(lambda: reading.looks > looks + 2)


def starts(reading: Pattern) -> dict[str, str]:
    found: list[Any] = list(reading.sources)
    return {source.route.source: source.route.start for source in found}


async def test_a_topic_that_fits_two_patterns_is_read_by_one(database_url: str) -> None:
    """Both read it if they made equal routes."""
    routes = [KafkaRoute("shop-*", "all"), KafkaRoute("*-a", "all"), KafkaRoute("shop-*", "all")]
    found = []
    async with opened(database_url) as (database, _):
        for route in routes:
            async with looking(database, route, routes) as reading:
                found.append(len(reading.sources))

    assert found == [1, 0, 0]


@pytest.mark.parametrize(
    ("read_before", "start"),
    [((), "latest"), (("shop-b",), "earliest"), (("shop-one",), "latest")],
    ids=["of a new pattern", "of one that has read", "of one whose only reader is another source"],
)
async def test_a_topic_that_appears_while_no_process_runs_is_read_from_its_first_record(
    database_url: str, read_before: Sequence[str], start: str
) -> None:
    """Its records were passed over without a word, as the first look of a process took it for an old one."""
    route = KafkaRoute("shop-*", "all")
    async with opened(database_url) as (database, sql):
        await sql.execute("INSERT INTO hookwire.sources (name) SELECT * FROM unnest($1::text[])", read_before)
        async with looking(database, route, [KafkaRoute("shop-one", "one"), route]) as reading:
            found = starts(reading)

    assert found == {"shop-a": start}


async def test_all_processes_read_a_topic_from_where_the_first_look_of_any_says(database_url: str) -> None:
    """KS-26: the first process reads nothing yet. The second took a new topic for an old one, and the third an old one
    for a new one.
    """
    route = KafkaRoute("shop-*", "all")
    async with opened(database_url) as (database, sql):
        async with (
            looking(database, route, (), "shop-a"),
            looking(database, route, (), "shop-a", "shop-later") as second,
        ):
            new = starts(second)
        await sql.execute("INSERT INTO hookwire.sources (name) VALUES ('shop-later')")
        async with looking(database, route, (), "shop-a", "shop-later") as third:
            old = starts(third)

    assert (new, old) == ({"shop-a": "latest", "shop-later": "earliest"},) * 2


async def test_a_topic_that_was_made_anew_before_it_was_read_is_a_new_one(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pattern, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(pattern, "_TOPICS_MAX", 1)
    route = KafkaRoute("shop-*", "all")
    async with opened(database_url) as (database, _), looking(database, route, (), "shop-a", "shop-b") as reading:
        await look_again(reading, "shop-a")
        await look_again(reading, "shop-b")

        assert starts(reading) == {"shop-b": "earliest"}


async def test_a_topic_that_was_passed_over_is_read_when_there_is_room(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody looked at it again, although another topic was deleted."""
    monkeypatch.setattr(pattern, "_TOPICS_MAX", 1)
    monkeypatch.setattr(pattern, "_LOOK_SECONDS", 0.01)
    route = KafkaRoute("shop-*", "all")
    with capture_logs() as logs:
        async with opened(database_url) as (database, _), looking(database, route, (), "shop-a", "shop-b") as reading:
            before = reading.state
            await look_again(reading, "shop-b")
            found = starts(reading)
            state = reading.state
    told = [log["kafka_topic"] for log in logs if log["event"] == "kafka_source_passed_over"]

    assert (found, told, before, state) == ({"shop-b": "latest"}, ["shop-b"], "passing over", "reading")


async def test_what_is_passed_over_is_noted_with_the_reason_and_only_what_nobody_reads_is_a_trouble(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KS-27: only lines of the log told it. Of many topics the first are named, and all are counted."""
    monkeypatch.setattr(pattern, "_TOPICS_MAX", 1)
    every, one = KafkaRoute("*", "*"), KafkaRoute("shop-a", "one")
    fine = ("hookwire.progress", "hookwire.x", "shop-a", "a")
    async with opened(database_url) as (database, sql):
        async with looking(database, every, [one, every], *fine) as reading:
            quiet = reading.state, reading.last_error
            few = await sql.fetchval("SELECT passed_over_count FROM hookwire.source_patterns")
        many = [f"b{number:02}" for number in range(30)]
        async with looking(database, every, [one, every], *fine, "b..c", *many) as reading:
            loud = reading.state, reading.last_error
            (row,) = await sql.fetch("SELECT passed_over, passed_over_count FROM hookwire.source_patterns")

    noted = [(found["topic"], found["kind"]) for found in json.loads(row["passed_over"])]
    assert (quiet, few) == (("reading", ""), 3)
    assert (noted, row["passed_over_count"]) == ([("b..c", "name"), *((name, "limit") for name in many[:19])], 34)
    assert loud[0] == "passing over"
    assert re.fullmatch(
        r"31 Kafka topics that fit are not read: b\.\.c: a topic is .*; b00: 1 topics fit .*; b01: .*; and 28 more",
        loud[1],
    )


async def test_a_source_that_was_stopped_shows_no_lag() -> None:
    """Its topic may be deleted, and the lag that it had stayed for as long as the process ran."""
    registry = CollectorRegistry()
    metrics = KafkaSourceMetrics(registry)
    route = KafkaRoute("shop-a", "all", group="g")
    source = KafkaSource(OPTIONS, route, NOTHING, NOTHING, metrics, PartitionOptions(1, 1, 1))
    metrics.lag.labels("shop-a").set(3)
    source.stop()
    await source.run()

    assert registry.get_sample_value("hookwire_kafka_source_lag", {"source": "shop-a"}) is None
