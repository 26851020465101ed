"""Pulling: a pull subscription of a command. It is created unless one is given, and ended with the command."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Sequence
from typing import Any, Final

from app.cli.asking.session import HubUnreachable
from app.cli.entry import tell
from app.cli.hub_client import AS_JSON, caller, connected, refusal_of
from egress.failure import OutboundError

__all__ = ["WAIT_SECONDS", "Pulling", "body_of"]

WAIT_SECONDS: Final = 15.0
"""The time that a fetch waits for an event."""
_ANSWER_SECONDS: Final = WAIT_SECONDS + 15
_END_SECONDS: Final = 5.0
_NOT_FOUND: Final = 404
_TOO_MANY: Final = 429
_SERVER_ERROR: Final = 500
_PAUSE_SECONDS: Final = (0.5, 10.0)
_RECEIPTS_MAX: Final = 500
_LIFETIME_SECONDS: Final = 600


class Pulling:
    """One subscription, for as long as the context is open. A subscription that was ``given`` stays afterwards.

    Requests that the hub cannot serve now are repeated. Raises ``CommandFailed`` for a failure that no wait can cure.
    """

    def __init__(self, hub: str, asked: dict[str, Any], given: str | None) -> None:
        self._hub = hub
        self._asked = {**asked, "lifetime_seconds": _LIFETIME_SECONDS, "on_end": "drop"}
        self._given = given
        self._subscription = given
        self._session, self._headers = connected(), {**caller(), **AS_JSON}

    async def __aenter__(self) -> Pulling:
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            if self._subscription is not None and self._given is None:
                await self._session.request("DELETE", self._path(), None, caller(), _END_SECONDS)
        except (HubUnreachable, OutboundError):
            tell("the subscription could not be ended; it ends by itself within ten minutes")
        finally:
            await self._session.aclose()

    async def fetch(
        self, most: int, *, lease_seconds: float, wait_seconds: float = WAIT_SECONDS
    ) -> list[dict[str, Any]]:
        """Return at most ``most`` deliveries, held for ``lease_seconds``. The list is empty if none has arrived."""
        asked = {"max": most, "wait_seconds": wait_seconds, "lease_seconds": lease_seconds}
        while (found := await self._patiently("/dequeue", asked)) is None:
            await self._make()
        items: list[dict[str, Any]] = found["items"]
        return items

    async def ack(self, receipts: Sequence[str]) -> None:
        """Acknowledge these deliveries."""
        await self._settle("/ack", receipts)

    async def nack(self, receipts: Sequence[str], *, delay_seconds: float, reason: str) -> None:
        """Return these deliveries; they are handed out again after the delay."""
        await self._settle("/nack", receipts, delay_seconds=delay_seconds, reason=reason[:200])

    async def extend(self, receipts: Sequence[str], *, lease_seconds: float) -> None:
        """Hold these deliveries for ``lease_seconds`` from now."""
        await self._settle("/extend", receipts, lease_seconds=lease_seconds)

    async def _settle(self, verb: str, receipts: Sequence[str], **more: Any) -> None:
        for start in range(0, len(receipts), _RECEIPTS_MAX):
            await self._patiently(verb, {"receipts": receipts[start : start + _RECEIPTS_MAX], **more})

    async def _make(self) -> None:
        made = await self._patiently("/pull", self._asked)
        self._subscription = str(made["id"])
        tell(f"listening to {self._asked['topic']} by {self._subscription}; Ctrl-C ends it")

    async def _patiently(self, verb: str, asked: dict[str, Any]) -> Any:
        """Return the answer as soon as there is one. Return None if the subscription does not exist or has ended."""
        pause, pause_max = _PAUSE_SECONDS
        while verb == "/pull" or self._subscription is not None:
            try:
                return await self._post(verb, asked)
            except _Ended:
                self._subscription = None
                tell("the subscription has ended")
            except (HubUnreachable, OutboundError, _Away) as error:
                tell(f"{self._hub} does not answer ({error or type(error).__name__}); trying again in {pause:g} s")
                await asyncio.sleep(pause)
                pause = min(pause * 2, pause_max)
        return None

    async def _post(self, verb: str, asked: dict[str, Any]) -> Any:
        content = json.dumps(asked).encode("ascii")
        answer = await self._session.request("POST", self._path(verb), content, self._headers, _ANSWER_SECONDS)
        if answer.is_success:
            return answer.json()
        if answer.status_code >= _SERVER_ERROR or answer.status_code == _TOO_MANY:
            raise _Away(f"it answered {answer.status_code}")
        if answer.status_code == _NOT_FOUND and verb != "/pull" and self._given is None:
            raise _Ended
        raise refusal_of(answer)

    def _path(self, verb: str = "") -> str:
        which = "" if verb == "/pull" else f"/{self._subscription}"
        return f"{self._hub}/subscriptions{which}{verb}"


class _Away(Exception):
    """The hub cannot serve right now."""


class _Ended(Exception):
    """The hub does not know our subscription any more."""


def body_of(event: dict[str, Any]) -> bytes:
    """Return the published content of a pulled event."""
    if event["payload"] is not None:
        return str(event["payload"]).encode()
    return base64.b64decode(event["payload_base64"])
