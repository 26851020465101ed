"""Check that no topic publishes into a Kafka topic that a source reads, because its records would come back."""

from __future__ import annotations

from contextlib import aclosing

from app.checks.check import Check, ChecksRefused
from app.settings.settings import Settings
from db.direct import connect_direct
from db.errors import DatabaseError
from db.pool import PoolOptions

__all__ = ["kafka_source_checks", "refuse_kafka_loops"]

_ID = "kafka"
_SUBJECT = "Kafka sources"
_CURE = "give the topic another kafka_topic, or sinks without kafka"


async def refuse_kafka_loops(settings: Settings, options: PoolOptions) -> None:
    """Raise ``ChecksRefused`` if records would come back."""
    found = [check for check in await kafka_source_checks(settings, options) if check.level == "refuse"]
    if found:
        raise ChecksRefused(found)


async def kafka_source_checks(settings: Settings, options: PoolOptions) -> list[Check]:
    """Return one check for each loop that the settings and the database show; the database is migrated."""
    routes = settings.kafka_routes()
    if not routes:
        return [Check(_ID, _SUBJECT, "note", "none (HOOKWIRE_KAFKA_SOURCES)")]
    if not settings.kafka_routes_of_sink():
        return [Check(_ID, _SUBJECT, "ok", "there is no Kafka sink on the brokers that are read")]
    try:
        async with aclosing(await connect_direct(options)) as connection:
            rows = await connection.fetch("source.loops", [route.like for route in routes], settings.kafka_topic_prefix)
    except DatabaseError as error:
        return [Check(_ID, _SUBJECT, "unreachable", str(error), "the connection broke during the check")]
    found = [
        Check(_ID, _SUBJECT, "refuse", f"the topic {row['topic']} publishes to {row['source']}, which is read", _CURE)
        for row in rows
    ]
    return found or [Check(_ID, _SUBJECT, "ok", ", ".join(route.source for route in routes))]
