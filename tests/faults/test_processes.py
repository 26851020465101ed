"""Processes that are stopped, stalled, drained and killed, two of them on one database (F05, F06, F08, F09, RR-14)."""

import asyncio
import json
import os
import random
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from pathlib import Path

import pytest

from app.chaos.child import Child
from app.chaos.client import ChaosClient, NoAnswer
from app.chaos.listening import listening
from app.chaos.receiver import Receiver, open_receiver
from app.chaos.scenario import TOPIC, scenario_settings
from db.direct import connect_direct
from db.embedded.postmaster import recorded_pid
from db.embedded.server import EmbeddedOptions, EmbeddedServer
from db.pool import PoolOptions
from runtime.process import CUT_OFF_CODE
from scripts.servers.kafka import KafkaServer
from scripts.servers.rabbitmq import RabbitServer
from tests.faults.harness import CALM, CLEAN, SOAK, Harness, Kafka, Rabbit, open_harness
from tests.faults.test_database import database_behind_proxy
from tests.waiting import lasts, poll, until


async def leads(harness: Harness, sink: str, child: Child, seconds_max: float = 60.0) -> None:

    async def holds() -> object:
        return await harness.scenario.leader(sink) is child

    await until(holds, seconds_max)


def other(harness: Harness, child: Child) -> Child:
    return next(one for one in harness.scenario.children if one is not child)


WINDOW_RECORDS = 2_000
"""The most that one send to Kafka carries (``KafkaOptions.batch_records_max``); AMQP's window is 500."""
LOOKED_AT_SECONDS = 0.5
"""How often the loop's lag is looked at: a stall shows as at least what is left of it then."""
DRAIN_SECONDS_MAX = 10.0


async def filled_window(harness: Harness, leader: Child) -> None:
    """SIGSTOP the leader at a moment at which most of a full batch is under way to Kafka."""
    async with asyncio.timeout(60):
        while True:
            await harness.scenario.burst(WINDOW_RECORDS)
            for _ in range(20):
                leader.pause()
                if await harness.scenario.window("kafka") >= WINDOW_RECORDS // 2:
                    return
                leader.resume()
                await poll()


@pytest.mark.parametrize(
    ("pause_seconds", "delivery_timeout_seconds", "sinks", "is_full"),
    [
        pytest.param(3.0, 2, ("kafka", "webhooks"), False, id="3x the lease"),
        pytest.param(1.5, 15, ("kafka", "webhooks"), True, id="1.5x the lease, full window", marks=pytest.mark.slow),
        # RabbitMQ gives a silent connection up after two to three heartbeats of 3 s, and only then its lock.
        pytest.param(
            12.0, 15, ("kafka", "webhooks", "amqp"), True, id="12x the lease, full window", marks=pytest.mark.slow
        ),
    ],
)
async def test_a_leader_that_was_stopped_past_its_lease_writes_nothing_behind_its_successor(
    pause_seconds: float, delivery_timeout_seconds: int, sinks: tuple[str, ...], is_full: bool, database_url: str,
    kafka: KafkaServer, rabbitmq: RabbitServer, tmp_path: Path, seed: int,
) -> None:  # fmt: skip
    """F05: I5 I3 I1 I6"""
    brokers = Kafka(kafka.bootstrap), Rabbit(rabbitmq.url)
    options = {"keys": 16, "pause_seconds": 0.02}
    # A delivery's lease (and five seconds more) outlasts the pause: a worker that is stopped longer may be in a POST.
    options["delivery_timeout_seconds"] = delivery_timeout_seconds
    async with open_harness(database_url, tmp_path, seed, *brokers, **options) as harness:
        async with harness.scenario.load():
            await harness.accepts(200)
            stopped = await harness.scenario.leader("kafka")
            assert stopped is not None
            successor = other(harness, stopped)
            try:
                if is_full:
                    await filled_window(harness, stopped)
                else:
                    stopped.pause()
                resumed = asyncio.get_running_loop().time() + pause_seconds
                for sink in sinks:
                    await leads(harness, sink, successor)
                await harness.accepts(100)
                await harness.receives("plain", 100)
                await asyncio.sleep(max(resumed - asyncio.get_running_loop().time(), 0))
            finally:
                stopped.resume()
            await harness.accepts(200)
            await successor.kill()
            await leads(harness, "kafka", stopped)
            await harness.accepts(100)
            await successor.start()
        assert await harness.concluded(duplicates_max=600 + (2 * WINDOW_RECORDS if is_full else 0)) == CLEAN


