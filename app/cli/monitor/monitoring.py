"""Monitoring: events become lines of a chat; events that come too fast are summed up in one line.

::

    fetched --+-- there is room --------> line --------> taken by the chat server --> acknowledged
              |                                              ^                            ^
              '-- too fast --> left out, held --> "... 214 more: orders.paid 200, ..." ---'

No event is acknowledged before the chat server has accepted its line. Until then its lease is renewed, for any time
that the chat server is down. An event without an acknowledgement is fetched again (at least once).
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, Final

from app.cli.pulling import WAIT_SECONDS, Pulling, body_of
from event.event import Event
from event.identity import parse_event_id
from webhooks.chat import chat_line

__all__ = ["Monitoring", "Pace", "event_of", "summary"]

_LEASE_SECONDS: Final = 60.0
_FETCH_MAX: Final = 100
_LEFT_OUT_MAX: Final = 5_000
_TOPICS_NAMED: Final = 5


class Pace:
    """Allows a number of lines a minute, and as many at once after a quiet minute. ``clock`` returns monotonic
    seconds.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_minute / 60
        self._most = float(per_minute)
        self._clock = clock
        self._room = self._most
        self._counted_at = clock()

    def take(self) -> bool:
        """Return whether a line may be sent now; if so, count it."""
        self._refill()
        if self._room < 1:
            return False
        self._room -= 1
        return True

    def wait_seconds(self) -> float:
        """Return the seconds until another line may be sent."""
        self._refill()
        return max(0.0, 1 - self._room) / self._per_second

    def _refill(self) -> None:
        now = self._clock()
        self._room = min(self._most, self._room + (now - self._counted_at) * self._per_second)
        self._counted_at = now


class Monitoring:
    """Hands the events of a pull subscription to ``say``, which returns when the chat server has taken the line."""

    def __init__(
        self, pulling: Pulling, say: Callable[[str], Awaitable[None]], template: str | None, pace: Pace
    ) -> None:
        self._pulling = pulling
        self._say = say
        self._template = template
        self._pace = pace
        self._held: set[str] = set()
        self._left_out: list[dict[str, Any]] = []
        self._done = 0

    async def run(self, count: int | None) -> None:
        """Run until ``count`` events were shown or summed up; None: for ever. Exceptions of ``pulling`` and ``say``
        pass.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                keeping = tasks.create_task(self._keep())
                while count is None or self._done < count:
                    await self._round(_FETCH_MAX if count is None else count - self._done - len(self._left_out))
                keeping.cancel()
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None

    async def _round(self, wanted: int) -> None:
        most = min(wanted, _FETCH_MAX, _LEFT_OUT_MAX - len(self._left_out))
        wait_seconds = min(self._pace.wait_seconds(), WAIT_SECONDS) if self._left_out else WAIT_SECONDS
        if most > 0:
            found = await self._pulling.fetch(most, lease_seconds=_LEASE_SECONDS, wait_seconds=wait_seconds)
        else:
            found = []
            await asyncio.sleep(wait_seconds)
        self._held.update(one["receipt"] for one in found)
        for one in found:
            if not self._left_out and self._pace.take():
                await self._say(chat_line("xmpp", self._template, event_of(one["event"])))
                await self._finish([one])
            else:
                self._left_out.append(one)
        if self._left_out and self._pace.take():
            await self._say(summary([one["event"]["topic"] for one in self._left_out]))
            await self._finish(self._left_out)
            self._left_out = []

    async def _finish(self, items: Sequence[dict[str, Any]]) -> None:
        receipts = [one["receipt"] for one in items]
        self._held.difference_update(receipts)
        await self._pulling.ack(receipts)
        self._done += len(receipts)

    async def _keep(self) -> None:
        """Extend the leases of events that are not acknowledged yet, until the command ends."""
        while True:
            await asyncio.sleep(_LEASE_SECONDS / 3)
            await self._pulling.extend(sorted(self._held), lease_seconds=_LEASE_SECONDS)


def event_of(pulled: dict[str, Any]) -> Event:
    """Return the event in an item of the hub's JSON."""
    incarnation, number = parse_event_id(pulled["id"])
    names = ("topic", "key", "content_type", "headers", "sequence")
    accepted_at = datetime.fromisoformat(pulled["accepted_at"])
    return Event(
        id=number, incarnation=incarnation, payload=body_of(pulled), accepted_at=accepted_at,
        **{name: pulled[name] for name in names},
    )  # fmt: skip


def summary(topics: Sequence[str]) -> str:
    """Return the line for events that were left out, with their number and their most frequent topics."""
    counts = Counter(topics).most_common()
    named = ", ".join(f"{topic} {count}" for topic, count in counts[:_TOPICS_NAMED])
    others = sum(count for _, count in counts[_TOPICS_NAMED:])
    events = "1 more event" if len(topics) == 1 else f"{len(topics)} more events"
    return f"… {events} left out: {named}" + (f", others {others}" if others else "")
