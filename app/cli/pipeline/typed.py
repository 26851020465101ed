"""``hookwire pipeline typed`` and ``views``: make columns of the JSON of topics, and the SQL that names the tables."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from app.cli.entry import Config, Json, say, settings_from
from app.cli.failure import CommandFailed
from app.cli.pipeline.insight import Until, days_of
from app.cli.pipeline.lake import DryRun, Lake, lake_of, session, tell, told_failures
from app.cli.pipeline.marks import marked
from app.settings.settings import Settings
from runtime.counted import counted, were

if TYPE_CHECKING:
    from db.pool import Row
    from pipeline.storage import LakeStorage
    from pipeline.typed.day import TopicVersion

__all__ = ["typed", "views"]

Topic = Annotated[str | None, typer.Option("--topic", help="This topic of the hub only.")]
SinceFirst = Annotated[
    str | None, typer.Option("--since", help="First day: 2026-01-15, or 7d (default: the first one).")
]
Engine = Annotated[Literal["duckdb", "spark"], typer.Option("--engine", help="Whose SQL it is.")]
_FIRST_DAY = "2020-01-01"
"""No event is older: the lake files what claims to be older under the day on which it was archived."""


@dataclass(frozen=True, slots=True)
class _Work:
    """A topic and its days to compute, each with its number of rows in bronze."""

    of: TopicVersion
    days: dict[date, int]


def typed(
    topic: Topic = None, since: SinceFirst = None, until: Until = None, lake: Lake = None, dry_run: DryRun = False,
    as_json: Json = False, config: Config = None,
) -> None:  # fmt: skip
    """Make columns of the JSON of each topic that has a schema: a table of one row for each event.

    An event that does not fit the schema is a row of the table of rejected rows, with the reason. A day is computed
    again when bronze has another number of its rows. A new version of a schema has new tables, for all days of bronze.
    Exit code 1: rows were rejected in the days that were computed.

    Examples:

      hookwire pipeline typed --topic orders.created

      hookwire pipeline typed --since 7d --dry-run
    """
    settings = settings_from(config)
    span = days_of(since or _FIRST_DAY, until)
    storage = lake_of(lake, settings)
    with told_failures():
        work = _planned(settings, storage, topic, *span)
        done = [_computed(settings, storage, one, dry_run=dry_run) for one in work]
    rejected = sum(one["rejected"] for one in done)
    days, rows = (sum(one[name] for one in done) for name in ("days", "rows"))
    verb = "would be" if dry_run else were(days)
    words = f"{counted(days, 'day')} of {counted(len(done), 'topic')} {verb} computed"
    if not dry_run:
        words += f": {counted(rows, 'row')}; {rejected:,} {were(rejected)} rejected"
    say(json.dumps({"topics": done}) if as_json else words)
    raise typer.Exit(1 if rejected else 0)


def _planned(settings: Settings, lake: LakeStorage, topic: str | None, since: date, until: date) -> list[_Work]:
    from pipeline.typed.day import TopicVersion, stale_days
    from pipeline.typed.shape import shape_of
    from pipeline.typed.tables import TAKEN

    rows = asyncio.run(_schemas(settings, topic))
    if topic is not None and not rows:
        raise CommandFailed(f"{topic} has no schema: store one by `hookwire topics set-schema`", 2)
    for row in rows:
        if row["others"]:
            raise CommandFailed(
                f"{row['topic']} shares the Kafka topic {row['kafka_topic']} with other topics, so the lake does not "
                "tell their events apart",
                2,
            )
    versions = [
        TopicVersion(row["topic"], row["version"], shape_of(json.loads(row["schema"]), TAKEN), row["kafka_topic"])
        for row in rows
    ]
    return [_Work(one, stale_days(lake, one, since, until)) for one in versions]


async def _schemas(settings: Settings, topic: str | None) -> Sequence[Row]:
    """Return the newest schema of the topic, or of each topic that has one."""
    from app.cli.database import opened_database

    async with opened_database(settings, connections_max=1, application_name="hookwire pipeline") as database:
        return await database.fetch("topic_schema.newest", settings.kafka_topic_prefix, topic)


def _computed(settings: Settings, lake: LakeStorage, work: _Work, *, dry_run: bool) -> dict[str, Any]:
    """Compute the days of a topic one by one, so that a run that is killed continues with the next one."""
    from pipeline.runs import recorded_run
    from pipeline.typed.day import fill

    of = work.of
    named, counts = {"topic": of.topic, "version": of.version}, {"days": len(work.days), "rows": 0, "rejected": 0}
    if work.days and not dry_run:
        with marked(settings, lake, of.tables(lake)), recorded_run(lake, "typed", named) as run:
            run.counts = counts
            spark = session("typed", settings)
            for day in work.days:
                filled = fill(spark, lake, of, day, run.id)
                counts["rows"] += filled.rows
                counts["rejected"] += filled.rejected
                tell(f"{of.topic} {day}: {counted(filled.rows, 'row')}, {filled.rejected:,} rejected")
    return named | counts


def views(engine: Engine = "duckdb", lake: Lake = None, as_json: Json = False, config: Config = None) -> None:
    """Print SQL that makes a view of each table of typed and rejected rows, of the newest version that was computed.

    DuckDB needs its extension `delta`, and Spark needs Delta's package.

    Examples:

      hookwire pipeline views > views.sql

      hookwire pipeline views --engine spark
    """
    from pipeline.typed.views import TwoViews, statements

    storage = lake_of(lake, settings_from(config))
    with told_failures():
        try:
            made = statements(storage, engine)
        except TwoViews as error:
            raise CommandFailed(str(error), 1) from None
    say(json.dumps(made) if as_json else "\n".join(made.values()) or "-- there is no typed table")
