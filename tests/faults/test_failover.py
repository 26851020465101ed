"""A primary with a standby, and switchovers under steady traffic: the name of the database moves late (HA-01, F15)."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from app.chaos.client import ChaosClient
from db.migrate import migrate
from scripts.servers.postgres import embedded_bin_dir, system_bin_dir
from tests.faults.harness import CLEAN, Harness, open_harness
from tests.faults.proxy import proxied
from tests.pair import Pair
from tests.waiting import WAIT_SECONDS, lasts, poll, until

SECONDS_MAX = 5.0
"""From the move of the name on: after so many seconds no publish is refused any more."""
DUPLICATES_MAX = 600
"""Attempts in flight of two processes."""


Form = Callable[[Pair], AbstractAsyncContextManager[tuple[str, Callable[[], None]]]]


@asynccontextmanager
async def by_name(pair: Pair) -> AsyncIterator[tuple[str, Callable[[], None]]]:
    """The URL of a name that leads to the primary, and what moves it there. Open connections stay where they are."""
    async with proxied("127.0.0.1", pair.primary.port) as name:

        def move() -> None:
            name.upstream = ("127.0.0.1", pair.primary.port)

        yield f"postgresql://postgres@127.0.0.1:{name.port}/postgres", move


@asynccontextmanager
async def by_hosts(pair: Pair) -> AsyncIterator[tuple[str, Callable[[], None]]]:
    """The URL that names both servers; nothing has to be moved."""
    hosts = f"127.0.0.1:{pair.primary.port},127.0.0.1:{pair.standby.port}"
    yield f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write", lambda: None


class Publishes:
    """Steady traffic beside the witness's, whose answers are counted by the time at which they were asked for."""

    def __init__(self, harness: Harness) -> None:
        self._clients = [ChaosClient(child.port, WAIT_SECONDS) for child in harness.scenario.children]
        self._answers: list[tuple[float, int]] = []
        self.in_a_row = 0

    async def run(self) -> None:
        """Publish from each process in turn until cancelled."""
        try:
            for number in count():
                asked_at = time.monotonic()
                client = self._clients[number % len(self._clients)]
                answer = await client.request("POST", "/topics/failover/events", b"1")
                self._answers.append((asked_at, answer.status))
                self.in_a_row = self.in_a_row + 1 if answer.status < 300 else 0
                await poll()
        finally:
            for client in self._clients:
                client.close()

    def refused(self, since: float) -> list[float]:
        """Return how long after that time refused publishes were sent."""
        return [at - since for at, status in self._answers if at >= since and status >= 300]


async def survive(pair: Pair, move: Callable[[], None], publishes: Publishes, late_seconds: float) -> list[float]:
    """One switchover. Return how many seconds after the move each refused publish was sent.

    A pool that does not recover is shown by what it refuses, not by a wait that runs past its deadline.
    """
    await pair.switch_over()
    await lasts(late_seconds)
    move()
    moved_at = time.monotonic()
    with suppress(TimeoutError):
        await until(lambda: publishes.in_a_row >= 100)
    await lasts(max(moved_at + SECONDS_MAX - time.monotonic(), 0.0))
    publishes.in_a_row = 0
    with suppress(TimeoutError):
        await until(lambda: publishes.in_a_row >= 300, WAIT_SECONDS / 2)
    refused = publishes.refused(moved_at)
    print(f"{len(refused)} publishes refused after the move, the last one after {max(refused, default=0.0):.2f} s")
    return refused


@asynccontextmanager
async def publishing(harness: Harness) -> AsyncIterator[Publishes]:
    """The witness's load and ours while the block runs."""
    publishes = Publishes(harness)
    async with harness.scenario.load():
        await harness.accepts(50)
        running = asyncio.create_task(publishes.run())
        try:
            yield publishes
            await harness.accepts(100)
            await harness.receives("ordered", 100)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


def _each_form_on_each_server() -> list[Any]:
    """Each form and each PostgreSQL once in `make test`, the other two combinations in `make faults`."""
    new, old = embedded_bin_dir, system_bin_dir
    return [
        pytest.param(by_name, new, id="name-postgres18"),
        pytest.param(by_hosts, old, id="hosts-postgres15"),
        pytest.param(by_name, old, id="name-postgres15", marks=pytest.mark.slow),
        pytest.param(by_hosts, new, id="hosts-postgres18", marks=pytest.mark.slow),
    ]


@pytest.mark.parametrize(("form", "pair"), _each_form_on_each_server(), indirect=["pair"])
async def test_after_a_switchover_everything_goes_on(form: Form, pair: Pair, tmp_path: Path, seed: int) -> None:
    """GB-01, HA-01, HA-02, F15: sessions that the old server took as a standby are not lent again."""
    async with form(pair) as (url, move):
        await migrate(url)
        async with open_harness(url, tmp_path, seed) as harness:
            async with publishing(harness) as publishes:
                refused = await survive(pair, move, publishes, late_seconds=3.0)
            assert [seconds for seconds in refused if seconds > SECONDS_MAX] == []
            assert await harness.concluded(duplicates_max=DUPLICATES_MAX) == CLEAN


@pytest.mark.slow
@pytest.mark.timeout(1200)
async def test_five_switchovers_refuse_nothing_once_the_name_has_moved(pair: Pair, tmp_path: Path, seed: int) -> None:
    """GB-01, HA-01, F15: the name moves ten seconds after the old primary is back as a standby."""
    async with by_name(pair) as (url, move):
        await migrate(url)
        async with open_harness(url, tmp_path, seed) as harness:
            refused: list[float] = []
            async with publishing(harness) as publishes:
                for _ in range(5):
                    refused += await survive(pair, move, publishes, late_seconds=10.0)
            assert [seconds for seconds in refused if seconds > SECONDS_MAX] == []
            assert await harness.concluded(duplicates_max=5 * DUPLICATES_MAX) == CLEAN
