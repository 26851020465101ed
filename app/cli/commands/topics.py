"""``hookwire topics``: list topics; show the settings and the schema of one, and set its schema."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from app.cli.data import read_data, segment
from app.cli.entry import Config, Json, Url, parsed, run
from app.cli.lines.stats import Until, print_stats, topic_lines
from app.cli.listing import print_done, print_listed, print_one
from app.cli.moment import shown_moment

__all__ = ["topics"]

topics = typer.Typer(
    help="Topics: list, show, schema. `hookwire sync` changes their settings by a file.", no_args_is_help=True
)
Name = Annotated[str, typer.Argument(help="The topic.")]
SinceADay = Annotated[str | None, typer.Option("--since", help="As 7d, in whole hours. Default: a day.")]
Prefix = Annotated[str | None, typer.Option("--prefix", help="How the name begins.")]
Limit = Annotated[int, typer.Option("--limit", min=1, help="The largest number of items.")]
Version = Annotated[int | None, typer.Option("--version", min=1, help="A version of the schema. Default: the newest.")]
Schema = Annotated[str, typer.Argument(help="The JSON Schema: text, @file, or - for standard input.")]
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
def schema(topic: Name, version: Version = None, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Print the JSON Schema of a topic's events, of which the lake makes columns.

    Example:

      hookwire topics schema orders.created --version 2
    """
    params = {} if version is None else {"version": str(version)}
    run(print_one(f"/topics/{segment(topic)}/schema", url, config, as_json=as_json, params=params))


@topics.command()
def schemas(topic: Name, limit: Limit = 1000, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """List the versions of a topic's schema, the newest first.

    Example:

      hookwire topics schemas orders.created
    """
    run(
        print_listed(
            f"/topics/{segment(topic)}/schemas", {}, limit, url, config, ("Version", "Stored"),
            lambda one: (str(one["version"]), shown_moment(one["made_at"])), (), f"{topic} has no schema",
            as_json=as_json,
        )
    )  # fmt: skip


@topics.command()
def set_schema(topic: Name, schema: Schema, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Store the next version of a topic's schema. `hookwire pipeline schema --propose` makes a first one.

    Example:

      hookwire topics set-schema orders.created @orders.schema.json
    """
    asked = {"schema": parsed("schema", read_data(schema).decode("utf-8", "replace"))}
    path = f"/topics/{segment(topic)}/schema"
    run(print_done(path, asked, _schema_words, url, config, as_json=as_json, method="PUT"))


def _schema_words(done: dict[str, Any]) -> str:
    words = f"{done['topic']} has version {done['version']} of its schema"
    return f"{words}; no column comes from {', '.join(done['ignored'])}" if done["ignored"] else words


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
