"""relay/kafka/source/route.py: which Kafka topics a pattern reads, and the topics of their events."""

from __future__ import annotations

import pytest

from app.settings.kafka_source import kafka_route_of
from relay.kafka.source.route import KafkaRoute, route_for


@pytest.mark.parametrize(
    ("source", "name", "topic"),
    [
        ("shop-*?topic=shop.*", "shop-orders", "shop.orders"),
        ("shop-*?topic=shop.all", "shop-orders", "shop.all"),
        ("shop-*", "shop-orders", "shop-orders"),
        ("*.in?topic=*", "stock.in", "stock"),
        ("*", "stock", "stock"),
        ("shop-*", "shop-", None),
        ("ab*bc", "abc", None),
        ("shop-*", "stock", None),
        ("*", "__consumer_offsets", None),
        ("stock?topic=t", "stock", "t"),
    ],
)
def test_a_pattern_names_the_topic_of_each_kafka_topic_that_fits(source: str, name: str, topic: str | None) -> None:
    """Topics of Kafka's own fit no pattern."""
    found = route_for([kafka_route_of(source)], name)

    assert (found and (found.source, found.topic)) == (topic and (name, topic))


def test_a_source_of_a_name_reads_it_before_a_pattern_does() -> None:
    routes = [KafkaRoute("shop-*", "all"), KafkaRoute("shop-*-eu", "eu"), KafkaRoute("shop-a-eu", "one")]
    found = [route_for(routes, name) for name in ("shop-a-eu", "shop-b-eu")]

    assert [route and route.topic for route in found] == ["one", "all"]
