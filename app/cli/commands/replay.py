"""``hookwire replay``: send events or dead letters again, and show the progress."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.entry import Config, Json, Url, Why, run, say
from app.cli.failure import CommandFailed

__all__ = ["replay"]

Subscription = Annotated[str | None, typer.Option("--subscription", help="The subscription that gets them (sub_...).")]
DeadLetters = Annotated[
    bool, typer.Option("--dead-letters", help="Only dead letters; without --subscription, those of all subscriptions.")
]
Topic = Annotated[str | None, typer.Option("--topic", help="Only events of this topic.")]
Events = Annotated[list[str] | None, typer.Option("--event", help="Only this event (evt_...); may be repeated.")]
Since = Annotated[str | None, typer.Option("--since", help="The start: 2026-01-15T09:00Z, or 2h for 2 hours ago.")]
Until = Annotated[str | None, typer.Option("--until", help="The end, in the same format.")]
Kinds = Annotated[
    list[str] | None,
    typer.Option(
        "--kind",
        help="Kind of dead letters: exhausted, too_late, declined, aborted, given_up, internal or gone; may be "
        "repeated.",
    ),
]
Statuses = Annotated[list[int] | None, typer.Option("--status", help="Status of the last answer; may be repeated.")]
Incident = Annotated[str | None, typer.Option("--incident", help="Only dead letters of this incident (inc_...).")]
Rate = Annotated[int | None, typer.Option("--rate", min=1, help="Deliveries per second; default: a pace of its own.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Count the deliveries and send none.")]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Show the progress until the replay is done.")]
_DEADLINE_SECONDS = 60.0


def replay(
    subscription: Subscription = None, dead_letters: DeadLetters = False, topic: Topic = None, event: Events = None,
    since: Since = None, until: Until = None, kind: Kinds = None, status: Statuses = None,
    incident: Incident = None, rate: Rate = None, why: Why = None, dry_run: DryRun = False, wait: Wait = True,
    url: Url = None, as_json: Json = False, config: Config = None,
) -> None:  # fmt: skip
    """Send events again to a subscription, or dead letters to their subscriptions. Ctrl-C does not end the replay.

    Examples:

      hookwire replay --subscription sub_3f1c0a9be2d45c7780aa --since 2h --dry-run

      hookwire replay --dead-letters --since 2026-01-15T09:00Z --status 503 --rate 50 --why 'the shop is back'

      hookwire replay --dead-letters --incident inc_3 --rate 50
    """
    from app.cli.moment import moment

    first, last = moment("--since", since), moment("--until", until)
    if first and last and datetime.fromisoformat(first) >= datetime.fromisoformat(last):
        raise CommandFailed(f"--until {until} is not after --since {since}: with spans, the larger one is --since", 2)
    asked = {
        "source": "dead_letters" if dead_letters else "events", "subscription_id": subscription, "topic": topic,
        "event_ids": event or None, "since": first, "until": last,
        "kinds": kind or None, "statuses": status or None, "incident_id": incident,
        "rate_per_second": rate, "reason": why,
    }  # fmt: skip
    if subscription is None and not dead_letters:
        raise CommandFailed("name who gets them by --subscription, or choose --dead-letters", 2)
    body = {name: value for name, value in asked.items() if value is not None} | {"dry_run": dry_run}
    run(_replay(body, url, wait, as_json, config))


async def _replay(body: dict[str, Any], url: str | None, wait: bool, as_json: bool, config: Path | None) -> int:
    from app.cli.hub_client import AS_JSON, hub_of, post

    hub = hub_of(url, config)
    content = json.dumps(body).encode("ascii")
    made, _ = await post(f"{hub}/replays", content, AS_JSON, deadline_seconds=_DEADLINE_SECONDS)
    if wait and not body["dry_run"]:
        made = await _watched(f"{hub}/replays/{made['id']}", made)
    if as_json:
        say(json.dumps(made))
    elif body["dry_run"]:
        span = f", from {made['oldest']} to {made['newest']}" if made["records"] else ""
        forecast = f", in {made['seconds_min']:g} s at least" if made["seconds_min"] else ""
        say(f"would send {'more than ' if made['more'] else ''}{made['records']}{span}{forecast}")
    else:
        say(f"{made['id']} {made['state']}: {made['replayed']} sent again")
    return 0


async def _watched(address: str, replay: Any) -> Any:
    """Poll until the replay has ended or is paused, and show its progress on standard error."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from app.cli.hub_client import get

    console = Console(stderr=True)
    words = ("{task.percentage:.0f} %", "{task.fields[sent]} sent")
    columns = (TextColumn(replay["id"]), BarColumn(), *map(TextColumn, words), TimeElapsedColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("replay", total=1.0, sent=0)
        while replay["state"] == "running":
            bar.update(task, completed=replay["progress"], sent=replay["replayed"])
            await asyncio.sleep(0.3)
            replay = await get(address)
        bar.update(task, completed=replay["progress"], sent=replay["replayed"])
    return replay
