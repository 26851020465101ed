"""``hookwire incidents``: failures grouped by their cause."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from app.cli.data import segment
from app.cli.entry import Config, Json, Url, Why, run
from app.cli.listing import print_done, print_listed, print_one
from app.cli.moment import shown_moment
from runtime.counted import counted

__all__ = ["incidents"]

incidents = typer.Typer(
    help="Incidents, failures grouped by cause: list, show, recover, probe, acknowledge, resolve, ignore, reopen.",
    no_args_is_help=True,
)
Id = Annotated[str, typer.Argument(metavar="INCIDENT", help="inc_3, as `list` shows it.")]
State = Annotated[
    str | None,
    typer.Option("--state", help="open, acknowledged, resolved or ignored; without it: open and acknowledged."),
]
Kind = Annotated[str | None, typer.Option("--kind", help="cause, other, before or held.")]
Active = Annotated[bool, typer.Option("--active", help="Only those that fail more often than in the hour before.")]
Subscription = Annotated[str | None, typer.Option("--subscription", help="Of this subscription (sub_...).")]
Letter = Annotated[str | None, typer.Option("--letter", help="This dead letter (dlv_...); default: the oldest.")]
Content = Annotated[str | None, typer.Option("--content", help="Send this content instead.")]
Headers = Annotated[
    list[str] | None, typer.Option("--header", help="Send this header too, 'name: value'; may be repeated.")
]
Target = Annotated[str | None, typer.Option("--target", help="Send it to this URL, without a signature.")]
Limit = Annotated[int, typer.Option("--limit", min=1, help="The largest number of incidents.")]
Rate = Annotated[int | None, typer.Option("--rate", min=1, help="Deliveries per second; default: a pace of its own.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Count the dead letters and send nothing.")]
_HEADS: Final = ("Incident", "State", "For", "Cause", "Dead", "Waiting", "5 min", "Hour", "Latest")


@incidents.command(name="list")
def list_all(
    state: State = None, kind: Kind = None, active: Active = False, subscription: Subscription = None,
    limit: Limit = 1000, url: Url = None, as_json: Json = False, config: Config = None,
) -> None:  # fmt: skip
    """List incidents, newest first. Exit code 1: there is one.

    Examples:

      hookwire incidents list

      hookwire incidents list --active --json
    """
    asked = {"state": state, "kind": kind, "active": "true" if active else None, "subscription_id": subscription}
    run(
        print_listed(
            "/incidents", asked, limit, url, config, _HEADS, _row, ("For", "Cause"), "none: nothing fails",
            as_json=as_json, no_match="there is no such incident", fails=bool,
        )
    )  # fmt: skip


@incidents.command()
def show(incident: Id, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Print one incident as JSON; with --json on one line.

    Example:

      hookwire incidents show inc_3
    """
    run(print_one(f"/incidents/{segment(incident)}", url, config, as_json=as_json))


