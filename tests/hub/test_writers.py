"""hub/publish.py: how often the writers look for work. A commit here is a gate: what it stores is tested elsewhere."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from event.event import Draft
from hub.publish import Publisher, PublishOptions
from hub.unit import Unit
from tests.waiting import until


class Watched(Publisher):
    """Counts its looks and its commits, which wait at ``gate``."""

    def __init__(self, options: PublishOptions) -> None:
        unused: Any = None
        super().__init__(unused, lambda _owed: None, options)
        self.looks = 0
        self.commits: list[int] = []
        self.gate = asyncio.Event()

    def _take(self) -> list[Unit]:
        self.looks += 1
        return super()._take()

    async def _commit(self, units: Sequence[Unit], *, wait: bool) -> list[Unit]:
        self.commits.append(len(units))
        await self.gate.wait()
        for unit in units:
            unit.answer.set_result([])
        return []


async def rested() -> None:
    """Let every task that is ready take its steps."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.parametrize("key", ["k", None])
async def test_an_event_wakes_one_writer_once(key: str | None) -> None:
    """GR-04: the second writer was woken, too, and found nothing."""
    publisher = Watched(PublishOptions(writers=2))
    publisher.gate.set()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(publisher.run())
        await rested()
        before = publisher.looks
        await publisher.publish([Draft("t", b"1", key)])
        await rested()
        publisher.stop()
    assert (before, publisher.looks, publisher.commits) == (2, 4, [1])


@pytest.mark.parametrize(("waiting", "told"), [(0, ["published", "told"]), (1, ["told", "published"])])
async def test_publishers_go_first_where_no_commit_waits(waiting: int, told: list[str]) -> None:
    """An answer waited for what its writer does afterwards."""
    found: list[str] = []
    accepted = [{"item": 1, "outcome": "stored", "event_id": 1, "ordered": True, "accepted_at": None, "is_owed": True}]

    class Stored:
        async def fence_mark(self) -> None:
            await rested()  # meanwhile the others come

        async def fetch(self, *_statement: object) -> Any:
            return accepted

        async def pass_fence(self, _mark: None) -> None: ...

    database: Any = Stored()
    publisher = Publisher(database, lambda _owed: found.append("told"), PublishOptions(writers=1, commit_drafts_max=1))

    async def publish() -> None:
        await publisher.publish([Draft("t", b"1")])
        found.append("published")

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(publisher.run())
        for _ in range(1 + waiting):
            tasks.create_task(publish())
        await until(lambda: len(found) >= 2)
        publisher.stop()
    assert found[:2] == told


async def test_what_one_commit_leaves_is_taken_by_the_other_writer_meanwhile() -> None:
    publisher = Watched(PublishOptions(writers=2, commit_drafts_max=1))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(publisher.run())
        await rested()
        published = [tasks.create_task(publisher.publish([Draft("t", b"1")])) for _ in range(3)]
        await until(lambda: len(publisher.commits) == 2)
        publisher.gate.set()
        await asyncio.gather(*published)
        publisher.stop()
    assert publisher.commits == [1, 1, 1]


async def test_an_event_whose_key_is_in_a_commit_is_taken_after_it() -> None:
    publisher = Watched(PublishOptions(writers=2))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(publisher.run())
        published = [tasks.create_task(publisher.publish([Draft("t", b"1", "k")]))]
        await until(lambda: publisher.commits == [1])
        published.append(tasks.create_task(publisher.publish([Draft("t", b"2", "k")])))
        await rested()
        publisher.gate.set()
        await asyncio.gather(*published)
        publisher.stop()
    assert publisher.commits == [1, 1]
