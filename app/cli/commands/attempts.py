"""``hookwire attempts``: list the attempts of an event's deliveries, or of one delivery."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.data import segment
from app.cli.entry import Config, Json, Url, run, say
from app.cli.failure import CommandFailed
from app.cli.lines.narrow import Narrow
from app.cli.moment import shown_moment

__all__ = ["attempts"]

Thing = Annotated[
    str,
    typer.Argument(
        metavar="DELIVERY_OR_EVENT", help="A delivery (dlv_...), or an event (evt_...) for all its deliveries."
    ),
]


def attempts(thing: Thing, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """List the attempts of a delivery, or of all deliveries of an event, with the receiver's answer.

    Exit code 1: there is no such event.

    Examples:

      hookwire attempts dlv_42_7

      hookwire attempts evt_k3v7q2ha_42 --json
    """
    run(_attempts(thing, url, as_json, config))


async def _attempts(thing: str, url: str | None, as_json: bool, config: Path | None) -> int:
    from app.cli.hub_client import ask, connected, get_all, hub_of

    if not thing.startswith(("dlv_", "evt_")):
        raise CommandFailed(f"{thing} is neither a delivery (dlv_...) nor an event (evt_...)", 2)
    hub = hub_of(url, config)
    deliveries = [thing]
    if thing.startswith("evt_"):
        await _require_event(hub, thing)
        deliveries = list(dict.fromkeys(item["id"] for item in await get_all(f"{hub}/deliveries", {"event_id": thing})))
    found = []
    async with connected() as client:
        for delivery in deliveries:
            answer = await ask(client, "GET", f"{hub}/deliveries/{segment(delivery)}/attempts")
            found += [{"delivery_id": delivery, **item} for item in answer["items"]]
    if as_json:
        say(json.dumps(found))
    else:
        _print(found)
    return 0


async def _require_event(hub: str, event: str) -> None:
    from app.cli.hub_client import ask, connected

    async with connected() as client:
        if await ask(client, "GET", f"{hub}/events/{segment(event)}", none_for=404) is None:
            raise CommandFailed(f"there is no event {event}", 1)


def _print(found: list[dict[str, Any]]) -> None:
    from app.cli.lines.attempt import outcome_of_attempt, receiver_answer
    from app.cli.table import show

    rows = [
        (item["delivery_id"], str(item["number"]), shown_moment(item["started_at"]), item["trigger"],
         outcome_of_attempt(item), receiver_answer(item), f"{item['total_seconds']:.3f}", item["decision"])
        for item in found
    ]  # fmt: skip
    if not rows:
        say("no attempts are stored")
        return
    heads = ("Delivery", "No.", "Started", "Trigger", "Outcome", "Receiver's answer", "Seconds", "Decision")
    narrow = Narrow(
        ("Delivery", "No.:", "Started", "Trigger", "Decision"), ("Outcome", "Receiver's answer", "Seconds:"),
        cuts=("Outcome", "Receiver's answer"),
    )  # fmt: skip
    show(heads, rows, ("Outcome", "Receiver's answer"), narrow=narrow)
