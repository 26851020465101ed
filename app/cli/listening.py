"""Listening: the loop of ``hookwire listen``. It fetches events, prints and forwards them, and settles them."""

from __future__ import annotations

import json
import sys
from typing import Any, Final
from urllib.parse import quote

import httpx

from app.cli.entry import say, tell
from app.cli.lines.one_line import on_one_line
from app.cli.pulling import Pulling, body_of

__all__ = ["Listening"]

_FORWARD_SECONDS: Final = 30
_MAX: Final = 20


class Listening:
    """Yields a subscription's events while the context is open."""

    def __init__(self, pulling: Pulling, forward: str | None, *, as_json: bool) -> None:
        self._pulling = pulling
        self._forward_to = forward
        self._as_json = as_json
        # A hub on this machine does not need our key.
        self._local = httpx.AsyncClient(trust_env=False, timeout=_FORWARD_SECONDS)

    async def __aenter__(self) -> Listening:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._local.aclose()

    async def run(self, count: int | None) -> None:
        """Listen until this number of events has come; None: for ever. Raise ``CommandFailed`` for a failure that no
        wait can cure.
        """
        left = count
        while left is None or left > 0:
            most = _MAX if left is None else min(left, _MAX)
            for one in await self._pulling.fetch(most, lease_seconds=60 + most * _FORWARD_SECONDS):
                done = await self._hand_on(one)
                left = left - 1 if left is not None and done else left

    async def _hand_on(self, one: dict[str, Any]) -> bool:
        """Print and forward the event; return whether it is done."""
        self._print(one)
        reason = await self._forward(one) if self._forward_to is not None else None
        if reason is None:
            await self._pulling.ack([one["receipt"]])
            return True
        tell(f"{self._forward_to}: {reason}; it will be delivered again")
        await self._pulling.nack([one["receipt"]], reason=reason, delay_seconds=min(2 ** one["attempts"], 60))
        return False

    async def _forward(self, one: dict[str, Any]) -> str | None:
        """Return None if the receiver has accepted the event, else the reason."""
        event = one["event"]
        headers = {"webhook-id": event["id"], "hookwire-topic": event["topic"]}
        if event["content_type"]:
            headers["content-type"] = event["content_type"]
        if event["key"]:
            headers["hookwire-key"] = quote(event["key"])
        try:
            answer = await self._local.post(str(self._forward_to), content=body_of(event), headers=headers)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return str(error) or type(error).__name__
        return None if answer.is_success else f"answered {answer.status_code}"

    def _print(self, one: dict[str, Any]) -> None:
        event = one["event"]
        if self._as_json:
            say(json.dumps(event))
        else:
            body = event["payload"] if event["payload"] is not None else f"({len(body_of(event))} bytes)"
            line = "  ".join(filter(None, (event["id"], event["topic"], event["key"], body)))
            say(on_one_line(line, is_terminal=sys.stdout.isatty()))
        sys.stdout.flush()
