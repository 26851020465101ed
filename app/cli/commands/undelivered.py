"""``hookwire undelivered``: the accepted events that a receiver has not got, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from app.cli.entry import Config, Json, Url, run, say, settings_from

__all__ = ["undelivered"]

Subscription = Annotated[
    str | None, typer.Option("--subscription", help="Only events for this subscription (sub_...).")
]
Outcome = Annotated[str | None, typer.Option("--outcome", help="waiting (still owed) or dead (given up).")]
Limit = Annotated[int, typer.Option("--limit", min=1, help="The largest number of events.")]


def undelivered(
    subscription: Subscription = None, outcome: Outcome = None, limit: Limit = 100, url: Url = None,
    as_json: Json = False, config: Config = None,
) -> None:  # fmt: skip
    """List accepted events that are not delivered, with the reason and the next attempt. Exit code 1: there is one.

    Examples:

      hookwire undelivered

      hookwire undelivered --outcome dead --json
    """
    asked = {"subscription_id": subscription, "outcome": outcome}
    run(_undelivered({name: value for name, value in asked.items() if value is not None}, limit, url, as_json, config))


async def _undelivered(params: dict[str, str], limit: int, url: str | None, as_json: bool, config: Path | None) -> int:
    from app.cli.hub_client import get_all, hub_url
    from app.cli.table import show

    found = await get_all(f"{hub_url(url, settings_from(config))}/undelivered", params, limit)
    if as_json:
        say(json.dumps(found))
    elif found:
        rows = [
            (one["event_id"], one["callback"] or "(fan-out)", one["state"], one["next_attempt_at"] or "", one["reason"])
            for one in found
        ]
        show(("Event", "For", "State", "Next", "Reason"), rows, ("For", "Reason"))
    else:
        say("nothing: every accepted event is delivered to each subscription that wants it")
    return int(bool(found))
