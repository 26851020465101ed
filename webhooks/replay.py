"""Replay: a background task walks over events or dead letters and makes deliveries of them again. It also deletes dead
letters, gives up deliveries and cancels jobs.

::

               create            nothing left
    (dry run) -------> running -------------> done
                        ^   |
                 resume |   | pause           cancel, from running or paused
                        |   v                ------------------------------> cancelled
                        paused

Each step is one statement that makes its changes and moves the replay's cursor. So any process can continue a replay
after its last step.

A replay leaves room for live events. With a rate, it sends twenty small batches a second. Without one, it sends a
batch, waits until the workers have sent it, and then rests twice as long as that took. So it works a third of the time,
and it slows down where live events keep the machine busy.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from db.errors import DatabaseError
from db.pool import Database, Row
from runtime.periodic import Periodic

__all__ = ["Replayer"]

_RECORDS_MAX = 500  # in one step
_BATCH = 25
"""Deliveries in one step of a replay without a rate: some 8 ms of a worker's time."""
_STEPS_PER_SECOND = 20
_PERIODS = 3
"""A replay without a rate begins its next step after so many times the duration of the last one."""
_SENT_SECONDS_MAX = 0.125
"""How long to wait for the workers: receivers that answer slowly, or never, do not stop a replay."""
_LOOK_SECONDS = 0.01
_LATE_SECONDS_MAX = 0.2  # as in replay.sql
_STEPS: Mapping[str, tuple[str, int]] = {
    "purge": ("bulk.purge", 2_000), "give_up": ("bulk.give_up", 2_000), "cancel": ("bulk.cancel", 200),
}  # fmt: skip
"""The statement of each act that sends nothing, and how many records it examines in one step."""


@dataclass
class _Pace:
    """How a replay goes on: by how much larger steps, and after which time without a rate."""

    growth: int = 1
    period_seconds: float = _PERIODS * _LOOK_SECONDS


class Replayer(Periodic):
    """Carry replays on; ``on_due`` gets the subscriptions that have new deliveries.

    ``poll_seconds``: the pause between two queries for a running replay.
    """

    name = "replayer"
    expected: ClassVar = (DatabaseError,)
    failure = "replay_waits"
    begins_later = True

    def __init__(self, database: Database, on_due: Callable[[Sequence[int]], None], poll_seconds: float = 2.0) -> None:
        super().__init__(poll_seconds)
        self._poll_seconds = self._next_seconds = poll_seconds
        self._database = database
        self._on_due = on_due
        self._paces: dict[int, _Pace] = {}

    async def once(self) -> None:
        """Take steps until no replay is due."""
        while not self._is_stopping and await self.step():
            continue

    def pause_seconds(self) -> float:
        """Return the time until the next step is due, at most ``poll_seconds``."""
        return self._next_seconds

    async def step(self) -> bool:
        """Take one step of the replay that is due; return False when none is due."""
        self._next_seconds = self._poll_seconds
        due = await self._database.fetchrow("bulk.due")
        if due is None:
            self._paces.clear()
            return False
        if due["seconds"] > 0:
            self._next_seconds = min(due["seconds"], self._poll_seconds)
            return False
        if due["act"] == "send":
            return await self._send(due)
        row = await self._database.fetchrow(*_STEPS[due["act"]])
        if row is None or row["id"] is None:
            return False
        self._on_due(row["subscriptions"])
        return True

    async def _send(self, due: Row) -> bool:
        """Make one batch of deliveries, a larger one if it is late. Without a rate, note how long the workers took."""
        rate, pace = due["rate_per_second"], self._paces.setdefault(due["id"], _Pace())
        late = min(-due["seconds"], _LATE_SECONDS_MAX)
        batch = _BATCH if rate is None else max(int(rate * (1 / _STEPS_PER_SECOND + late)), 1)
        began = time.monotonic()
        row = await self._database.fetchrow("replay.step", min(batch * pace.growth, _RECORDS_MAX), pace.period_seconds)
        if row is None:
            return False
        made, pace = row["events"], self._paces.setdefault(row["id"], pace)
        # A filter that few records pass is read in larger steps.
        pace.growth = min(2 * pace.growth, _RECORDS_MAX) if 4 * len(made) < row["examined"] else 1
        self._on_due(sorted(set(row["subscriptions"])))
        if row["rate_per_second"] is None:
            await self._until_sent(row, began + _SENT_SECONDS_MAX)
            pace.period_seconds = _PERIODS * min(time.monotonic() - began, _SENT_SECONDS_MAX)
        return True

    async def _until_sent(self, row: Row, deadline: float) -> None:
        """Wait until the workers have sent what the step made, until the deadline at the latest."""
        events, subscriptions = row["events"], row["subscriptions"]
        look_seconds = _LOOK_SECONDS
        while events and not self._is_stopping and (left := deadline - time.monotonic()) > 0:
            await asyncio.sleep(min(look_seconds, left))
            if not await self._database.fetchval("replay.unsent", events, subscriptions):
                return
            look_seconds *= 2
