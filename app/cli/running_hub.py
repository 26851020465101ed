"""hub_checks: the state of a running hub, for ``hookwire doctor``."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, Final

from app.checks.check import Check, Level
from app.cli.asking.session import HubAnswer
from app.cli.failure import CommandFailed
from app.cli.hub_client import answer_of, connected, get_all, hub_url
from app.settings.settings import Settings

__all__ = ["hub_checks"]

_ID: Final = "hub"
_DEADLINE_SECONDS: Final = 10.0
_ILL: Final = ("backing off", "refused")
_UNREACHABLE: Final = 3


async def hub_checks(given: str | None, settings: Settings) -> list[Check]:
    """Ask the hub at ``given``, or else at the address of the settings; there a silent hub is no finding."""
    url = hub_url(given, settings)
    try:
        async with connected() as client:
            answer = await answer_of(client, "GET", f"{url}/readyz", None, {}, _DEADLINE_SECONDS)
    except CommandFailed as failure:
        silent: Level = "note" if given is None and failure.code == _UNREACHABLE else "unreachable"
        return [Check(_ID, "running hub", silent, str(failure))]
    ready = _ready(answer)
    if ready is None:
        detail = f"{url} answered {answer.status_code}, but not as a hub does"
        return [Check(_ID, "running hub", "warn", detail, "check --url and HOOKWIRE_URL")]
    return [_readiness(url, ready), *_sinks(ready), *await _troubles(url)]


def _ready(answer: HubAnswer) -> dict[str, Any] | None:
    try:
        found = json.loads(answer.content)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and {"status", "database", "sinks"} <= found.keys() else None


def _readiness(url: str, ready: dict[str, Any]) -> Check:
    sinks = ", ".join(f"{name} {sink['state']}" for name, sink in ready["sinks"].items()) or "none in this process"
    detail = f"{url}: {ready['status']}; database {ready['database']}; sinks: {sinks}"
    if ready["database"] == "ok":
        return Check(_ID, "running hub", "ok", detail)
    return Check(_ID, "running hub", "unreachable", detail, f"see {url}/problems/database-unavailable")


def _sinks(ready: dict[str, Any]) -> list[Check]:
    return [
        Check(_ID, f"sink {name}", "warn", f"{sink['state']}: {sink.get('error') or 'no reason is known'}")
        for name, sink in ready["sinks"].items()
        if sink["state"] in _ILL
    ]


async def _troubles(url: str) -> list[Check]:
    """Return the checks of receivers and of refused records, by the hub's lists."""
    try:
        subscriptions = await get_all(f"{url}/subscriptions")
        holds = await get_all(f"{url}/holds")
    except CommandFailed as failure:
        return [Check(_ID, "subscriptions", "note", str(failure))]
    counts = Counter(one["health"] for one in subscriptions)
    detail = ", ".join(f"{number} {health}" for health, number in sorted(counts.items())) or "there is none"
    failing: Level = "warn" if counts["failing"] else "ok"
    held = f"{len(holds)} hold{'s' * (len(holds) != 1)}" if holds else "none"
    return [
        Check(_ID, "subscriptions", failing, detail, "run: hookwire status" if counts["failing"] else ""),
        Check(_ID, "holds", "warn" if holds else "ok", held, "run: hookwire holds list" if holds else ""),
    ]
