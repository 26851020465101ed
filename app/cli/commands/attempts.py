"""``hookwire attempts``: list the attempts of an event's deliveries, or of one delivery."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from app.cli.entry import Config, Json, Url, run, say, settings_from
from app.cli.failure import CommandFailed

__all__ = ["attempts"]

Thing = Annotated[str, typer.Argument(help="A delivery (dlv_...), or an event (evt_...) for all its deliveries.")]


def attempts(thing: Thing, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """List the attempts of a delivery, or of all deliveries of an event.

    Examples:

      hookwire attempts dlv_42_7

      hookwire attempts evt_k3v7q2ha_42 --json
    """
    run(_attempts(thing, url, as_json, config))


async def _attempts(thing: str, url: str | None, as_json: bool, config: Path | None) -> int:
    from app.cli.hub_client import get, hub_url

    if not thing.startswith(("dlv_", "evt_")):
        raise CommandFailed(f"{thing} is neither a delivery (dlv_...) nor an event (evt_...)", 2)
    hub = hub_url(url, settings_from(config))
    deliveries = [thing]
    if thing.startswith("evt_"):
        page = await get(f"{hub}/deliveries", params={"event_id": thing, "limit": "500"})
        deliveries = list(dict.fromkeys(item["id"] for item in page["items"]))
    found = []
    for delivery in deliveries:
        answer = await get(f"{hub}/deliveries/{quote(delivery, safe='')}/attempts")
        found += [{"delivery_id": delivery, **item} for item in answer["items"]]
    if as_json:
        say(json.dumps(found))
    else:
        _print(found)
    return 0


def _print(found: list[dict[str, Any]]) -> None:
    from app.cli.table import show

    rows = [
        (item["delivery_id"], str(item["number"]), item["started_at"][:19], item["trigger"], _answer(item),
         f"{item['total_seconds']:.3f}", item["decision"])
        for item in found
    ]  # fmt: skip
    if not rows:
        say("no attempts are stored")
        return
    show(("Delivery", "No.", "Started", "Trigger", "Answer", "Seconds", "Decision"), rows, folds=("Answer",))


def _answer(item: dict[str, Any]) -> str:
    """Return the outcome of an attempt, with its status and its detail if there are any."""
    status, detail = item["status"], item["detail"]
    return f"{item['outcome']}{f' {status}' if status else ''}{f': {detail}' if detail else ''}"
