"""``hookwire status``: say what is wrong, why and since when, and whether each subscription gets its events."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.entry import Config, Json, Url, run, say

__all__ = ["status"]

_FIRST = ("failing", "slow", "behind", "paused", "disabled", "gone", "denied", "expired", "untried", "healthy")
_ALWAYS = ("sink", "source", "lake")
_TROUBLED = ("failing", "slow", "behind")
Topic = Annotated[str | None, typer.Option("--topic", help="Only subscriptions to exactly this topic or pattern.")]


def status(topic: Topic = None, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Show what is wrong and since when: sinks, sources, work, audits of lakes, and the health of each subscription.

    With --topic only the subscriptions to it are shown, which a key for this topic may see.

    Exit code 1: something is down, late, held or failing now, or was given up in the last day and not on purpose.

    Examples:

      hookwire status

      hookwire status --topic 'customer-17.#'
    """
    run(_status_of(topic, url, as_json, config) if topic is not None else _status(url, as_json, config))


async def _status_of(topic: str, url: str | None, as_json: bool, config: Path | None) -> int:
    from app.cli.hub_client import get_all, hub_of

    subscriptions = await get_all(f"{hub_of(url, config)}/subscriptions", {"topic": topic})
    if as_json:
        say(json.dumps({"subscriptions": subscriptions}))
    else:
        _print(subscriptions)
    return int(_are_in_trouble(subscriptions))


async def _status(url: str | None, as_json: bool, config: Path | None) -> int:
    from app.cli.hub_client import get, get_all, hub_of

    hub = hub_of(url, config)
    verdict, subscriptions = await get(f"{hub}/status"), await get_all(f"{hub}/subscriptions")
    if _are_in_trouble(subscriptions):  # the verdict reaches only some of very many
        verdict["verdict"] = "trouble"
    subscriptions.sort(key=lambda one: _FIRST.index(one["health"]) if one["health"] in _FIRST else len(_FIRST))
    if as_json:
        say(json.dumps({**verdict, "subscriptions": subscriptions}))
    else:
        _print_verdict(verdict)
        _print(subscriptions)
    return int(verdict["verdict"] == "trouble")


def _are_in_trouble(subscriptions: list[dict[str, Any]]) -> bool:
    """Return whether one of them is in trouble. A subscriber that fetches its events does so when it likes."""
    return any(
        one["health"] in _TROUBLED and (one["health"], one["protocol"]) != ("behind", "pull") for one in subscriptions
    )


def _print_verdict(verdict: dict[str, Any]) -> None:
    """Print the word, a line for each sink and source, and each other part that needs a look or has work."""
    from app.cli.lines.narrow import Narrow
    from app.cli.table import show

    say(verdict["verdict"])
    rows = [
        (part["state"], f"{part['kind'].replace('_', ' ')} {part['name']}".rstrip(), part["reason"])
        for part in verdict["parts"]
        if part["kind"] != "subscription" and (part["kind"] in _ALWAYS or part["state"] != "ok" or _has_work(part))
    ]
    if rows:
        narrow = Narrow(("State", "Part"), ("Reason",), cuts=("Part",), ends=("Reason",))
        show(("State", "Part", "Reason"), rows, ("Part", "Reason"), narrow=narrow)


def _has_work(part: dict[str, Any]) -> bool:
    return bool(part["waiting"] or part["running"] or part["dead"])


def _print(found: list[dict[str, Any]]) -> None:
    from app.cli.lines.narrow import Narrow
    from app.cli.table import show

    if not found:
        say("there is no subscription yet; make one with `hookwire subscribe`")
        return
    counts = Counter(one["health"] for one in found)
    say("subscriptions: " + ", ".join(f"{counts[health]} {health}" for health in _FIRST if counts[health]))
    rows = [(one["health"], one["id"], str(one["waiting"]), one["topic"], one["reason"]) for one in found]
    narrow = Narrow(("Health", "Subscription", "Open:", "Topic"), ("Reason",), cuts=("Topic",), ends=("Reason",))
    show(("Health", "Subscription", "Open", "Topic", "Reason"), rows, ("Topic", "Reason"), narrow=narrow)
