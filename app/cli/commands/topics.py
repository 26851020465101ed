"""``hookwire topics``: list topics, and show the settings of one."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from app.cli.data import segment
from app.cli.entry import Config, Json, Url, run
from app.cli.lines.stats import Until, print_stats, topic_lines
from app.cli.listing import print_listed, print_one
from app.cli.moment import shown_moment

__all__ = ["topics"]

topics = typer.Typer(help="Topics: list, show. `hookwire sync` changes their settings by a file.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="The topic.")]
SinceADay = Annotated[str | None, typer.Option("--since", help="As 7d, in whole hours. Default: a day.")]
Prefix = Annotated[str | None, typer.Option("--prefix", help="How the name begins.")]
Limit = Annotated[int, typer.Option("--limit", min=1, help="The largest number of topics.")]
_HEADS: Final = ("Topic", "Sinks", "Order", "Latest event", "Accepted")


@topics.command(name="list")
def list_all(
    prefix: Prefix = None, limit: Limit = 1000, url: Url = None, as_json: Json = False, config: Config = None
) -> None:
    """List topics by name, with their latest event.

    Example:

      hookwire topics list --prefix orders.
    """
    run(
        print_listed(
            "/topics", {"prefix": prefix}, limit, url, config, _HEADS, _row, ("Topic",),
            "there is no topic yet; the first `hookwire publish` makes one", as_json=as_json,
            no_match="there is no such topic",
        )
    )  # fmt: skip


@topics.command()
def show(topic: Name, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Print the settings of a topic as JSON; with --json on one line.

    Example:

      hookwire topics show orders.created
    """
    run(print_one(f"/topics/{segment(topic)}/settings", url, config, as_json=as_json))


@topics.command()
def stats(
    topic: Name,
    since: SinceADay = None,
    until: Until = None,
    url: Url = None,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """Print the rate of a topic, and what its sinks got of it.

    Example:

      hookwire topics stats orders.created --since 7d
    """
    path = f"/topics/{segment(topic)}/stats"
    run(print_stats(path, topic_lines, {"since": since, "until": until}, url, config, as_json=as_json))


def _row(one: dict[str, Any]) -> tuple[str, ...]:
    return (
        one["topic"], "(default)" if one["sinks"] is None else ", ".join(one["sinks"]), one["order"],
        one["last_event_id"] or "", shown_moment(one["last_accepted_at"]),
    )  # fmt: skip