@pytest.mark.parametrize(
    ("stall_seconds", "sinks", "is_full"),
    [
        pytest.param(3.0, ("kafka",), False, id="3x the lease"),
        # Who leads afterwards is open: a lease that has just run out may be renewed by who held it, in a new term.
        pytest.param(1.5, (), True, id="1.5x the lease, full window", marks=pytest.mark.slow),
        pytest.param(12.0, ("kafka", "amqp"), True, id="12x the lease, full window", marks=SOAK),
    ],
)
async def test_a_leader_whose_loop_was_blocked_past_its_lease_writes_nothing_behind_its_successor(
    stall_seconds: float, sinks: tuple[str, ...], is_full: bool, database_url: str, kafka: KafkaServer,
    rabbitmq: RabbitServer, tmp_path: Path, seed: int,
) -> None:  # fmt: skip
    """F06, RK-08: I5 I3 I1; the metric of the loop's lag fires. With a full window it is blocked in mid-send."""
    passing = random.Random(seed).randint(5, 30)
    brokers = Kafka(kafka.bootstrap), Rabbit(rabbitmq.url)
    async with open_harness(database_url, tmp_path, seed, *(brokers if is_full else brokers[:1]), keys=16,
                        delivery_timeout_seconds=15 if is_full else 1) as harness:  # fmt: skip
        stalled, successor = harness.scenario.children
        await successor.kill()
        await stalled.kill()
        point = "relay.mid_send" if is_full else "relay.before_send"
        await stalled.start(f"{point}:stall={stall_seconds}@{passing}")
        await leads(harness, "kafka", stalled)
        await successor.start()
        async with harness.scenario.load():
            if is_full:
                await harness.scenario.burst(WINDOW_RECORDS)
            for sink in sinks:
                await leads(harness, sink, successor)
            await lagged(stalled, stall_seconds - LOOKED_AT_SECONDS)
            await harness.accepts(200)
        assert await harness.concluded(duplicates_max=300 + (2 * WINDOW_RECORDS if is_full else 0)) == CLEAN


async def lagged(child: Child, seconds: float) -> None:
    """Wait until its metric has shown that the event loop was so late, all in all."""
    client = ChaosClient(child.port, 10)
    async with asyncio.timeout(60):
        while True:
            with suppress(NoAnswer):
                body = (await client.request("GET", "/metrics")).body.decode()
                if float(body.split("hookwire_event_loop_lag_seconds_sum ")[1].split()[0]) >= seconds:
                    break
            await poll()
    client.close()


async def test_an_event_wakes_the_process_that_leads_it_and_no_other(
    database_url: str, tmp_path: Path, seed: int
) -> None:
    """RR-15: a process that relays notifies as well, but only of events whose partition group another one leads."""
    notifications: list[int] = []
    async with open_harness(database_url, tmp_path, seed, processes=2, **CALM) as harness:
        await until(harness.scenario.leader)
        leader = await harness.scenario.leader()
        assert leader is not None
        listener = await connect_direct(PoolOptions(database_url))
        await listener.listen("hookwire_outbox", lambda _: notifications.append(1))
        for _ in range(5):
            await posted(leader)
        await lasts(0.3)  # longer than the pause between two notifications
        before = len(notifications)
        await posted(other(harness, leader))
        await until(lambda: notifications)
        await listener.aclose()
    assert before == 0


