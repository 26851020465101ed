"""``hookwire forgotten``: list the events that Kafka has and this database does not."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.entry import Config, Json, run, say, settings_from
from app.cli.failure import CommandFailed
from runtime.counted import counted

if TYPE_CHECKING:
    from app.checks.forgotten import Comparison
    from app.settings.settings import Settings

__all__ = ["forgotten"]

Last = Annotated[
    int, typer.Option("--last", min=1, max=1_000_000, help="How many of the newest records of each partition to read.")
]


def forgotten(last: Last = 10_000, as_json: Json = False, config: Config = None) -> None:
    """List the events that Kafka has and this database does not: a failover or a restore has taken them back.

    It reads the newest records of each partition and changes nothing. Without HOOKWIRE_KAFKA_TOPIC_PREFIX it reads all
    topics of Kafka. Exit code 1: there are such events, or a topic could not be read.

    Examples:

      hookwire forgotten

      hookwire forgotten --last 100000 --json
    """
    run(_forgotten(last, as_json, config))


async def _forgotten(last: int, as_json: bool, config: Path | None) -> int:
    found = await _compare(settings_from(config), last)
    if as_json:
        events = {one.topic: [event._asdict() for event in one.only_there] for one in found}
        say(json.dumps([asdict(one) | {"only_there": events[one.topic]} for one in found]))
    else:
        _print(found)
    return 1 if any(one.only_there or one.unread for one in found) else 0


async def _compare(settings: Settings, last: int) -> list[Comparison]:
    from app.checks.forgotten import compare_with_kafka
    from app.cli.database import opened_connection

    if not settings.kafka_bootstrap_servers:
        raise CommandFailed("Kafka is not configured (HOOKWIRE_KAFKA_BOOTSTRAP_SERVERS), and nothing else is read", 2)
    async with opened_connection(settings) as connection:
        return await compare_with_kafka(settings, connection, last)


def _print(found: list[Comparison]) -> None:
    from app.cli.table import console, show

    heads = ("Topic in Kafka", "Both", "Sent again", "Only here", "Only there", "Others", "Too old")
    rows = [
        (one.topic, f"{one.both:,}", f"{one.again:,}", f"{one.only_here:,}", f"{len(one.only_there):,}",
         f"{one.others:,}", f"{one.too_old:,}")
        for one in found if not one.unread
    ]  # fmt: skip
    show(heads, rows, folds=("Topic in Kafka",))
    events = [(one.topic, event) for one in found for event in one.only_there]
    if events:
        show(
            ("Event", "Topic in Kafka", "Partition", "Offset"),
            [(event.event_id, topic, str(event.partition), str(event.offset)) for topic, event in events],
            folds=("Topic in Kafka",),
        )
        console().print(
            f"{counted(len(events), 'event')} only there: ask the publishers to publish them again, or read them from "
            "Kafka at these places. If the relay is refused, run: hookwire reincarnate"
        )
    for one in found:
        if one.unread:
            console().print(f"{one.topic} was not read, and may have more: {one.unread}", markup=False)
    if sum(one.again + one.only_here for one in found):
        console().print("what waits here leaves by itself while a relay runs; see: hookwire status")
