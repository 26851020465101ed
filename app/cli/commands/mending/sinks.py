"""``hookwire sinks``: where events go from the outbox; pause one, and resume it."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from app.cli.data import segment
from app.cli.entry import Config, Json, Url, Why, run
from app.cli.lines.narrow import Narrow
from app.cli.listing import print_done, print_listed, print_one
from app.cli.moment import shown_moment

__all__ = ["sinks"]

sinks = typer.Typer(
    help="Sinks: list, show, forecast, pause, resume where events go: kafka, amqp, webhooks, jobs.",
    no_args_is_help=True,
)
Name = Annotated[str, typer.Argument(metavar="SINK", help="kafka, amqp, webhooks or jobs.")]
_HEADS: Final = ("Sink", "State", "Waiting", "Held", "Oldest", "Leader", "Paused")
_NARROW: Final = Narrow(("Sink", "State", "Waiting:", "Held:"), ("Oldest:", "Leader:", "Paused"), ends=("Paused",))


@sinks.command(name="list")
def list_all(url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """List sinks, and what waits for each. Exit code 1: one is paused.

    Example:

      hookwire sinks list
    """
    run(
        print_listed(
            "/sinks", {}, None, url, config, _HEADS, _row, ("Leader", "Paused"), "there is none", as_json=as_json,
            narrow=_NARROW, fails=lambda found: any(one["paused"] for one in found),
        )
    )  # fmt: skip


@sinks.command()
def show(sink: Name, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Print one sink as JSON; with --json on one line.

    Example:

      hookwire sinks show kafka
    """
    run(print_one(f"/sinks/{segment(sink)}", url, config, as_json=as_json))


@sinks.command()
def forecast(sink: Name, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Print as JSON how much would wait for each hour of a pause; with --json on one line.

    Example:

      hookwire sinks forecast kafka
    """
    run(print_one(f"/sinks/{segment(sink)}/forecast", url, config, as_json=as_json))


@sinks.command()
def pause(sink: Name, why: Why = None, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Send nothing more to a sink, in every process, until it is resumed. Events are accepted and wait.

    Example:

      hookwire sinks pause kafka --why 'Kafka moves'
    """
    run(print_done(f"/sinks/{segment(sink)}/pause", {"reason": why}, _state, url, config, as_json=as_json))


@sinks.command()
def resume(sink: Name, why: Why = None, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Send what waits for a sink, oldest first.

    Example:

      hookwire sinks resume kafka
    """
    run(print_done(f"/sinks/{segment(sink)}/resume", {"reason": why}, _state, url, config, as_json=as_json))


def _row(one: dict[str, Any]) -> tuple[str, ...]:
    state = "paused" if one["paused"] else "on" if one["configured"] else "not configured"
    return (
        one["sink"], state, _count(one["waiting"]), _count(one["held"]), shown_moment(one["oldest_at"]),
        one["leader"] or "", _paused(one),
    )  # fmt: skip


def _count(number: int | None) -> str:
    return "?" if number is None else str(number)


def _paused(one: dict[str, Any]) -> str:
    """Return who paused it, since when and why."""
    if not one["paused"]:
        return ""
    return (
        f"by {one['paused_by']} since {shown_moment(one['paused_at'])}{': ' + one['reason'] if one['reason'] else ''}"
    )


def _state(sink: dict[str, Any]) -> str:
    return f"{sink['sink']} is {f'paused {_paused(sink)}' if sink['paused'] else 'not paused'}"
