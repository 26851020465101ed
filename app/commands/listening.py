"""Listening: what ``hookwire listen`` does with a pull subscription: fetch, print, forward, settle, start again."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from typing import Any, Final
from urllib.parse import quote

import httpx

from app.commands.entry import say
from app.commands.hub_client import bearer, refusal_of

__all__ = ["Listening"]

_WAIT_SECONDS: Final = 15
_PAUSE_SECONDS: Final = (0.5, 10.0)
_FORWARD_SECONDS: Final = 30
_MAX: Final = 20
_NOT_FOUND: Final = 404


class Listening:
    """One subscription, for as long as the context is open. A subscription that was ``given`` stays afterwards."""

    def __init__(
        self, hub: str, asked: dict[str, Any], given: str | None, forward: str | None, *, as_json: bool
    ) -> None:
        self._hub = hub
        self._asked = asked
        self._given = given
        self._forward_to = forward
        self._as_json = as_json
        self._subscription = given
        self._client = httpx.AsyncClient(headers=bearer(), trust_env=False, timeout=_WAIT_SECONDS + 15)
        # What listens on this machine is not asked for our key.
        self._local = httpx.AsyncClient(trust_env=False, timeout=_FORWARD_SECONDS)

    async def __aenter__(self) -> Listening:
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            if self._subscription is not None and self._given is None:
                async with asyncio.timeout(5):
                    await self._client.delete(self._path())
        except (httpx.HTTPError, TimeoutError):
            _tell("the subscription could not be ended; it ends by itself within ten minutes")
        finally:
            await self._client.aclose()
            await self._local.aclose()

    async def run(self, count: int | None) -> None:
        """Until so many events were handed on; None: for ever. ``CommandFailed`` for what waiting cannot cure."""
        pause, pause_max = _PAUSE_SECONDS
        left = count
        while left is None or left > 0:
            try:
                found = await self._fetch(left)
                pause = _PAUSE_SECONDS[0]
                for one in found:
                    done = await self._hand_on(one)
                    left = left - 1 if left is not None and done else left
            except (httpx.TransportError, _HubAway) as error:
                _tell(f"{self._hub} does not answer ({error or type(error).__name__}); trying again in {pause:g} s")
                await asyncio.sleep(pause)
                pause = min(pause * 2, pause_max)

    async def _fetch(self, left: int | None) -> list[dict[str, Any]]:
        if self._subscription is None:
            made = await self._post(f"{self._hub}/subscriptions/pull", self._asked)
            self._subscription = str(made["id"])
            _tell(f"listening to {self._asked['topic']} by {self._subscription}; Ctrl-C ends it")
        most = _MAX if left is None else min(left, _MAX)
        asked = {"max": most, "wait_seconds": _WAIT_SECONDS, "lease_seconds": 60 + most * _FORWARD_SECONDS}
        items: list[dict[str, Any]] = (await self._post(self._path("/dequeue"), asked))["items"]
        return items

    async def _hand_on(self, one: dict[str, Any]) -> bool:
        """Print and forward; whether it is done."""
        self._print(one)
        reason = await self._forward(one) if self._forward_to is not None else None
        if reason is None:
            await self._post(self._path("/ack"), {"receipts": [one["receipt"]]})
            return True
        _tell(f"{self._forward_to}: {reason}; it comes again")
        delay = min(2 ** one["attempts"], 60)
        nack = {"receipts": [one["receipt"]], "reason": reason[:200], "delay_seconds": delay}
        await self._post(self._path("/nack"), nack)
        return False

    async def _forward(self, one: dict[str, Any]) -> str | None:
        """None when it was taken, else why not."""
        event = one["event"]
        headers = {"webhook-id": event["id"], "hookwire-topic": event["topic"]}
        if event["content_type"]:
            headers["content-type"] = event["content_type"]
        if event["key"]:
            headers["hookwire-key"] = quote(event["key"])
        try:
            answer = await self._local.post(str(self._forward_to), content=_body(event), headers=headers)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return str(error) or type(error).__name__
        return None if answer.is_success else f"answered {answer.status_code}"

    def _print(self, one: dict[str, Any]) -> None:
        event = one["event"]
        if self._as_json:
            say(json.dumps(event))
        else:
            body = event["payload"] if event["payload"] is not None else f"({len(_body(event))} bytes)"
            say("  ".join(filter(None, (event["id"], event["topic"], event["key"], body))))
        sys.stdout.flush()

    async def _post(self, url: str, asked: dict[str, Any]) -> Any:
        answer = await self._client.post(url, json=asked)
        if answer.is_success:
            return answer.json()
        if answer.is_server_error or answer.status_code == httpx.codes.TOO_MANY_REQUESTS:
            raise _HubAway(f"it answered {answer.status_code}")
        if answer.status_code == _NOT_FOUND and self._subscription is not None and self._given is None:
            self._subscription = None  # it ended while we were away: the next round makes another
            raise _HubAway("the subscription has ended")
        raise refusal_of(answer)

    def _path(self, verb: str = "") -> str:
        return f"{self._hub}/subscriptions/{self._subscription}{verb}"


class _HubAway(Exception):
    """The hub cannot serve right now."""


def _body(event: dict[str, Any]) -> bytes:
    if event["payload"] is not None:
        return str(event["payload"]).encode()
    return base64.b64decode(event["payload_base64"])


def _tell(text: str) -> None:
    print(f"hookwire: {text}", file=sys.stderr, flush=True)  # noqa: T201 - this is the command's voice
