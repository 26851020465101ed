"""``hookwire pipeline deliveries``, ``metrics`` and ``slo``: compute silver and gold from attempts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.entry import Config, Json, run, settings_from
from app.cli.listing import print_result
from app.cli.pipeline.insight import Since, Until, days_of
from app.cli.pipeline.lake import Lake, lake_of, session, tell, told_failures
from app.cli.pipeline.marks import marked
from app.settings.settings import Settings
from runtime.counted import counted, were

if TYPE_CHECKING:
    from db.pool import Database
    from pipeline.delta.snapshot import DataFile
    from pipeline.lake import Table
    from pipeline.service import Service
    from pipeline.storage import LakeStorage

__all__ = ["deliveries", "metrics", "slo"]

DryRun = Annotated[bool, typer.Option("--dry-run", help="List the days and change nothing.")]
Target = Annotated[float, typer.Option("--target", min=0.5, max=0.99999, help="Share of attempts that should succeed.")]
_PAGE = 100_000
_BACKLOG_PAGE = 20_000
_ATTEMPT = ("tenant", "event_id", "topic", "accepted_at", "subscription", "protocol", "number", "trigger", "started_at",
            "connect_seconds", "first_byte_seconds", "seconds", "status", "outcome", "decision")  # fmt: skip
_GOLD = {
    "metrics": ("gold.put_metrics", (
        "tenant", "hour", "topic", "subscription", "attempts", "delivered", "retries", "dead", "p50_seconds",
        "p95_seconds", "p99_seconds", "tries_to_success", "oldest_seconds",
    )),
    "slo": ("gold.put_slo", ("tenant", "dt", "subscription", "attempts", "delivered", "share", "target", "burn")),
}  # fmt: skip
"""The statements that put gold tables into the database, and the columns that they take."""


def deliveries(
    since: Since = None, until: Until = None, lake: Lake = None, dry_run: DryRun = False, as_json: Json = False,
    config: Config = None,
) -> None:  # fmt: skip
    """Copy the attempts at webhooks into the lake, one row each, with the reason of a failure.

    A day is written again if the database has more attempts of that day than the lake, never if it has fewer.

    Examples:

      hookwire pipeline deliveries

      hookwire pipeline deliveries --since 7d --dry-run
    """
    from pipeline.delivery import delivery_table

    settings, days = settings_from(config), days_of(since, until)
    storage = lake_of(lake, settings)
    with told_failures(), marked(settings, storage, [delivery_table(storage)], dry_run=dry_run):
        run(_deliveries(settings, storage, *days, dry_run=dry_run, as_json=as_json))


def metrics(
    since: Since = None, until: Until = None, lake: Lake = None, dry_run: DryRun = False, as_json: Json = False,
    config: Config = None,
) -> None:  # fmt: skip
    """Compute attempts, successes, latency and retries by hour, topic and subscription, and count waiting deliveries.

    Reads the lake's deliveries. Writes the lake's metrics, and the same rows into the database, each batch once
    (hookwire.lake_metrics, hookwire.lake_backlog).

    Examples:

      hookwire pipeline deliveries && hookwire pipeline metrics
    """
    from pipeline.metric import metric_table

    settings, days = settings_from(config), days_of(since, until)
    storage = lake_of(lake, settings)
    with told_failures(), marked(settings, storage, [metric_table(storage)], dry_run=dry_run):
        run(_metrics(settings, storage, *days, dry_run=dry_run, as_json=as_json))


def slo(
    since: Since = None, until: Until = None, target: Target = 0.99, lake: Lake = None, dry_run: DryRun = False,
    as_json: Json = False, config: Config = None,
) -> None:  # fmt: skip
    """Compute by subscription the share of successful attempts over 28 days and the used part of the error budget.

    Reads the lake's metrics. Writes the lake's service levels, and the same rows into the database, each batch once
    (hookwire.lake_slo). Exit code 1: a budget is overdrawn on the last day.

    Examples:

      hookwire pipeline metrics && hookwire pipeline slo --target 0.999
    """
    from pipeline.slo import slo_table

    settings, days = settings_from(config), days_of(since, until)
    storage = lake_of(lake, settings)
    with told_failures(), marked(settings, storage, [slo_table(storage)], dry_run=dry_run):
        run(_slo(settings, storage, *days, target, dry_run=dry_run, as_json=as_json))


async def _deliveries(
    settings: Settings, lake: LakeStorage, since: date, until: date, *, dry_run: bool, as_json: bool
) -> int:
    from pipeline.runs import recorded_run
    from pipeline.service import Service, wanted_days

    async with _database(settings) as database:
        counts = await database.fetch("lake.attempt_days", _midnight(since), _midnight(until + timedelta(days=1)))
        days = wanted_days(lake, {row["day"]: row["attempts"] for row in counts})
        rows = 0
        if days and not dry_run:
            with recorded_run(lake, "deliveries", {"since": since.isoformat(), "until": until.isoformat()}) as noted:
                service = Service(session("deliveries", settings), lake, noted.id)
                for day in days:
                    rows += await _copied(database, service, day)
                    noted.counts = {"days": len(days), "rows": rows}
                    tell(f"{day}: {counted(rows, 'attempt')} so far")
    done = {"days": days, "rows": rows}
    verb = "would be" if dry_run else were(len(days))
    print_result(done, f"{counted(len(days), 'day')} {verb} copied, {counted(rows, 'attempt')}", as_json=as_json)
    return 0


async def _copied(database: Database, service: Service, day: date) -> int:
    """Copy a day page by page, so that only one page is in memory; return the number of rows."""
    place: tuple[int, int, int] = (0, 0, 0)
    files: tuple[DataFile, ...] = ()
    span = (_midnight(day), _midnight(day + timedelta(days=1)))
    while rows := await database.fetch("lake.attempt_page", *span, *place, _PAGE):
        place = (rows[-1]["event_id"], rows[-1]["subscription_id"], rows[-1]["number"])
        page = [[row[name] for name in _ATTEMPT] for row in rows]
        files += await asyncio.to_thread(service.write_attempts, page)
    return await asyncio.to_thread(service.put_attempts, day, files)


async def _metrics(
    settings: Settings, lake: LakeStorage, since: date, until: date, *, dry_run: bool, as_json: bool
) -> int:
    from pipeline.metric import metric_table
    from pipeline.service import stale_days

    if dry_run:
        days = sorted(stale_days(lake, since, until))
        print_result({"days": days}, f"{counted(len(days), 'day')} would be measured", as_json=as_json)
        return 0
    async with _database(settings) as database:
        made = await _gold(
            settings, lake, database, "metrics", metric_table(lake), lambda of: of.refresh_metrics(since, until)
        )
        waiting = await _noted_backlog(database)
    done = made | {"waiting": waiting}
    days_made, rows_put = len(made["days"]), counted(made["rows_in_database"], "row")
    words = f"{counted(days_made, 'day')} {were(days_made)} measured, {rows_put} put into the database"
    print_result(done, f"{words}; waiting now: {counted(done['waiting'], 'delivery')}", as_json=as_json)
    return 0


async def _noted_backlog(database: Database, page: int = _BACKLOG_PAGE) -> int:
    """Count the waiting deliveries page by page, so that no statement runs for long; store and return the count."""
    found: dict[tuple[str, str, str], tuple[int, datetime]] = {}
    place, examined = (0, 0), page
    while examined == page:
        rows = await database.fetch("gold.backlog_page", *place, page)
        place, examined = (rows[0]["event_id"], rows[0]["subscription_id"]), rows[0]["examined"]
        for row in rows:
            if row["waiting"] is not None:  # else no delivery of this page has both its event and its subscription
                name = (row["tenant"], row["topic"], row["subscription"])
                waiting, since = found.get(name, (0, row["since"]))
                found[name] = (waiting + row["waiting"], min(since, row["since"]))
    columns = zip(*((*name, *counted) for name, counted in found.items()), strict=True)
    if found:
        await database.execute("gold.put_backlog", *map(list, columns))
    return sum(waiting for waiting, _ in found.values())


async def _slo(
    settings: Settings, lake: LakeStorage, since: date, until: date, target: float, *, dry_run: bool, as_json: bool
) -> int:
    from pipeline.service import measured_days, overdrawn
    from pipeline.slo import slo_table

    if dry_run:
        days = sorted(measured_days(lake, since, until))
        print_result({"days": days}, f"{counted(len(days), 'day')} would be judged", as_json=as_json)
        return 0
    table = slo_table(lake)
    async with _database(settings) as database:
        made = await _gold(settings, lake, database, "slo", table, lambda of: of.refresh_slo(since, until, target))
    found = overdrawn(session("slo", settings), table, made["days"][-1]) if made["days"] else []
    names = ", ".join(row["subscription"] or "all together" for row in found)
    days_made, rows_put = len(made["days"]), counted(made["rows_in_database"], "row")
    words = f"{counted(days_made, 'day')} {were(days_made)} judged, {rows_put} put into the database"
    print_result(made | {"overdrawn": found}, f"{words}; overdrawn: {names or 'none'}", as_json=as_json)
    return 1 if found else 0


async def _gold(
    settings: Settings, lake: LakeStorage, database: Database, job: str, table: Table,
    make: Callable[[Service], list[date]],
) -> dict[str, Any]:  # fmt: skip
    from pipeline.runs import recorded_run
    from pipeline.service import Service

    with recorded_run(lake, job, {}) as noted:
        spark = session(job, settings)
        days = await asyncio.to_thread(make, Service(spark, lake, noted.id))
        since = _kept_since(settings.gold_retention_days)
        noted.counts = {"days": len(days), "rows_in_database": await _put(database, spark, job, table, since)}
    return {"days": days, "rows_in_database": noted.counts["rows_in_database"]}


def _kept_since(days: int) -> datetime:
    """Return the time before which rows are not stored in the database, because its retention has deleted them."""
    return datetime.now(UTC) - timedelta(days=days) if days else datetime.min.replace(tzinfo=UTC)


async def _put(database: Database, spark: Any, job: str, table: Table, since: datetime) -> int:
    """Store the rows of a gold table's commits since ``since`` that the database lacks, in one transaction.

    Return the number of rows.
    """
    from pipeline.service import rows_of

    statement, columns = _GOLD[job]
    seen = {row["batch"] for row in await database.fetch("gold.batches", job)}
    entries = [entry for entry in table.history() if datetime.fromisoformat(entry["at"]) >= since]
    batches = {f"{entry['version']}-{entry['run']}": entry["notes"].get("days", {}) for entry in entries}
    new = {batch: days for batch, days in batches.items() if batch not in seen}
    days = {date.fromisoformat(day) for named in new.values() for day in named}
    rows = await asyncio.to_thread(rows_of, spark, table, days)
    async with database.transaction() as transaction:
        taken = [await transaction.fetchval("gold.take_batch", job, batch) for batch in sorted(new)]
        if not any(taken):
            return 0
        for start in range(0, len(rows), _PAGE):
            page = rows[start : start + _PAGE]
            await transaction.execute(statement, *([row[name] for row in page] for name in columns))
    return len(rows)


def _database(settings: Settings) -> AbstractAsyncContextManager[Database]:
    from app.cli.database import opened_database

    # No index serves a query for a day of attempts, so it may take long.
    return opened_database(settings, connections_max=1, application_name="hookwire pipeline", statement_seconds=600)


def _midnight(day: date) -> datetime:
    return datetime.combine(day, datetime.min.time(), UTC)
