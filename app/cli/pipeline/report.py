"""``hookwire pipeline report``: writes one HTML file about volume, latency, failures, the lake's age and the audit."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from app.cli.entry import Config, Json, run, say, settings_from
from app.cli.failure import CommandFailed
from app.cli.pipeline.auditing.file import audit_of
from app.cli.pipeline.insight import Since, Until, days_of, insight_of
from app.cli.pipeline.lake import Lake, lake_of, told_failures
from app.settings.settings import Settings
from runtime.counted import counted

if TYPE_CHECKING:
    from db.pool import Session
    from pipeline.report.figures import Figures
    from pipeline.storage import LakeStorage

__all__ = ["report"]

_THRESHOLD: Final = 6.0
_JOBS: Final = ("archive", "deliveries", "audit")

Output = Annotated[Path, typer.Option("--output", help="The file to write.")]
Audit = Annotated[Path | None, typer.Option("--audit", help="The output of `audit --json`.")]
Target = Annotated[float, typer.Option("--target", min=0.5, max=0.99999, help="Share of attempts that should succeed.")]


def report(
    output: Output = Path("hookwire-report.html"), since: Since = None, until: Until = None, audit: Audit = None,
    target: Target = 0.99, lake: Lake = None, as_json: Json = False, config: Config = None,
) -> None:  # fmt: skip
    """Write a report that a person can open in a browser, without a network. Each number has its query there.

    Its numbers are those of the lake: run `hookwire pipeline deliveries` first. The database only gives the endpoints
    their names and hosts, and how the last audit ended.

    Examples:

      hookwire pipeline deliveries; hookwire pipeline report

      hookwire pipeline audit --json > audit.json; hookwire pipeline report --audit audit.json

      hookwire pipeline report --since 7d --target 0.999 --output week.html
    """
    days, settings = days_of(since, until), settings_from(config)
    storage = lake_of(lake, settings)
    audited = audit_of(audit, storage) if audit is not None else None
    with told_failures():
        run(_report(settings, storage, days, audited, target, output, as_json=as_json))


async def _report(
    settings: Settings, storage: LakeStorage, days: tuple[date, date], audit: dict[str, Any] | None, target: float,
    output: Path, *, as_json: bool,
) -> int:  # fmt: skip
    from app.cli.database import opened_connection
    from pipeline.report.figures import summary

    # The connection comes first, so that a database that does not answer is told before Spark works.
    async with opened_connection(settings, application_name="hookwire report", statement_seconds=600) as connection:
        found = await asyncio.to_thread(_figures, settings, storage, days, audit, target)
        found = await _known(connection, storage, found)
    _write(found, output)
    if as_json:
        say(json.dumps({"output": str(output), **summary(found)}, default=lambda moment: moment.isoformat()))
    else:
        attempts = sum(row["attempts"] for row in found.answers["attempts"])
        say(f"{output}: {counted(attempts, 'attempt')}; open it in a browser")
    return 0


def _figures(
    settings: Settings, storage: LakeStorage, days: tuple[date, date], audit: dict[str, Any] | None, target: float
) -> Figures:
    """Return what the lake knows."""
    from pipeline.report.figures import Figures, Job
    from pipeline.runs import newest_runs

    since, until = _midnight(days[0]), _midnight(days[1] + timedelta(days=1))
    insight = insight_of("report", storage.uri, settings, *days)
    answers = insight.answers(settings.pipeline_late_seconds)
    anomalies = insight.anomalies(since, until, _THRESHOLD)
    runs = newest_runs(storage)
    jobs = [
        Job(name, datetime.fromisoformat(runs[name].started_at), runs[name].state) for name in _JOBS if name in runs
    ]
    return Figures(
        since, until, datetime.now(UTC), storage.uri, answers, anomalies, jobs=jobs, audit=audit, target=target
    )


async def _known(connection: Session, storage: LakeStorage, figures: Figures) -> Figures:
    """Add what the database knows: the names of the endpoints, attempts to copy, and how the last audit ended."""
    from pipeline.day import counts_of_days
    from pipeline.delivery import delivery_table
    from pipeline.report.figures import Endpoint

    rows = await connection.fetch("lake.endpoints", sorted(figures.subscriptions))
    endpoints = {row["public_id"]: Endpoint(row["name"], row["host"], row["topic"]) for row in rows}
    counts = await connection.fetch("lake.attempt_days", figures.since, figures.until)
    copied = await asyncio.to_thread(lambda: counts_of_days(delivery_table(storage).snapshot()))
    uncopied = sum(max(0, row["attempts"] - copied.get(row["day"], 0)) for row in counts)
    last = await connection.fetchrow("lake_mark.audit", storage.uri)
    return replace(figures, endpoints=endpoints, uncopied=uncopied, last_audit=last)


def _write(figures: Figures, output: Path) -> None:
    from pipeline.report.page import page

    try:
        output.write_text(page(figures), encoding="utf-8")
    except OSError as error:
        raise CommandFailed(f"cannot write {output}: {error}", 2) from None


def _midnight(day: date) -> datetime:
    return datetime.combine(day, datetime.min.time(), UTC)
