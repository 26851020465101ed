"""Processes that are stopped, stalled, drained and killed, two of them on one database (F05, F06, F08, F09, RR-14)."""

import asyncio
import json
import os
import random
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from app.witness.child import Child
from app.witness.client import Client
from app.witness.listening import listening
from app.witness.receiver import Receiver, open_receiver
from db.embedded import EmbeddedOptions, EmbeddedServer
from db.embedded_postmaster import recorded_pid
from scripts.servers.kafka import KafkaServer
from scripts.servers.rabbitmq import RabbitServer
from tests.faults.rig import CALM, CLEAN, Kafka, Rabbit, Rig, open_rig, until


async def leads(rig: Rig, sink: str, child: Child, seconds_max: float = 60.0) -> None:
    async with asyncio.timeout(seconds_max):
        while await rig.stage.leader(sink) is not child:  # noqa: ASYNC110 - it looks at other processes
            await asyncio.sleep(0.05)


def other(rig: Rig, child: Child) -> Child:
    return next(one for one in rig.stage.children if one is not child)


@pytest.mark.parametrize(
    ("pause_seconds", "delivery_timeout_seconds", "sinks"),
    [
        pytest.param(3.0, 2, ("kafka", "webhooks"), id="3x the lease"),
        # RabbitMQ gives a silent connection up after two to three heartbeats of 3 s, and only then its lock.
        pytest.param(12.0, 15, ("kafka", "webhooks", "amqp"), id="12x the lease", marks=pytest.mark.slow),
    ],
)
async def test_a_leader_that_was_stopped_past_its_lease_writes_nothing_behind_its_successor(
    pause_seconds: float, delivery_timeout_seconds: int, sinks: tuple[str, ...], database_url: str, kafka: KafkaServer,
    rabbitmq: RabbitServer, tmp_path: Path, seed: int,
) -> None:  # fmt: skip
    """F05: I5 I3 I1 I6"""
    brokers = Kafka(kafka.bootstrap), Rabbit(rabbitmq.url)
    options = {"keys": 16, "pause_seconds": 0.02}
    # A delivery's lease (and five seconds more) outlasts the pause: RR-10 promises no order of workers stopped longer.
    options["delivery_timeout_seconds"] = delivery_timeout_seconds
    async with open_rig(database_url, tmp_path, seed, *brokers, **options) as rig:
        async with rig.stage.load():
            await rig.accepts(200)
            stopped = await rig.stage.leader("kafka")
            assert stopped is not None
            successor = other(rig, stopped)
            stopped.pause()
            try:
                resumed = asyncio.get_running_loop().time() + pause_seconds
                for sink in sinks:
                    await leads(rig, sink, successor)
                await rig.accepts(100)
                await rig.receives("plain", 100)
                await asyncio.sleep(max(resumed - asyncio.get_running_loop().time(), 0))
            finally:
                stopped.resume()
            await rig.accepts(200)
            await successor.kill()
            await leads(rig, "kafka", stopped)
            await rig.accepts(100)
            await successor.start()
        assert await rig.concluded(duplicates_max=600) == CLEAN


async def test_a_leader_whose_loop_was_blocked_past_its_lease_writes_nothing_behind_its_successor(
    database_url: str, kafka: KafkaServer, tmp_path: Path, seed: int
) -> None:
    """F06: I5 I3 I1"""
    passing = random.Random(seed).randint(5, 30)
    async with open_rig(database_url, tmp_path, seed, Kafka(kafka.bootstrap), keys=16) as rig:
        stalled, successor = rig.stage.children
        await successor.kill()
        await stalled.kill()
        await stalled.start(f"relay.before_send:stall@{passing}")
        await leads(rig, "kafka", stalled)
        await successor.start()
        async with rig.stage.load():
            await leads(rig, "kafka", successor)
            await rig.accepts(200)
        assert await rig.concluded(duplicates_max=300) == CLEAN


async def test_sigterm_under_load_ends_in_time_and_repeats_nothing(
    database_url: str, kafka: KafkaServer, rabbitmq: RabbitServer, tmp_path: Path, seed: int
) -> None:
    """RL-14, F08: I1 I3 I4=0, T9"""
    brokers = Kafka(kafka.bootstrap), Rabbit(rabbitmq.url)
    options = {"keys": 16, "pause_seconds": 0.02, "kafka_groups": 4, **CALM}
    async with open_rig(database_url, tmp_path, seed, *brokers, **options) as rig:
        codes, seconds = [], []
        async with rig.stage.load():
            for child in rig.stage.children:
                await rig.accepts(200)
                code, took = await child.drain(seconds_max=30)
                codes.append(code)
                seconds.append(took)
                await child.start()
            await rig.accepts(100)
        print(f"seed {seed}, ended after {seconds[0]:.1f} s and {seconds[1]:.1f} s")
        assert codes == [0, 0]
        assert await rig.concluded(duplicates_max=0) == CLEAN


