"""``hookwire pipeline typed`` and ``views``: make columns of the JSON of topics, and the SQL that names the tables."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Sequence
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
    from pipeline.typed.day import Filled, SeenBronze, TopicVersion

__all__ = ["typed", "views"]

Topic = Annotated[str | None, typer.Option("--topic", help="This topic of the hub only.")]
SinceFirst = Annotated[
    str | None, typer.Option("--since", help="First day: 2026-01-15, or 7d (default: the first one).")
]
Engine = Annotated[Literal["duckdb", "spark"], typer.Option("--engine", help="Whose SQL it is.")]
_NOT_REACHED = 3
"""The exit code where a server or the store does not answer: the next topic would fail, too."""
_FIRST_DAY = "2020-01-01"
"""No event is older: the lake files what claims to be older under the day on which it was archived."""


def typed(
    topic: Topic = None, since: SinceFirst = None, until: Until = None, lake: Lake = None, dry_run: DryRun = False,
    as_json: Json = False, config: Config = None,
) -> None:  # fmt: skip
    """Make columns of the JSON of each topic that has a schema: a table of one row for each event.

    An event that does not fit the schema is a row of the table of rejected rows, with the reason. A day is computed
    again when bronze has another number of its rows. A new version of a schema has new tables, for all days of bronze.
    A topic whose days cannot be computed is named, and the others are computed. Exit code 1: there is such a topic, or
    rows were rejected in the days that were computed.

    Examples:

      hookwire pipeline typed --topic orders.created

      hookwire pipeline typed --since 7d --dry-run
    """
    settings = settings_from(config)
    span = days_of(since or _FIRST_DAY, until)
    storage = lake_of(lake, settings)
    with told_failures():
        from pipeline.typed.day import SeenBronze

        archived = SeenBronze(storage)
    schemas = asyncio.run(_schemas(settings, topic))
    if topic is not None and not schemas:
        raise CommandFailed(f"{topic} has no schema: store one by `hookwire topics set-schema`", 2)
    done: list[dict[str, Any]] = []
    failed: list[dict[str, str]] = []
    for row in schemas:
        try:
            with told_failures():
                done.append(_computed(settings, archived, _version(row), *span, dry_run=dry_run))
        except CommandFailed as error:
            if error.code == _NOT_REACHED:
                raise
            failed.append({"topic": row["topic"], "reason": str(error)})
            tell(f"{row['topic']}: {error}")
    rejected = sum(one["rejected"] for one in done)
    days, rows = (sum(one[name] for one in done) for name in ("days", "rows"))
    verb = "would be" if dry_run else were(days)
    words = f"{counted(days, 'day')} of {counted(len(done), 'topic')} {verb} computed"
    if not dry_run:
        words += f": {counted(rows, 'row')}; {rejected:,} {were(rejected)} rejected"
    if failed:
        words += f"; {counted(len(failed), 'topic')} failed"
    say(json.dumps({"topics": done, "failed": failed}) if as_json else words)
    raise typer.Exit(1 if rejected or failed else 0)


def _version(row: Row) -> TopicVersion:
    """Return a topic with its newest schema. Raises ``CommandFailed`` if the lake does not tell its events apart."""
    from pipeline.typed.day import TopicVersion
    from pipeline.typed.shape import shape_of
    from pipeline.typed.tables import TAKEN

    if row["others"]:
        raise CommandFailed(
            f"it shares the Kafka topic {row['kafka_topic']} with other topics, so the lake does not tell their events "
            "apart",
            1,
        )
    shape, digest = shape_of(json.loads(row["schema"]), TAKEN), hashlib.sha256(row["schema"].encode()).hexdigest()
    return TopicVersion(row["topic"], row["version"], shape, row["kafka_topic"], digest)


async def _schemas(settings: Settings, topic: str | None) -> Sequence[Row]:
    """Return the newest schema of the topic, or of each topic that has one."""
    from app.cli.database import opened_database

    async with opened_database(settings, connections_max=1, application_name="hookwire pipeline") as database:
        return await database.fetch("topic_schema.newest", settings.kafka_topic_prefix, topic)


def _computed(
    settings: Settings, archived: SeenBronze, of: TopicVersion, since: date, until: date, *, dry_run: bool
) -> dict[str, Any]:
    """Compute the days of a topic one by one, so that a run that is killed continues with the next one."""
    from pipeline.runs import recorded_run
    from pipeline.typed.day import stale_days

    lake = archived.lake
    days = stale_days(archived, of, since, until)
    named, counts = {"topic": of.topic, "version": of.version}, {"days": len(days), "rows": 0, "rejected": 0}
    if days and not dry_run:
        # A log of bronze that was cut has fewer rows than the days were made of.
        tables = [archived.table, *of.tables(lake)]
        with marked(settings, lake, tables), recorded_run(lake, "typed", named) as run:
            run.counts = counts
            spark = session("typed", settings)
            for day in days:
                filled = _filled(spark, archived, of, day, run.id)
                counts["rows"] += filled.rows
                counts["rejected"] += filled.rejected
                tell(f"{of.topic} {day}: {counted(filled.rows, 'row')}, {filled.rejected:,} rejected")
    return named | counts


def _filled(spark: Any, archived: SeenBronze, of: TopicVersion, day: date, run: str) -> Filled:
    """Compute a day, once more after a conflict: the archive and `compact` replace files of bronze by the same rows."""
    from pipeline.lake import LakeConflict
    from pipeline.typed.day import fill

    try:
        return fill(spark, archived, of, day, run)
    except LakeConflict as conflict:
        tell(f"{of.topic} {day} is computed once more: {conflict}")
        return fill(spark, archived, of, day, run)


def views(engine: Engine = "duckdb", lake: Lake = None, as_json: Json = False, config: Config = None) -> None:
    """Print SQL that makes a view of each table of typed and rejected rows, of the newest version that was computed.

    DuckDB needs its extension `delta`, and Spark needs Delta's package. Tables that would have one name have no view;
    exit code 1 then.

    Examples:

      hookwire pipeline views > views.sql

      hookwire pipeline views --engine spark
    """
    from pipeline.typed.views import statements

    storage = lake_of(lake, settings_from(config))
    with told_failures():
        made, unnamed = statements(storage, engine)
    for sentence in unnamed:
        tell(sentence)
    say(json.dumps(made) if as_json else "\n".join(made.values()) or "-- there is no typed table")
    raise typer.Exit(1 if unnamed else 0)
