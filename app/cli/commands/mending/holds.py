"""``hookwire holds``: records that wait because a sink refused one of their key or topic."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from app.cli.commands.mending import deadletters
from app.cli.data import segment
from app.cli.entry import Config, Json, Url, run
from app.cli.failure import CommandFailed
from app.cli.lines.narrow import Narrow
from app.cli.listing import print_listed, print_one
from app.cli.moment import shown_moment

__all__ = ["holds"]

holds = typer.Typer(
    help="Holds: list, show, retry, give up the records that wait behind a refused one.", no_args_is_help=True
)
Id = Annotated[str, typer.Argument(help="hold_3, as `list` shows it.")]
Why = Annotated[str | None, typer.Option("--why", help="Goes into the audit trail.")]
All = Annotated[bool, typer.Option("--all", help="Every record that waits, not only the oldest.")]
Sink = Annotated[str | None, typer.Option("--sink", help="kafka, amqp or webhooks.")]
Topic = Annotated[str | None, typer.Option("--topic", help="This topic alone.")]
Limit = Annotated[int, typer.Option("--limit", min=1, help="The largest number of holds.")]
_HEADS: Final = ("Hold", "Sink", "Topic", "Key", "Records", "Next", "Reason")
_NARROW: Final = Narrow(
    ("Hold", "Sink", "Records:", "Topic", "Key"), ("Next:", "Reason"), cuts=("Topic", "Key", "Reason")
)


@holds.command(name="list")
def list_all(
    sink: Sink = None, topic: Topic = None, limit: Limit = 1000, url: Url = None, as_json: Json = False,
    config: Config = None,
) -> None:  # fmt: skip
    """List holds. Exit code 1: there is one.

    Example:

      hookwire holds list --sink kafka
    """
    run(
        print_listed(
            "/holds", {"sink": sink, "topic": topic}, limit, url, config, _HEADS, _row, ("Topic", "Key", "Reason"),
            "none: no sink holds back a key or a topic", as_json=as_json, no_match="there is no such hold",
            narrow=_NARROW, fails=bool,
        )
    )  # fmt: skip


@holds.command()
def show(hold: Id, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Print one hold as JSON; with --json on one line.

    Example:

      hookwire holds show hold_3
    """
    run(print_one(f"/holds/{segment(hold)}", url, config, as_json=as_json))


@holds.command()
def retry(hold: Id, why: Why = None, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Try the oldest record of a hold now.

    Example:

      hookwire holds retry hold_3 --why 'the broker takes larger records now'
    """
    _require_hold(hold, "retry")
    deadletters.retry(hold, why=why, url=url, as_json=as_json, config=config)


@holds.command()
def give_up(
    hold: Id, everything: All = False, why: Why = None, url: Url = None, as_json: Json = False, config: Config = None
) -> None:
    """Make a dead letter of the oldest record of a hold, so that the next one goes on; with --all, of every record.

    Example:

      hookwire holds give-up hold_3 --why 'malformed, ticket 4711'
    """
    _require_hold(hold, "give-up")
    deadletters.give_up(hold, everything=everything, why=why, url=url, as_json=as_json, config=config)


def _require_hold(hold: str, verb: str) -> None:
    if not hold.startswith("hold_"):
        raise CommandFailed(f"{hold} is not a hold; for a delivery use: hookwire deadletters {verb} {hold}", 2)


def _row(one: dict[str, Any]) -> tuple[str, ...]:
    return (
        one["id"], one["sink"], one["topic"], one["key"] or f"({one['scope']})", str(one["records"]),
        shown_moment(one["next_attempt_at"]), f"{one['reason']}: {one['detail']}",
    )  # fmt: skip