async def test_a_second_signal_ends_a_drain_that_waits_for_a_silent_subscriber(
    database_url: str, tmp_path: Path, seed: int
) -> None:
    """F09"""
    asked = asyncio.Event()

    async def silence(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        await asyncio.Event().wait()

    settings = {"DELIVERY_TIMEOUT_SECONDS": "30", "DRAIN_SECONDS": "30"}
    async with (
        listening(silence) as port,
        open_rig(database_url, tmp_path, seed, processes=1, settings=settings, refused_share=0.0) as rig,
    ):
        child = rig.stage.children[0]
        await post(child, "/subscriptions", {"topic": "#", "callback": f"http://127.0.0.1:{port}/"})
        await post(child, "/topics/silent/events", {})
        await asyncio.wait_for(asked.wait(), 10)
        os.kill(child.pid, signal.SIGTERM)
        with pytest.raises(TimeoutError):
            await child.ended(1.0)
        os.kill(child.pid, signal.SIGTERM)
        assert await child.ended(5) == 0
        assert "Traceback" not in child.log_tail(200)
        await child.start()


async def post(child: Child, path: str, document: object) -> dict[str, object]:
    client = Client("127.0.0.1", child.port, 10)
    answer = await client.request("POST", path, json.dumps(document).encode(), {"Content-Type": "application/json"})
    client.close()
    assert answer.status in (201, 202), answer
    found: dict[str, object] = json.loads(answer.body)
    return found


# --- the embedded database --------------------------------------------------------------------------------------


@asynccontextmanager
async def embedded_child(folder: Path) -> AsyncIterator[tuple[Child, Path]]:
    """A service on its embedded database, below a folder that PostgreSQL's account may pass through."""
    data_dir = folder / f"embedded-{random.randrange(10**9)}"
    settings = {"DATA_DIR": str(data_dir), "LEASE_SECONDS": "1", "DELIVERY_TIMEOUT_SECONDS": "1", "LOG_FORMAT": "json"}
    child = Child("embedded", folder, settings)
    try:
        await child.start()
        yield child, data_dir / "postgres"
    finally:
        await child.end()
        server = EmbeddedServer(EmbeddedOptions(data_dir))
        await server.start()
        await server.stop()


async def event_ids(child: Child, ids: list[str]) -> list[str]:
    """Which of these events the hub knows."""
    client = Client("127.0.0.1", child.port, 10)
    answers = [await client.request("GET", f"/events/{one}") for one in ids]
    client.close()
    return [json.loads(answer.body)["id"] for answer in answers if answer.status == 200]


@pytest.mark.parametrize("database_dies_too", [False, True], ids=["service", "service and database"])
async def test_after_kill_9_the_embedded_database_is_found_again_with_all_its_data(
    database_dies_too: bool, servers_folder: Path, tmp_path: Path, seed: int
) -> None:
    """RR-14, F11: I1"""
    async with (
        open_receiver("plain", tmp_path, random.Random(seed)) as receiver,
        embedded_child(servers_folder) as (child, cluster),
    ):
        await subscribe(child, receiver)
        ids = [str((await post(child, "/topics/kept/events", mark(n)))["id"]) for n in range(1, 51)]
        postmaster = recorded_pid(cluster)
        assert postmaster is not None
        await child.kill()
        if database_dies_too:
            os.kill(postmaster, signal.SIGKILL)
        await child.start()
        assert (await event_ids(child, ids), recorded_pid(cluster) == postmaster) == (ids, not database_dies_too)
        await post(child, "/topics/kept/events", mark(51))
        await until(lambda: receiver.arrived >= 51, 60)
        assert await child.drain(20) == (0, pytest.approx(10, abs=10))
        assert recorded_pid(cluster) is None


def mark(n: int) -> dict[str, object]:
    return {"run": "embedded", "topic": "kept", "key": None, "n": n}


async def subscribe(child: Child, receiver: Receiver) -> None:
    await post(child, "/subscriptions", {"topic": "kept", "callback": receiver.callback})
