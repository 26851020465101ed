"""``hookwire status``: show whether each subscription gets its events, and why not."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from app.cli.entry import Config, Json, Url, run, say, settings_from

__all__ = ["status"]

_FIRST = ("failing", "paused", "disabled", "gone", "denied", "expired", "untried", "healthy")


def status(url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Show the health of each subscription, its reason and its next attempt. Exit code 1: a subscription fails.

    Example:

      hookwire status
    """
    run(_status(url, as_json, config))


async def _status(url: str | None, as_json: bool, config: Path | None) -> int:
    from app.cli.hub_client import get_all, hub_url

    found = await get_all(f"{hub_url(url, settings_from(config))}/subscriptions")
    found.sort(key=lambda one: _FIRST.index(one["health"]))
    if as_json:
        say(json.dumps(found))
    else:
        _print(found)
    return int(any(one["health"] == "failing" for one in found))


def _print(found: list[dict[str, Any]]) -> None:
    from app.cli.table import show

    if not found:
        say("there is no subscription yet; make one with `hookwire subscribe`")
        return
    counts = Counter(one["health"] for one in found)
    say(", ".join(f"{counts[health]} {health}" for health in _FIRST if counts[health]))
    rows = [
        (one["id"], one["topic"], one["health"], one["blocked_by"] or "", str(one["waiting"]),
         one["next_attempt_at"] or "", one["reason"])
        for one in found
    ]  # fmt: skip
    show(("Subscription", "Topic", "Health", "Blocker", "Waiting", "Next", "Reason"), rows, folds=("Reason",))
