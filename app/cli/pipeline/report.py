"""``hookwire pipeline report``: writes one HTML file about volume, latency, retries, error budget and audit."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.entry import Config, Json, run, say, settings_from
from app.cli.failure import CommandFailed
from app.cli.pipeline.insight import Since, Until, days_of, insight_of
from app.cli.pipeline.lake import Lake, told_failures
from app.settings.settings import Settings
from runtime.counted import counted

if TYPE_CHECKING:
    from pipeline.report.figures import AttemptCounts, Figures

__all__ = ["report"]

_FAILING_SHOWN = 10

Output = Annotated[Path, typer.Option("--output", help="The file to write.")]
Audit = Annotated[Path | None, typer.Option("--audit", help="The output of `audit --json`.")]
Target = Annotated[float, typer.Option("--target", min=0.5, max=0.99999, help="Share of attempts that should succeed.")]


def report(
    output: Output = Path("hookwire-report.html"), since: Since = None, until: Until = None, audit: Audit = None,
    target: Target = 0.99, lake: Lake = None, as_json: Json = False, config: Config = None,
) -> None:  # fmt: skip
    """Write a report that a person can open in a browser, without a network.

    Examples:

      hookwire pipeline audit --json > audit.json; hookwire pipeline report --audit audit.json

      hookwire pipeline report --since 7d --target 0.999 --output week.html
    """
    days = days_of(since, until)
    with told_failures():
        run(_report(settings_from(config), lake, days, _audit(audit), target, output, as_json=as_json))


def _audit(file: Path | None) -> dict[str, Any] | None:
    if file is None:
        return None
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        if not {"count", "findings", "records", "cells", "unequal", "unjudged", "since", "until"} <= set(found):
            raise ValueError("members are missing")
        for moment in (found["since"], found["until"], *(finding["hour"] for finding in found["findings"])):
            datetime.fromisoformat(moment)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise CommandFailed(f"{file} is not a report of `hookwire pipeline audit --json`: {error}", 2) from None
    return found


async def _report(
    settings: Settings, lake: str | None, days: tuple[date, date], audit: dict[str, Any] | None, target: float,
    output: Path, *, as_json: bool,
) -> int:  # fmt: skip
    from pipeline.report.figures import summary

    since = datetime.combine(days[0], datetime.min.time(), UTC)
    until = datetime.combine(days[1] + timedelta(days=1), datetime.min.time(), UTC)
    attempts = await _attempts(settings, since, until)

    def figures() -> Figures:
        from pipeline.report.figures import Figures

        insight = insight_of("report", lake, settings, *days)
        volume: dict[str, dict[datetime, int]] = {}
        for row in insight.volume():
            volume.setdefault(row["topic"], {})[row["hour"]] = row["records"]
        anomalies = insight.anomalies(since, until, 6.0)
        failing = insight.failing(_FAILING_SHOWN)
        return Figures(since, until, datetime.now(UTC), volume, attempts, anomalies, failing, audit, target)

    found = await asyncio.to_thread(figures)
    _write(found, output)
    if as_json:
        say(json.dumps({"output": str(output), **summary(found)}, default=lambda moment: moment.isoformat()))
    else:
        say(f"{output}: {counted(sum(hour.attempts for hour in attempts), 'attempt')}; open it in a browser")
    return 0


def _write(figures: Figures, output: Path) -> None:
    from pipeline.report.page import page

    try:
        output.write_text(page(figures), encoding="utf-8")
    except OSError as error:
        raise CommandFailed(f"cannot write {output}: {error}", 2) from None


async def _attempts(settings: Settings, since: datetime, until: datetime) -> list[AttemptCounts]:
    from app.cli.database import opened_connection
    from pipeline.report.figures import AttemptCounts

    async with opened_connection(settings, application_name="hookwire report", statement_seconds=600) as connection:
        rows = await connection.fetch("lake.attempts", since, until)
    return [AttemptCounts(**{**row, "seconds": tuple(row["seconds"])}) for row in rows]
