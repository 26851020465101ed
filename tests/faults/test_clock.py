"""The wall clock of a leader is set while it leads (F07), by libfaketime, in a real process."""

import asyncio
import time
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from pathlib import Path

import asyncpg
import pytest

from app.chaos.child import Child
from app.chaos.client import ChaosClient
from app.chaos.listening import listening
from app.chaos.scenario import TOPIC
from hookwire import verify
from scripts.servers.kafka import KafkaServer
from scripts.servers.rabbitmq import RabbitServer
from tests.faults.harness import CLEAN, Kafka, Rabbit, open_harness
from tests.faults.test_processes import leads, post, role_child
from tests.waiting import until

LEASE_SECONDS = 6.0
SHIFTS = (3600, -3600, 10, -10)


class Clock:
    """What processes take for the wall clock's time; their monotonic clocks stay as they are (IT-05)."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._pids: list[int] = []
        self.shift(0)

    async def start(self, child: Child) -> None:
        """Start it to live by this clock."""
        child.environment.update(self._environment)
        try:
            await child.start()
        finally:
            self._pids.append(child.pid)

    def shift(self, seconds: int) -> None:
        """Set it that far from the true time, at once."""
        new = self._file.with_suffix(".new")
        new.write_text(f"{seconds:+d}\n")
        new.replace(self._file)

    def tidy(self) -> None:
        """Remove what killed processes have left in memory.

        libfaketime shares its state with a process's children by files that bear its pid. It removes them when the
        process ends by itself, and its version 0.9.10 has no setting by which it would make none.
        """
        for pid in self._pids:
            for name in (f"faketime_shm_{pid}", f"sem.faketime_sem_{pid}"):
                Path("/dev/shm", name).unlink(missing_ok=True)

    @property
    def _environment(self) -> Mapping[str, str]:
        [library] = Path("/usr").glob("lib*/**/faketime/libfaketime.so.1")
        return {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }


@pytest.fixture
def clock(tmp_path: Path) -> Iterator[Clock]:
    made = Clock(tmp_path / "clock")
    yield made
    made.tidy()


async def lives_by(child: Child, shift: int) -> None:
    """Wait until its answers carry that time."""
    client = ChaosClient(child.port, 10)

    async def is_shifted() -> bool:
        answer = await client.request("GET", "/healthz")
        date = parsedate_to_datetime(answer.headers["date"]).timestamp()
        return abs(date - time.time() - shift) < 4

    await until(is_shifted)
    client.close()


async def terms(database_url: str) -> list[tuple[object, ...]]:
    """Who leads what, and in which term."""
    connection = await asyncpg.connect(database_url)
    rows = await connection.fetch("SELECT sink, grp, term, owner FROM hookwire.relay_terms ORDER BY sink, grp")
    await connection.close()
    return [tuple(row) for row in rows]


@pytest.mark.slow
async def test_a_wall_clock_that_is_set_deposes_nobody_and_signatures_are_right_afterwards(
    clock: Clock, database_url: str, kafka: KafkaServer, rabbitmq: RabbitServer, tmp_path: Path, seed: int
) -> None:
    """F07, RL-17, RR-09: by an hour or ten seconds, either way, each for longer than the lease, a successor at hand."""
    received: list[tuple[dict[str, str], bytes]] = []

    async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[1:-2]
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            received.append((headers, await reader.readexactly(int(headers["content-length"]))))
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")

    brokers = Kafka(kafka.bootstrap), Rabbit(rabbitmq.url)
    options = {"processes": 1, "lease_seconds": LEASE_SECONDS, "delivery_timeout_seconds": 15.0}
    async with listening(receive) as port, open_harness(database_url, tmp_path, seed, *brokers, **options) as harness:
        [leader] = harness.scenario.children
        await leader.kill()
        await clock.start(leader)
        for sink in ("kafka", "amqp", "webhooks"):
            await leads(harness, sink, leader)
        made = await post(leader, "/subscriptions", {"topic": TOPIC, "callback": f"http://127.0.0.1:{port}/"})
        standby = role_child(harness, tmp_path, "relay", 1)
        try:
            await standby.start()
            before = await terms(database_url)
            async with harness.scenario.load():
                for shift in SHIFTS:
                    clock.shift(shift)
                    until = time.monotonic() + 1.5 * LEASE_SECONDS
                    await lives_by(leader, shift)
                    await harness.accepts(50)
                    await harness.receives("ordered", 50)
                    await asyncio.sleep(max(until - time.monotonic(), 0))
                clock.shift(0)
                await lives_by(leader, 0)
                await harness.accepts(50)
            after = await terms(database_url)
            concluded = await harness.concluded(duplicates_max=0)
        finally:
            await standby.end()
    assert after == before
    assert "LeaderFenced" not in leader.log_path.read_text()
    headers, body = received[-1]
    assert verify(str(made["secret"]), headers, body, tolerance_seconds=60).id == headers["webhook-id"]
    signed_at = [int(headers["webhook-timestamp"]) for headers, _ in received]
    assert max(signed_at) - min(signed_at) > SHIFTS[0] - SHIFTS[1] - 60, "its signatures did not follow its clock"
    assert concluded == CLEAN
