"""A service that idles, whose LISTEN then dies without a word, and one event (F60)."""

import asyncio
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest

from app.chaos.history import Attempt, PublishOutcome
from app.chaos.mark import Mark
from app.chaos.scenario import TOPIC
from db.statements import STATEMENTS
from scripts.servers.kafka import KafkaServer
from scripts.servers.postgres import PostgresServer
from scripts.servers.rabbitmq import RabbitServer
from tests.faults.harness import CALM, CLEAN, SOAK, Harness, Kafka, Rabbit, open_harness

QUESTIONS_PER_SECOND_MAX = 2.0
# The due poller looks once a second; what else there is to wait for is a machine that is busy with something else.
EVENT_SECONDS_MAX = 10.0
SETTLING_SECONDS = 3.0
SETTLINGS_MAX = 20

_ASKED = re.compile(r"duration: .*?(?:execute|statement)\b[^:]*: (.*)", re.DOTALL)
_NAMES = {" ".join(text.split()): name for name, text in STATEMENTS.items()}


class Asked:
    """What a database is asked, by the server's own log."""

    def __init__(self, log: Path, database: str) -> None:
        self._log = log
        self._line = re.compile(rf"^\S+ \S+ \S+ \[\d+\] {database} LOG:  ")

    async def during(self, seconds: float) -> Counter[str]:
        """Idle so long; how often each statement was run meanwhile, by our name for it."""
        size = self._log.stat().st_size
        await asyncio.sleep(seconds)
        with self._log.open("rb") as log:
            log.seek(size)
            entries = re.split(r"\n(?!\t)", log.read().decode(errors="replace"))
        found = (_ASKED.search(entry) for entry in entries if self._line.match(entry))
        texts = (" ".join(one[1].split()) for one in found if one)
        return Counter(_NAMES.get(text) or text[:60] for text in texts)


async def settled(asked: Asked) -> None:
    """Idle until polls have grown as long as they get; after a while whatever still asks is what was to be found."""
    for _ in range(SETTLINGS_MAX):
        if (await asked.during(SETTLING_SECONDS)).total() <= QUESTIONS_PER_SECOND_MAX * SETTLING_SECONDS:
            return


@contextmanager
def deaf(listeners: list[int]) -> Iterator[None]:
    """These backends of the server are stopped: their connections stay open, and nothing comes any more."""
    for pid in listeners:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in listeners:
            os.kill(pid, signal.SIGCONT)


async def publish(harness: Harness) -> None:
    """One event in a transaction of somebody else's."""
    mark, at = Mark("idle", TOPIC, "alone", 1), time.time()
    event_id = await harness.scenario.database.fetchval("witness.publish", TOPIC, mark.to_payload(at), mark.key)
    harness.scenario._history.record(Attempt(mark, PublishOutcome.OK, event_id, client_time=at))


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("idle_seconds", [pytest.param(5, marks=pytest.mark.slow), pytest.param(600, marks=SOAK)])
async def test_after_ten_idle_minutes_an_event_is_found_although_listen_died_silently(
    idle_seconds: int, postgres18: PostgresServer, database_url: str, kafka: KafkaServer, rabbitmq: RabbitServer,
    tmp_path: Path, seed: int,
) -> None:  # fmt: skip
    """RL-10, RO-09, F60: I1 I3 I4=0; at most two questions a second, brokers or not."""
    database = urlsplit(database_url).path[1:]
    elsewhere = await asyncpg.connect(postgres18.url)  # what we ask ourselves counts for another database
    await elsewhere.execute(f"ALTER DATABASE {database} SET log_min_duration_statement = 0")
    brokers = Kafka(kafka.bootstrap), Rabbit(rabbitmq.url)
    async with open_harness(database_url, tmp_path, seed, *brokers, processes=1, **CALM) as harness:
        async with harness.scenario.load():
            await harness.accepts(50)
        await harness.scenario.quiet(60)
        asked = Asked(postgres18.log_path, database)
        await settled(asked)
        idle = await asked.during(idle_seconds)
        listeners = "SELECT pid FROM pg_stat_activity WHERE datname = $1 AND query LIKE 'LISTEN%'"
        pids = [row["pid"] for row in await elsewhere.fetch(listeners, database)]
        with deaf(pids):
            began = time.monotonic()
            await publish(harness)
            await harness.scenario.quiet(60)
            found_seconds = time.monotonic() - began
        rate = idle.total() / idle_seconds
        print(f"seed {seed}, idle for {idle_seconds} s: {rate:.2f} statements/s, {dict(idle)}")
        print(f"{len(pids)} listeners deaf: the event was with every sink after {found_seconds:.2f} s")
        async with harness.scenario.load():
            await harness.accepts(50)
        assert await harness.concluded(duplicates_max=0) == CLEAN
    await elsewhere.close()
    assert (bool(pids), 0 < rate <= QUESTIONS_PER_SECOND_MAX, found_seconds <= EVENT_SECONDS_MAX) == (True,) * 3, idle