async def posted(child: Child) -> None:
    """POST one event to this process."""
    client = ChaosClient(child.port, 10)
    answer = await client.request("POST", f"/topics/{TOPIC}/events", b"{}")
    client.close()
    assert answer.status == 202


async def test_sigterm_under_load_ends_in_time_and_repeats_nothing(
    database_url: str, kafka: KafkaServer, rabbitmq: RabbitServer, tmp_path: Path, seed: int
) -> None:
    """RL-14, F08: I1 I3 I4=0, T9"""
    brokers = Kafka(kafka.bootstrap), Rabbit(rabbitmq.url)
    options = {"keys": 16, "pause_seconds": 0.02, "kafka_groups": 4, **CALM}
    async with open_harness(database_url, tmp_path, seed, *brokers, **options) as harness:
        drains = []
        async with harness.scenario.load():
            for child in harness.scenario.children:
                await harness.accepts(200)
                drains.append(await child.drain(seconds_max=60))
                await child.start()
            await harness.accepts(100)
        assert in_time(drains)
        assert await harness.concluded(duplicates_max=0) == CLEAN


def in_time(drains: Sequence[tuple[int, float]]) -> bool:
    """Whether each ended with code 0, within what is promised from the signal to the exit (F08, T9)."""
    print("ended after " + ", ".join(f"{seconds:.1f} s" for _, seconds in drains))
    return all(code == 0 and seconds <= DRAIN_SECONDS_MAX for code, seconds in drains)


@pytest.mark.slow
async def test_sigterm_of_each_role_under_load_ends_in_time_and_repeats_nothing(
    database_url: str, kafka: KafkaServer, rabbitmq: RabbitServer, tmp_path: Path, seed: int
) -> None:
    """F08: I1 I3 I4=0, T9, RO-06: API, relay (the fan-out in it) and worker as processes apart, two of each."""
    brokers = Kafka(kafka.bootstrap), Rabbit(rabbitmq.url)
    options = {"command": ("serve", "--role", "api"), **CALM}
    async with open_harness(database_url, tmp_path, seed, *brokers, **options) as harness, AsyncExitStack() as stack:
        relays, workers = ([role_child(harness, tmp_path, role, n) for n in (1, 2)] for role in ("relay", "deliver"))
        for child in (*relays, *workers):
            stack.push_async_callback(child.end)
        async with asyncio.TaskGroup() as starting:
            for child in (*relays, *workers):
                starting.create_task(child.start())
        drains = []
        async with harness.scenario.load():
            await harness.receives("ordered", 100)
            for child in (await leading(harness, relays), workers[0], harness.scenario.children[0]):
                drains.append(await child.drain(seconds_max=60))
                await harness.receives("ordered", 100)
        assert in_time(drains)
        assert await harness.concluded(duplicates_max=0) == CLEAN


async def leading(harness: Harness, relays: Sequence[Child]) -> Child:
    """Which of them leads Kafka's first partition group."""
    async with asyncio.timeout(60):
        while True:
            owner = str(await harness.scenario.database.fetchval("witness.leader", "kafka"))
            for relay in relays:
                if owner.endswith(f"-{relay.pid}"):
                    return relay
            await poll()


def role_child(harness: Harness, folder: Path, role: str, number: int) -> Child:
    """One that has no API; its health is on the port for metrics."""
    settings = scenario_settings(harness.scenario.options)
    child = Child(f"{role}-{number}", folder, settings, command=(role,))
    settings["METRICS_LISTEN"] = f"127.0.0.1:{child.port}"
    return child


