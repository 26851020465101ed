"""``hookwire events``: search the stored events, show the state of one, and what happened to it."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Final

import typer

from app.cli.data import segment
from app.cli.entry import Config, Json, Url, run, say
from app.cli.lines.one_line import on_one_line
from app.cli.listing import print_listed, print_one
from app.cli.moment import shown_moment

__all__ = ["events"]

events = typer.Typer(help="Events: list by topic, key, time and outcome; show one; trace one.", no_args_is_help=True)
Id = Annotated[str, typer.Argument(help="evt_..., as `hookwire publish` prints it.")]
Topic = Annotated[str | None, typer.Option("--topic", help="This topic alone.")]
Key = Annotated[str | None, typer.Option("--key", help="This ordering key alone.")]
Since = Annotated[str | None, typer.Option("--since", help="2026-01-15T09:00Z, or 2h: that long ago.")]
Until = Annotated[str | None, typer.Option("--until", help="The end, in the same form as --since.")]
Outcome = Annotated[str | None, typer.Option("--outcome", help="waiting, dead or delivered.")]
Limit = Annotated[int, typer.Option("--limit", min=1, help="The largest number of events.")]
_HEADS: Final = ("Event", "Topic", "Key", "Bytes", "Outcome", "Accepted")


@events.command(name="list")
def list_all(
    topic: Topic = None, key: Key = None, since: Since = None, until: Until = None, outcome: Outcome = None,
    limit: Limit = 50, url: Url = None, as_json: Json = False, config: Config = None,
) -> None:  # fmt: skip
    """List events, newest first.

    Examples:

      hookwire events list --topic orders.created --since 2h

      hookwire events list --outcome dead --json
    """
    from app.cli.moment import moment

    asked = {
        "topic": topic, "key": key, "since": moment("--since", since), "until": moment("--until", until),
        "outcome": outcome,
    }  # fmt: skip
    nothing = "there is no such event"
    run(print_listed("/events", asked, limit, url, config, _HEADS, _row, ("Topic", "Key"), nothing, as_json=as_json))


@events.command()
def show(event: Id, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Show the state of an event at each sink and each subscription; with --json also its content.

    Example:

      hookwire events show evt_k3v7q2ha_42
    """
    run(print_one(f"/events/{segment(event)}", url, config, as_json=as_json, show=_print_state))


def _row(one: dict[str, Any]) -> tuple[str, ...]:
    return (
        one["id"],
        one["topic"],
        one["key"] or "",
        str(one["bytes"]),
        one["outcome"],
        shown_moment(one["accepted_at"]),
    )


def _print_state(found: dict[str, Any]) -> None:
    from app.cli.table import show as show_table

    about = [found["id"], found["topic"], *([f"key {found['key']}"] if found["key"] else []), found["state"]]
    erased = [f"its contents were erased at {shown_moment(found['erased_at'])}"] if found["erased_at"] else []
    for line in ("  ".join(about), found["reason"], *erased):
        say(on_one_line(line, is_terminal=sys.stdout.isatty()))
    rows = [(one["sink"], one["state"], shown_moment(one["next_attempt_at"]), one["reason"]) for one in found["sinks"]]
    rows += [
        (f"{one['id']} {one['callback']}".strip(), one["state"], shown_moment(one["next_attempt_at"]), one["reason"])
        for one in found["deliveries"]
    ]
    if rows:
        show_table(("For", "State", "Next", "Reason"), rows, ("For", "Reason"))


@events.command()
def trace(event: Id, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Show what happened to an event, step by step: sinks, deliveries, attempts, and subscriptions that did not match.

    Example:

      hookwire events trace evt_k3v7q2ha_42
    """
    run(print_one(f"/events/{segment(event)}/timeline", url, config, as_json=as_json, show=_print_steps))


def _print_steps(found: dict[str, Any]) -> None:
    from app.cli.table import show as show_table

    for line in (f"{found['event_id']}  {found['topic']}  {found['state']}", found["summary"]):
        say(on_one_line(line, is_terminal=sys.stdout.isatty()))
    show_table(("When", "Step", "State", "Reason"), [_step(one) for one in found["steps"]], ("Step", "Reason"))


def _step(one: dict[str, Any]) -> tuple[str, ...]:
    number = f" attempt {one['number']}" if one["number"] else ""
    kind = "" if one["kind"] in ("attempt", "accepted") else f"{one['kind']} "
    return (shown_moment(one["at"]), f"{kind}{one['name']}{number}", one["state"], one["reason"])
