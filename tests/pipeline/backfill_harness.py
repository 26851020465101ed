"""Harness of the tests of backfills: a run on the topic ``orders``, whose lake is in memory and changed by a test."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import pytest

from app.cli.pipeline.backfilling import command
from app.cli.pipeline.backfilling.command import backfilled
from tests.app.conftest import Receiver, RunningHub, opened
from tests.pipeline.backfill_process import RangeInMemory

__all__ = ["Backfill", "bodies", "is_in_order", "quick_looks"]


@pytest.fixture
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is known for longer than a moment: each attempt looks."""
    monkeypatch.setattr("app.cli.pipeline.backfilling.sending._LOOK_SECONDS", 0.02)
    monkeypatch.setattr("app.cli.pipeline.backfilling.sending._FRESH_SECONDS", 0.0)


class Backfill:
    """The run 1. ``there``: numbers of events in the lake; ``erased``: those that it notes; ``keys``: how many keys the
    events have, 0 for none.
    """

    def __init__(self, hub: RunningHub, capsys: pytest.CaptureFixture[str], keys: int = 0) -> None:
        self._hub = hub
        self._capsys = capsys
        self.there: Sequence[int] = ()
        self.erased: Sequence[int] = ()
        self.keys = keys

    async def begin(
        self, callback: str, there: Sequence[int], *, named: Sequence[int] | None = None, skips: bool = False,
        attempts: int = 3, before_live: bool = False, **more: Any,
    ) -> str:  # fmt: skip
        """Make the run, held by nobody, and its subscription, with ``more`` fields; return the subscription's id."""
        self.there = there
        await self._hub.sql("SELECT setval('hookwire.event_id', $1)", there[-1])  # the hub has given these ids
        subscription: str = (await self._hub.subscribe("orders", callback, **more))["id"]
        async with opened(self._hub.database_url) as (database, _):
            found = await database.fetchrow("subscription.get", "default", subscription)
            assert found is not None
            await database.fetchval(
                "backfill.create", "default", found["id"], ["orders"], named, None, None, None, "ada", None, there[0],
                there[-1], "file:///nowhere", len(there), before_live, "nobody", -1.0, skips, attempts, ["orders"],
                len(self.erased),
            )  # fmt: skip
        return subscription

    async def act(self, act: str = "--resume") -> Any:
        """Do the act with the run; return its exit code and what it printed."""
        self._capsys.readouterr()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(
                command,
                "_range_of",
                lambda place, _: RangeInMemory(self.there, place.incarnation, self.keys, self.erased),
            )
            code = await backfilled(self._hub.settings, None, None, act, 1)
        return code, json.loads(self._capsys.readouterr().out.splitlines()[-1])


def bodies(receiver: Receiver) -> list[int]:
    """The numbers of the events that arrived; each event's payload is its number."""
    return [int(one.body) for one in receiver.delivered]


def is_in_order(numbers: Iterable[int], keys: int = 4) -> bool:
    """Return whether the first arrivals of each key rise."""
    firsts = list(dict.fromkeys(numbers))
    lanes = [[number for number in firsts if number % keys == key] for key in range(keys)]
    return all(earlier < later for lane in lanes for earlier, later in pairwise(lane))