@incidents.command()
def acknowledge(incident: Id, why: Why = None, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Say that a person knows about an incident.

    Example:

      hookwire incidents acknowledge inc_3 --why 'the shop is told'
    """
    _turn(incident, "acknowledge", why, url, config, as_json=as_json)


@incidents.command()
def resolve(incident: Id, why: Why = None, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Say that the cause is gone. A later failure of the same cause opens the incident again.

    Example:

      hookwire incidents resolve inc_3 --why 'endpoint repaired'
    """
    _turn(incident, "resolve", why, url, config, as_json=as_json)


@incidents.command()
def ignore(incident: Id, why: Why = None, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Count an incident, and tell nobody about it any more.

    Example:

      hookwire incidents ignore inc_3 --why 'a test endpoint'
    """
    _turn(incident, "ignore", why, url, config, as_json=as_json)


@incidents.command()
def reopen(incident: Id, why: Why = None, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Take back an acknowledgement, an end, or that an incident is ignored.

    Example:

      hookwire incidents reopen inc_3
    """
    _turn(incident, "reopen", why, url, config, as_json=as_json)


@incidents.command()
def probe(
    incident: Id, letter: Letter = None, content: Content = None, header: Headers = None, target: Target = None,
    why: Why = None, url: Url = None, as_json: Json = False, config: Config = None,
) -> None:  # fmt: skip
    """Send one dead letter of an incident now, as it is or edited, and print the answer. Exit code 1: not delivered.

    Examples:

      hookwire incidents probe inc_3

      hookwire incidents probe inc_3 --content '{"total": 10}' --why 'without the discount'
    """
    pairs = [one.partition(":") for one in header or ()]
    asked = {
        "dead_letter_id": letter, "content": content, "target": target, "reason": why,
        "headers": {name.strip(): value.strip() for name, _, value in pairs} or None,
    }  # fmt: skip
    body = {name: value for name, value in asked.items() if value is not None}
    path = f"/incidents/{segment(incident)}/probe"
    run(print_done(path, body, _answer, url, config, as_json=as_json, fails=lambda done: not done["delivered"]))


@incidents.command()
def recover(
    incident: Id, rate: Rate = None, dry_run: DryRun = False, why: Why = None, url: Url = None, as_json: Json = False,
    config: Config = None,
) -> None:  # fmt: skip
    """Send one dead letter of an incident now. If it is delivered, enable its subscription, and send the others again.

    Exit code 1: it was not delivered, and nothing was changed.

    Examples:

      hookwire incidents recover inc_3 --rate 50 --dry-run

      hookwire incidents recover inc_3 --rate 50 --why 'the shop is back'
    """
    asked = {"rate_per_second": rate, "reason": why, "dry_run": dry_run or None}
    body = {name: value for name, value in asked.items() if value is not None}
    path = f"/incidents/{segment(incident)}/recover"
    run(print_done(path, body, _recovery, url, config, as_json=as_json, fails=_was_not_delivered))


def _turn(incident: str, verb: str, why: str | None, url: str | None, config: Path | None, *, as_json: bool) -> None:
    path = f"/incidents/{segment(incident)}/{verb}"
    run(print_done(path, {"reason": why}, lambda done: f"{incident} is {done['state']}", url, config, as_json=as_json))


def _was_not_delivered(done: dict[str, Any]) -> bool:
    return not (done["recovered"] or done["dry_run"])


def _recovery(done: dict[str, Any]) -> str:
    """Return what a recovery did, or would do."""
    if done["dry_run"]:
        return _would_recover(done)
    enabled = f"{done['subscription_id']} is enabled; " if done["enabled"] else ""
    missed = f", {done['missed_replay_id']} what it missed while it was disabled" if done["missed_replay_id"] else ""
    sent = f"{enabled}{done['replay_id']} sends the others again{missed}"
    return f"{_answer(done['probe'])}\n{sent if done['recovered'] else done['reason']}"


def _would_recover(done: dict[str, Any]) -> str:
    """Return what a delivered probe would lead to."""
    enabled = f" enable {done['subscription_id']} and" if done["enabled"] else ""
    number = f"{'more than ' if done['more'] else ''}{done['records']}"
    forecast = f", in {done['seconds_min']:g} s at least" if done["seconds_min"] else ""
    others = f"{'more than ' if done['missed_more'] else ''}{counted(done['missed'], 'event')}"
    missed = f", and {others} that it missed while it was disabled" if done["missed"] else ""
    return f"would send one, and if it is delivered{enabled} send {number} again{missed}{forecast}"


def _answer(probe: dict[str, Any]) -> str:
    """Return the answer of a receiver."""
    status = f" ({probe['status']})" if probe["status"] else ""
    ended = f"{probe['delivery_id']} {probe['outcome'].replace('_', ' ')}{status} in {probe['total_seconds']:.3f} s"
    words = probe["response_body"] or probe["detail"]
    return f"{ended}\n{words}" if words else ended


def _row(one: dict[str, Any]) -> tuple[str, ...]:
    state = f"{one['state']}, active" if one["active"] else one["state"]
    return (
        one["id"], state, one["callback"] or one["subscription_id"] or one["sink"], _cause(one), str(one["dead"]),
        str(one["waiting"]), str(one["failures_5_minutes"]), str(one["failures_hour_before"]),
        shown_moment(one["last_at"]),
    )  # fmt: skip


def _cause(one: dict[str, Any]) -> str:
    """Return the class with its status, and the beginning of the answer."""
    words = "several causes" if one["kind"] == "other" else one["outcome"].replace("_", " ")
    status = f" ({one['status']})" if one["status"] else ""
    return f"{words}{status}{': ' + one['excerpt'] if one['excerpt'] else ''}"
