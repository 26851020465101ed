"""``hookwire pipeline usage``, ``anomaly``, ``schema`` and ``deadletter``: statistics of the lake."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.entry import Config, Json, Url, run, say, settings_from
from app.cli.failure import CommandFailed
from app.cli.pipeline.lake import Lake, Topic, lake_of, session, told_failures
from app.settings.settings import Settings

__all__ = ["anomaly", "days_of", "deadletter", "insight_of", "schema", "usage"]

Since = Annotated[
    str | None, typer.Option("--since", help="First day: 2026-01-15, or 7d for 7 days ago (default: 28d).")
]
Until = Annotated[str | None, typer.Option("--until", help="Last day (default: yesterday).")]
Threshold = Annotated[float, typer.Option("--threshold", min=1, help="Robust standard deviations of an anomaly.")]
Propose = Annotated[
    bool, typer.Option("--propose", help="Print a JSON Schema of --topic, for `hookwire topics set-schema`.")
]
_PAGE = 500
_LETTERS_MAX = 200_000


def usage(
    since: Since = None, until: Until = None, lake: Lake = None, as_json: Json = False, config: Config = None
) -> None:
    """Count events and bytes by day and Kafka topic. Each event counts once; repeated runs print the same rows.

    Examples:

      hookwire pipeline usage --since 2026-01-01 --until 2026-01-31 --json
    """
    days = days_of(since, until)
    with told_failures():
        rows = insight_of("usage", lake, settings_from(config), *days).usage()
    _show(rows, as_json)


def schema(
    topic: Topic = None, since: Since = None, until: Until = None, propose: Propose = False, lake: Lake = None,
    as_json: Json = False, config: Config = None,
) -> None:  # fmt: skip
    """Show the schema of each topic's JSON by day. Exit code 1: a schema changed from one day to the next.

    With --propose it prints one JSON Schema that all JSON objects of these days fit. Nothing in it is required.

    Examples:

      hookwire pipeline schema --topic orders --since 7d

      hookwire pipeline schema --topic orders --propose > orders.schema.json
    """
    days = days_of(since, until)
    if propose:
        _propose(topic, lake, config, days, as_json=as_json)
        return
    with told_failures():
        rows = insight_of("schema", lake, settings_from(config), *days).schemas(topic)
    _show(rows, as_json, findings=sum(row["before"] is not None for row in rows))


def _propose(
    topic: str | None, lake: str | None, config: Path | None, days: tuple[date, date], *, as_json: bool
) -> None:
    if topic is None:
        raise CommandFailed("--propose is for one topic: name it by --topic", 2)
    with told_failures():
        found = insight_of("schema", lake, settings_from(config), *days).proposed_schema(topic)
    if found is None:
        raise CommandFailed(f"{topic} has no JSON object from {days[0]} to {days[1]}", 1)
    say(json.dumps(found, ensure_ascii=False, indent=None if as_json else 2))


def anomaly(
    since: Since = None, until: Until = None, threshold: Threshold = 6.0, lake: Lake = None, as_json: Json = False,
    config: Config = None,
) -> None:  # fmt: skip
    """List hours in which a topic carried far more or fewer events than usual, or none. Exit code 1: there are some.

    Examples:

      hookwire pipeline anomaly --since 7d --threshold 8
    """
    first, last = days_of(since, until)
    begin = datetime.combine(first, datetime.min.time(), UTC)
    end = datetime.combine(last + timedelta(days=1), datetime.min.time(), UTC)
    with told_failures():
        insight = insight_of("anomaly", lake, settings_from(config), first, last)
        rows = insight.anomalies(begin, end, threshold)
    _show(rows, as_json, findings=len(rows))


def deadletter(url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Group the hub's dead letters by receiver and cause, with count, times and cure. Exit code 1: there are some.

    Examples:

      hookwire pipeline deadletter
    """
    run(_deadletter(settings_from(config), url, as_json))


async def _deadletter(settings: Settings, url: str | None, as_json: bool) -> int:
    from app.cli.hub_client import get, hub_url
    from pipeline.insight import dead_letter_clusters

    hub = hub_url(url, settings)
    letters: list[tuple[Any, ...]] = []
    params = {"limit": str(_PAGE)}
    while len(letters) < _LETTERS_MAX:
        page = await get(f"{hub}/dead-letters", params=params)
        letters += [
            (d["subscription_id"] or d["sink"], d["topic"], d["kind"], d["last_status"], d["last_outcome"], d["detail"],
             datetime.fromisoformat(d["died_at"]))
            for d in page["items"]
        ]  # fmt: skip
        if page["next_cursor"] is None:
            break
        params["cursor"] = page["next_cursor"]
    rows = dead_letter_clusters(session("deadletter", settings), letters) if letters else []
    _print(rows, as_json)
    return 1 if rows else 0


def days_of(since: str | None, until: str | None) -> tuple[date, date]:
    """Return the first and the last day, by default of the last 28 days that have ended. Raises ``CommandFailed``."""
    from app.cli.moment import moment

    last = _day(moment("--until", until)) if until else datetime.now(UTC).date() - timedelta(days=1)
    first = _day(moment("--since", since)) if since else last - timedelta(days=27)
    if first > last:
        raise CommandFailed(f"the first day {first} is after the last one {last}", 2)
    return first, last


def _day(moment: str | None) -> date:
    assert moment is not None, "a text was given"
    return datetime.fromisoformat(moment).astimezone(UTC).date()


def insight_of(job: str, lake: str | None, settings: Settings, since: date, until: date) -> Any:
    """Return the jobs over these days."""
    storage = lake_of(lake, settings)
    from pipeline.insight import Insight

    return Insight(session(job, settings), storage, since, until)


def _show(rows: Sequence[dict[str, Any]], as_json: bool, findings: int = 0) -> None:
    _print(rows, as_json)
    raise typer.Exit(1 if findings else 0)


def _print(rows: Sequence[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        say(json.dumps(rows, default=lambda moment: moment.isoformat()))
        return
    from app.cli.table import show

    if not rows:
        say("nothing")
        return
    heads = [name.replace("_", " ").capitalize() for name in rows[0]]
    show(heads, [[_cell(value) for value in row.values()] for row in rows], folds=heads)


def _cell(value: object) -> str:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M}"
    if isinstance(value, list):
        return ", ".join(value)
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
