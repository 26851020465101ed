"""``hookwire topics``: list topics, and show the settings of one."""

from __future__ import annotations

import json
from typing import Annotated, Any
from urllib.parse import quote

import typer

from app.cli.entry import Config, Json, Url, run, say, settings_from

__all__ = ["topics"]

topics = typer.Typer(help="Topics: list, show. `hookwire sync` changes their settings by a file.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="The topic.")]
Limit = Annotated[int, typer.Option("--limit", min=1, help="The largest number of topics.")]


@topics.command(name="list")
def list_all(limit: Limit = 1000, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """List topics by name, with their latest event.

    Example:

      hookwire topics list
    """
    run(_list(limit, url, as_json, config))


@topics.command()
def show(topic: Name, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Print the settings of a topic as JSON; with --json on one line.

    Example:

      hookwire topics show orders.created
    """
    run(_show(topic, url, as_json, config))


async def _list(limit: int, url: str | None, as_json: bool, config: Any) -> int:
    from app.cli.hub_client import get_all, hub_url
    from app.cli.table import show as show_table

    found = await get_all(f"{hub_url(url, settings_from(config))}/topics", most=limit)
    if as_json:
        say(json.dumps(found))
    elif found:
        rows = [
            (one["topic"], "(default)" if one["sinks"] is None else ", ".join(one["sinks"]), one["order"],
             one["last_event_id"] or "", (one["last_accepted_at"] or "")[:19])
            for one in found
        ]  # fmt: skip
        show_table(("Topic", "Sinks", "Order", "Latest event", "Accepted"), rows, ("Topic",))
    else:
        say("there is no topic yet; the first `hookwire publish` makes one")
    return 0


async def _show(topic: str, url: str | None, as_json: bool, config: Any) -> int:
    from app.cli.hub_client import get, hub_url

    found = await get(f"{hub_url(url, settings_from(config))}/topics/{quote(topic, safe='')}/settings")
    say(json.dumps(found, indent=None if as_json else 2))
    return 0