@pytest.mark.slow
async def test_a_drain_does_not_wait_for_a_silent_subscriber_beyond_its_time(
    database_url: str, tmp_path: Path, seed: int
) -> None:
    """F08, T9: by the default settings; what was in flight is delivered again."""
    async with silent_subscriber() as (port, asked):
        async with open_harness(
            database_url, tmp_path, seed, processes=1, delivery_timeout_seconds=12, refused_share=0.0
        ) as harness:
            [child] = harness.scenario.children
            await post(child, "/subscriptions", {"topic": "#", "callback": f"http://127.0.0.1:{port}/"})
            await post(child, "/topics/silent/events", {})
            await asyncio.wait_for(asked.wait(), 60)
            asked.clear()
            drained = await child.drain(seconds_max=60)
            await child.start()
            await asyncio.wait_for(asked.wait(), 60)
        assert in_time([drained])


@pytest.mark.slow
@pytest.mark.parametrize("is_busy", [False, True], ids=["idle", "under load"])
async def test_a_drain_does_not_wait_for_a_database_that_never_answers(
    is_busy: bool, database_url: str, kafka: KafkaServer, rabbitmq: RabbitServer, tmp_path: Path, seed: int
) -> None:
    """F08, F13, T9: each lease, member and connection would be waited for."""
    brokers = Kafka(kafka.bootstrap), Rabbit(rabbitmq.url)
    async with (
        database_behind_proxy(database_url) as (proxy, settings),
        open_harness(database_url, tmp_path, seed, *brokers, processes=1, settings=settings) as harness,
    ):
        [child] = harness.scenario.children
        async with harness.scenario.load() if is_busy else nullcontext():
            if is_busy:
                await harness.accepts(50)
            proxy.hold()
            code, seconds = await child.drain(seconds_max=60)
            proxy.heal()
            await child.start()
        print(f"ended after {seconds:.1f} s with code {code}")
        assert (code in (0, CUT_OFF_CODE), seconds <= DRAIN_SECONDS_MAX) == (True, True)
        assert await harness.concluded(duplicates_max=400) == CLEAN


@asynccontextmanager
async def silent_subscriber() -> AsyncIterator[tuple[int, asyncio.Event]]:
    """A port where requests are read and never answered, and whether one was."""
    asked = asyncio.Event()

    async def silence(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        await asyncio.Event().wait()

    async with listening(silence) as port:
        yield port, asked


@pytest.mark.parametrize(
    ("failpoints", "then", "code"),
    [
        pytest.param("", None, 0, id="and nothing else"),
        pytest.param("stop.before_leave:hang", signal.SIGKILL, -9, id="and SIGKILL after it", marks=pytest.mark.slow),
    ],
)
async def test_a_second_signal_ends_a_drain_that_waits_for_a_silent_subscriber(
    failpoints: str, then: signal.Signals | None, code: int, database_url: str, tmp_path: Path, seed: int
) -> None:
    """F09: exit codes, and a clean restart; what hangs while it closes leaves time for the SIGKILL."""
    settings = {"DELIVERY_TIMEOUT_SECONDS": "30", "DRAIN_SECONDS": "30", "FAILPOINTS": failpoints}
    async with (
        silent_subscriber() as (port, asked),
        open_harness(database_url, tmp_path, seed, processes=1, settings=settings, refused_share=0.0) as harness,
    ):
        [child] = harness.scenario.children
        await post(child, "/subscriptions", {"topic": "silent", "callback": f"http://127.0.0.1:{port}/"})
        await post(child, "/topics/silent/events", {})
        await asyncio.wait_for(asked.wait(), 60)
        os.kill(child.pid, signal.SIGTERM)
        with pytest.raises(TimeoutError):
            await child.ended(1.0)
        os.kill(child.pid, signal.SIGTERM)
        if then is not None:
            os.kill(child.pid, then)
        assert await child.ended(20) == code
        assert "Traceback" not in child.log_tail(200)
        await child.start()
        async with harness.scenario.load():
            await harness.receives("ordered", 10)


async def post(child: Child, path: str, document: object) -> dict[str, object]:
    client = ChaosClient(child.port, 10)
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
    client = ChaosClient(child.port, 10)
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
