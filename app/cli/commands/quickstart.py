"""``hookwire quickstart``: one event from publishing to its receiver on a running hub, and the commands that do it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, Final

from app.cli.entry import Config, Json, Url, run, say
from app.cli.failure import CommandFailed

__all__ = ["quickstart"]

_TOPIC: Final = "quickstart.hello"
_CONTENT: Final = '{"hello": "world"}'
_WAIT_SECONDS: Final = 15
_WAITS_MAX: Final = 4
_SETTLED_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.1


def quickstart(url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Subscribe, publish an event, receive it and ask for its state, on a running hub. Only the event stays.

    Exit code 1: it did not arrive, and is not on its way. 4: not finished; it is still on its way after a minute. With
    API keys it needs the scopes publish, subscribe and read.

    Example:

      hookwire quickstart
    """
    run(_quickstart(url, as_json, config))


async def _quickstart(url: str | None, as_json: bool, config: Path | None) -> int:
    from app.cli.hub_client import ask, connected, hub_of

    hub = hub_of(url, config)
    tell_step = (lambda _text: None) if as_json else say
    async with connected() as client:
        asked = {"topic": "quickstart.*", "lifetime_seconds": 60, "on_end": "drop"}
        made = await ask(client, "POST", f"{hub}/subscriptions/pull", json.dumps(asked).encode("ascii"))
        own = f"{hub}/subscriptions/{made['id']}"
        try:
            tell_step(f"1. Subscribed to quickstart.* by {made['id']}, which this command fetches from:")
            tell_step("     hookwire listen 'quickstart.*'")
            event = await ask(client, "POST", f"{hub}/topics/{_TOPIC}/events", _CONTENT.encode("ascii"))
            tell_step(f"2. Published {event['id']}; it is stored:")
            tell_step(f"     curl {hub}/topics/{_TOPIC}/events --json '{_CONTENT}'")
            payload = await _received(client, own, f"{hub}/events/{event['id']}", event["id"])
            tell_step(f"3. Received it: {payload}")
        finally:
            await ask(client, "DELETE", own, none_for=404)
        story = await _settled(client, f"{hub}/events/{event['id']}")
    tell_step(f"4. Its outcome: {story['summary']}")
    tell_step(f"     hookwire events show {event['id']}")
    tell_step(f"The status page is {hub}/ and the API is described at {hub}/docs.")
    if as_json:
        say(json.dumps({"event_id": event["id"], "payload": payload, "summary": story["summary"]}))
    return 0


async def _received(client: Any, subscription: str, address: str, event: str) -> str:
    """Fetch until the event is there, and acknowledge all that is fetched."""
    from app.cli.hub_client import ask

    asked = json.dumps({"max": 10, "wait_seconds": _WAIT_SECONDS, "lease_seconds": 60}).encode("ascii")
    waits = 0
    while waits < _WAITS_MAX:
        items = (await ask(client, "POST", f"{subscription}/dequeue", asked))["items"]
        if not items:
            waits += 1
            continue
        receipts = json.dumps({"receipts": [item["receipt"] for item in items]}).encode("ascii")
        await ask(client, "POST", f"{subscription}/ack", receipts)
        for item in items:
            if item["event"]["id"] == event:
                return str(item["event"]["payload"])
    raise _absence(await ask(client, "GET", address))


def _absence(story: Any) -> CommandFailed:
    """Return the failure for an event that did not arrive: an event that the hub still owes is not finished."""
    within = f"did not arrive within {_WAITS_MAX * _WAIT_SECONDS} s: {story['summary']}"
    if story["state"] in ("pending", "held", "sending", "retrying"):
        return CommandFailed(f"not finished: {story['id']} is on its way and {within} See: hookwire status", 4)
    return CommandFailed(f"{story['id']} is stored, but {within} See: hookwire doctor", 1)


async def _settled(client: Any, address: str) -> Any:
    """Return the event's story, as soon as nothing is owed to the subscription."""
    from app.cli.hub_client import ask

    until = asyncio.get_running_loop().time() + _SETTLED_SECONDS
    while True:
        story = await ask(client, "GET", address)
        if story["state"] == "delivered" or asyncio.get_running_loop().time() >= until:
            return story
        await asyncio.sleep(_POLL_SECONDS)
