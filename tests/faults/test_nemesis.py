"""Everything at once, by chance, from a seed: services, database and brokers are hurt in pairs (F50, T1, HN-05)."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import asyncpg
import pytest

from app.chaos.child import Child
from runtime.process import CUT_OFF_CODE
from scripts.servers.kafka import KafkaServer
from scripts.servers.postgres import PostgresServer
from scripts.servers.rabbitmq import RabbitServer
from tests.faults.harness import CLEAN, Harness, Kafka, Rabbit, open_harness
from tests.waiting import lasts

Deed = Callable[[], Awaitable[None]]
RUN_SECONDS = 60.0


class Nemesis:
    """Hurts and heals; every deed leaves its victim as it found it."""

    def __init__(
        self, harness: Harness, rabbit: Rabbit, servers: tuple[PostgresServer, KafkaServer, RabbitServer], seed: int
    ) -> None:
        self.harness = harness
        self.rabbit = rabbit
        self.postgres_server, self.kafka_server, self.rabbit_server = servers
        self.chance = random.Random(seed)
        self.done: list[str] = []
        # A service that is started while its database is away ends, and says so; whoever starts services waits.
        self.database = asyncio.Lock()
        self.deeds: dict[str, list[Deed]] = {
            "service": [self.kill, self.kill_all, self.pause, self.drain],
            "postgres": [self.restart_postgres, self.kill_backends],
            "kafka": [self.kill_kafka, self.pause_kafka],
            "rabbit": [self.stop_rabbit, self.close_connections, self.unbind],
        }

    async def run(self, seconds: float) -> None:
        deadline = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < deadline:
            victims = self.chance.sample(sorted(self.deeds), self.chance.choice([1, 1, 2]))
            deeds = [self.chance.choice(self.deeds[victim]) for victim in victims]
            self.done += [deed.__name__ for deed in deeds]
            async with asyncio.TaskGroup() as tasks:
                for deed in deeds:
                    tasks.create_task(deed())
            await self.harness.accepts(30, 60)

    async def kill(self) -> None:
        child = self.chance.choice(self.harness.scenario.children)
        await child.kill()
        await self.start(child)

    async def kill_all(self) -> None:
        for child in self.harness.scenario.children:
            await child.kill()
        for child in self.harness.scenario.children:
            await self.start(child)

    async def start(self, child: Child) -> None:
        async with self.database:
            await child.start()

    async def pause(self) -> None:
        child = self.chance.choice(self.harness.scenario.children)
        child.pause()
        try:
            await lasts(self.chance.uniform(0.5, 4.0))  # less than a delivery's lease of 6 s (RR-10)
        finally:
            child.resume()

    async def drain(self) -> None:
        child = self.chance.choice(self.harness.scenario.children)
        code, _ = await child.drain(15)
        assert code in (0, CUT_OFF_CODE), f"{code}:\n{child.log_tail()}"  # Kafka may hang meanwhile
        await self.start(child)

    async def restart_postgres(self) -> None:
        async with self.database:
            await asyncio.to_thread(self.postgres_server.restart, self.chance.choice(["fast", "immediate"]))

    async def kill_backends(self) -> None:
        async with self.database:
            connection = await asyncpg.connect(self.harness.scenario.options.database_url)
            await connection.execute(
                """
                SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE datname = current_database() AND application_name LIKE 'hookwire%'
                """
            )
            await connection.close()

    async def kill_kafka(self) -> None:
        await asyncio.to_thread(self.kafka_server.kill)
        await lasts(self.chance.uniform(0, 3))
        await asyncio.to_thread(self.kafka_server.start)

    async def pause_kafka(self) -> None:
        self.kafka_server.pause()
        try:
            await lasts(self.chance.uniform(1, 15))
        finally:
            self.kafka_server.resume()

    async def stop_rabbit(self) -> None:
        await asyncio.to_thread(self.rabbit_server.stop_app)
        await asyncio.to_thread(self.rabbit_server.start_app)

    async def close_connections(self) -> None:
        await asyncio.to_thread(self.rabbit_server.close_all_connections, "nemesis")

    async def unbind(self) -> None:
        await self.rabbit.unbind()
        await lasts(self.chance.uniform(0, 2))
        await self.rabbit.bind()


def heal(postgres: PostgresServer, kafka: KafkaServer, rabbit: RabbitServer) -> None:
    """Start what may be stopped."""
    postgres.start()
    kafka.start()
    if rabbit.pid is None:
        rabbit.start()
    else:  # its node may run without the broker
        rabbit.start_app()


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("mode", ["transactional", "idempotent"])
@pytest.mark.parametrize("number", [0, pytest.param(1, marks=pytest.mark.soak)])
async def test_nothing_is_lost_or_reordered_whatever_fails_together(
    number: int, mode: str, database_url: str, postgres18: PostgresServer, kafka: KafkaServer, rabbitmq: RabbitServer,
    tmp_path: Path, seed: int,
) -> None:  # fmt: skip
    """F50: I1 I2 I3 I5 I13"""
    brokers = Kafka(kafka.bootstrap, mode=mode), Rabbit(rabbitmq.url)
    async with open_harness(database_url, tmp_path, seed, *brokers, keys=12, pause_seconds=0.08) as harness:
        nemesis = Nemesis(harness, brokers[1], (postgres18, kafka, rabbitmq), seed + number)
        try:
            async with harness.scenario.load():
                await nemesis.run(RUN_SECONDS)
        except BaseException:
            heal(postgres18, kafka, rabbitmq)  # a deed that was interrupted; all who come after would find it so
            raise
        print(f"seed {seed}, {harness.scenario.accepted} accepted, {len(nemesis.done)} faults: {nemesis.done}")
        for child in harness.scenario.children:
            await child.kill()
            await child.start()
        assert await harness.concluded(duplicates_max=1000 * len(nemesis.done), quiet_seconds_max=90) == CLEAN
