"""relay/kafka/source/pattern.py: which topics a pattern reads, and from where, without a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs
from typing_extensions import override

from relay.kafka.source import pattern
from relay.kafka.source.metrics import KafkaSourceMetrics
from relay.kafka.source.pattern import KafkaPattern
from relay.kafka.source.reader import PartitionOptions
from relay.kafka.source.route import KafkaRoute
from relay.kafka.source.service import KafkaSource
from tests.waiting import until

OPTIONS: Any = None
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


def pattern_of(route: KafkaRoute, routes: Sequence[KafkaRoute], read_before: Sequence[str] = ()) -> Pattern:
    async def names() -> Sequence[str]:
        return read_before

    return Pattern(OPTIONS, route, routes, make_source, names)


async def looked(reading: Pattern) -> list[KafkaRoute]:
    """Let the pattern look once; return how it reads what it has found."""
    running = asyncio.create_task(reading.run())
    await until(lambda: reading.state == "reading")
    found: list[Any] = list(reading.sources)
    reading.stop()
    await running
    return [source.route for source in found]


async def test_a_topic_that_fits_two_patterns_is_read_by_one() -> None:
    """Both read it if they made equal routes."""
    routes = [KafkaRoute("shop-*", "all"), KafkaRoute("*-a", "all"), KafkaRoute("shop-*", "all")]
    found = [await looked(pattern_of(route, routes)) for route in routes]

    assert [len(one) for one in found] == [1, 0, 0]


@pytest.mark.parametrize(
    ("read_before", "start"),
    [((), "latest"), (("shop-b",), "earliest"), (("shop-one",), "latest")],
    ids=["of a new pattern", "of one that has read", "of one whose only reader is another source"],
)
async def test_a_topic_that_appears_while_no_process_runs_is_read_from_its_first_record(
    read_before: Sequence[str], start: str
) -> None:
    """Its records were passed over without a word, as the first look of a process took it for an old one."""
    route = KafkaRoute("shop-*", "all")
    (found,) = await looked(pattern_of(route, [KafkaRoute("shop-one", "one"), route], read_before))

    assert found.start == start


async def test_a_topic_that_was_passed_over_is_read_when_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looked at it again, although another topic was deleted."""
    monkeypatch.setattr(pattern, "_TOPICS_MAX", 1)
    monkeypatch.setattr(pattern, "_LOOK_SECONDS", 0.01)
    route = KafkaRoute("shop-*", "all")
    reading = pattern_of(route, [route])
    reading.names = frozenset({"shop-a", "shop-b"})
    with capture_logs() as logs:
        running = asyncio.create_task(reading.run())
        await until(lambda: reading.looks > 3)
        reading.names = frozenset({"shop-b"})
        looks = reading.looks
        await until(lambda: reading.looks > looks + 2)
        found: list[Any] = list(reading.sources)
        reading.stop()
        await running
    told = [log["kafka_topic"] for log in logs if log["event"] == "kafka_source_passed_over"]

    assert ([source.route.source for source in found], told) == (["shop-b"], ["shop-b"])


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
