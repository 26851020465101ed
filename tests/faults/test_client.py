"""The client's repeats while the hub is killed between COMMIT and its answers: each event is stored once."""

import asyncio
import logging
import random
from pathlib import Path

import asyncpg

from app.chaos.scenario import TOPIC
from hookwire import AsyncHookwire, Event
from tests.faults.harness import open_harness

PUBLISHERS, UNKNOWN_MIN = 16, 40


class Unknown(logging.Handler):
    """Counts repeats after an answer that was lost."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += any(name in record.getMessage() for name in ("ReadError", "RemoteProtocolError", "WriteError"))


async def test_each_event_is_stored_once_however_often_the_hub_dies_after_commit(
    database_url: str, tmp_path: Path, seed: int
) -> None:
    """F01 F02, FD-03 FD-10: single events and batches, by one client that only repeats."""
    chance, unknown, is_over = random.Random(seed), Unknown(), asyncio.Event()
    logger = logging.getLogger("hookwire")
    logger.addHandler(unknown)
    logger.setLevel(logging.INFO)
    ids: list[str] = []

    async def publish(client: AsyncHookwire, name: str) -> None:
        number = 0
        while not is_over.is_set():
            number += 1
            ids.append((await client.publish(TOPIC, f"{name}/{number}", key=name)).id)
            outcomes = await client.publish_many([Event(TOPIC, f"{name}/{number}/{n}", key=name) for n in range(5)])
            ids.extend(outcome.published.id for outcome in outcomes)

    async with open_harness(database_url, tmp_path, seed, processes=1) as harness:
        [child] = harness.scenario.children
        client = AsyncHookwire(f"http://127.0.0.1:{child.port}", timeout_seconds=120)
        async with client, asyncio.TaskGroup() as tasks:
            for number in range(PUBLISHERS):
                tasks.create_task(publish(client, f"p{number}"))
            while unknown.count < UNKNOWN_MIN:
                await child.kill()
                await child.start(f"publish.after_commit:kill@{chance.randint(1, 30)}", wait=False)
                assert await child.ended(60) == -9
            await child.start()
            is_over.set()
        connection = await asyncpg.connect(database_url)
        rows = await connection.fetchrow(
            "SELECT count(*), count(DISTINCT payload) FROM hookwire.events WHERE topic = $1", TOPIC
        )
        await connection.close()
    logger.removeHandler(unknown)
    print(f"{unknown.count} answers were lost; {len(ids)} events")
    assert (tuple(rows), len(set(ids)), unknown.count >= UNKNOWN_MIN) == ((len(ids),) * 2, len(ids), True)
