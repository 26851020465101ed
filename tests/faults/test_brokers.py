"""Brokers that are down, restart, hang, or lose what we publish to; one of them never holds up another (F19-F27)."""

import asyncio
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.chaos.client import ChaosClient
from app.chaos.scenario import TOPIC
from relay.kafka.sink import KafkaOptions, KafkaSink
from relay.record import Record
from relay.sink import Batch, SinkUnavailable, Term
from scripts.servers.kafka import KafkaServer
from scripts.servers.rabbitmq import RabbitServer
from tests.faults.harness import CALM, CLEAN, SOAK, Harness, Kafka, Rabbit, open_harness
from tests.faults.proxy import proxied
from tests.faults.traffic import Traffic, is_slower, read_by
from tests.relay.kafka.kafka_topic import make_topic, read_committed
from tests.waiting import lasts, poll, until

# What is in flight when a broker goes: an AMQP window of 500 with one message per key.
DUPLICATES_MAX = 100

RECORDS = 100  # of one commit


async def held(harness: Harness, sink: str, seconds_max: float = 60.0) -> None:
    """Waits until the sink has something to hold back."""
    await until(lambda: harness.scenario.database.fetch("hold.open", sink, 0), seconds_max)


async def readiness(harness: Harness) -> tuple[int, bytes]:
    client = ChaosClient(harness.scenario.children[0].port, 10)
    answer = await client.request("GET", "/readyz")
    client.close()
    return answer.status, answer.body


@pytest.mark.parametrize("down_seconds", [3, pytest.param(20, marks=pytest.mark.slow), pytest.param(60, marks=SOAK)])
async def test_with_kafka_down_at_the_start_and_again_later_everything_else_goes_on_and_kafka_gets_all_of_it(
    down_seconds: int, database_url: str, kafka: KafkaServer, tmp_path: Path, seed: int
) -> None:
    """RR-09, F19 F27: I1 I3 I6 I7, T5"""
    await asyncio.to_thread(kafka.kill)
    try:
        async with open_harness(
            database_url, tmp_path, seed, Kafka(kafka.bootstrap), pause_seconds=0.1, **CALM
        ) as harness:
            async with harness.scenario.load():
                await harness.accepts(100)
                await harness.receives("ordered", 100)
                assert (await readiness(harness))[0] == 200
                await asyncio.to_thread(kafka.start)
                await harness.accepts(200)
                await asyncio.to_thread(kafka.kill)
                await asyncio.sleep(down_seconds)
                await harness.accepts(100)
                await harness.receives("ordered", 100)
                await asyncio.to_thread(kafka.start)
            assert await harness.concluded(duplicates_max=0, quiet_seconds_max=120) == CLEAN
    finally:
        await asyncio.to_thread(kafka.start)


async def test_a_kafka_that_hangs_delays_neither_amqp_nor_webhooks(
    database_url: str, kafka: KafkaServer, rabbitmq: RabbitServer, tmp_path: Path, seed: int
) -> None:
    """RP-09, F27: I7 I1 I3"""
    rabbit = Rabbit(rabbitmq.url)
    async with open_harness(database_url, tmp_path, seed, Kafka(kafka.bootstrap), rabbit, **CALM) as harness:
        async with harness.scenario.load():
            await harness.accepts(100)
            kafka.pause()
            try:
                before = await rabbit.count()
                await harness.receives("plain", 200)
                await harness.receives("ordered", 100)
                assert await rabbit.count() > before + 100
            finally:
                kafka.resume()
            await harness.accepts(50)
        assert await harness.concluded(duplicates_max=0) == CLEAN


@pytest.mark.slow
@pytest.mark.parametrize("seeded_bug", [None, "sinks-in-step"], ids=["without", "seeded"])
async def test_a_rabbitmq_in_alarm_delays_neither_kafka_nor_webhooks(
    seeded_bug: str | None, database_url: str, kafka: KafkaServer, rabbitmq: RabbitServer, tmp_path: Path, seed: int
) -> None:
    """RQ-11, F25: I7 I1 I3, and F27; it blocks who publishes, and confirms nothing.

    With the seeded bug the other sinks wait for the one that backs off, and Kafka's readers notice.
    """
    rabbit, broker = Rabbit(rabbitmq.url), Kafka(kafka.bootstrap)
    topic = broker.prefix + TOPIC
    await make_topic(kafka.bootstrap, topic)
    async with open_harness(database_url, tmp_path, seed, broker, rabbit, seeded_bug=seeded_bug, **CALM) as harness:
        traffic = Traffic(harness)
        async with read_by(traffic, kafka.bootstrap, topic), harness.scenario.load():
            await harness.accepts(100)
            await traffic.phase(0)  # whatever is done for the first time
            _, usual = await traffic.phase(0)
            await asyncio.to_thread(rabbitmq.set_vm_memory_high_watermark, 0.00001)
            try:
                await backs_off(harness, "amqp")
                await stands_still(rabbit)
                if seeded_bug:
                    with pytest.raises(TimeoutError):
                        await traffic.phase(0, seconds_max=5)
                    assert not harness.scenario.crashes, "a crash is not what was to be found"
                    return
                before = await rabbit.count()
                _, beside = await traffic.phase(0)
                await harness.receives("plain", 200)
                await harness.receives("ordered", 100)
                assert await rabbit.count() == before
            finally:
                await asyncio.to_thread(rabbitmq.set_vm_memory_high_watermark, 0.4)
            await harness.accepts(50)
        p99 = {"usual": traffic.p99(usual), "in alarm": traffic.p99(beside)}
        print(f"seed {seed}, Kafka's p99 in ms: { {name: round(1000 * seconds) for name, seconds in p99.items()} }")
        assert await harness.concluded(duplicates_max=DUPLICATES_MAX) == CLEAN
    assert not is_slower(p99["in alarm"], p99["usual"]), p99


async def backs_off(harness: Harness, sink: str, seconds_max: float = 60.0) -> None:
    """Wait until a relay says that it pauses."""
    await until(
        lambda: any(_says_that_it_backs_off(one.log_path, sink) for one in harness.scenario.children), seconds_max
    )


def _says_that_it_backs_off(log: Path, sink: str) -> bool:
    return any("relay_backs_off" in line and f'"{sink}"' in line for line in log.read_text().splitlines())


async def stands_still(rabbit: Rabbit, seconds_max: float = 60.0) -> None:
    """Wait until nothing arrives any more: what was on the wire when the alarm came still does."""
    counts = [-1]

    async def is_still() -> bool:
        counts.append(await rabbit.count())
        return counts[-1] == counts[-2]

    await until(is_still, seconds_max)


async def test_a_commit_that_had_begun_when_kafka_was_killed_is_whole_or_nothing_and_the_marker_says_which(
    kafka: KafkaServer, seed: int
) -> None:
    """RO-07, F20: eight groups commit at once, so each is struck at another step, some before the markers are written.

    Brokers with KAFKA-20734 forget markers then. This test finds it.
    """
    topic = f"killed-{seed}"
    options = KafkaOptions(kafka.bootstrap, installation=topic, request_seconds=5, delivery_seconds=5)
    await make_topic(kafka.bootstrap, topic)
    sinks = [KafkaSink(options) for _ in range(8)]
    acknowledged: set[int] = set()

    async def opens(group: int) -> int | None:
        return await sinks[group].open(Term("kafka", group, 1, 1, 0))

    async def commits(group: int) -> None:
        term = Term("kafka", group, 1, 1, 0)
        records = [committed_by(group, place, topic) for place in range(RECORDS)]
        try:
            await sinks[group].send(Batch(term, records, number=1))
            acknowledged.add(group)
        except SinkUnavailable:
            pass  # nobody knows
        kafka.kill()

    async def resumes(group: int) -> int | None:
        while True:
            try:
                return await sinks[group].open(Term("kafka", group, 2, 1, 0))
            except SinkUnavailable:
                await poll()

    try:
        # All are open before the first one kills the broker.
        assert await asyncio.gather(*(opens(group) for group in range(len(sinks)))) == [0] * len(sinks)
        await asyncio.gather(*(commits(group) for group in range(len(sinks))))
        starting = asyncio.create_task(asyncio.to_thread(kafka.start))
        markers = await asyncio.gather(*(resumes(group) for group in range(len(sinks))))
        await starting
        read = Counter(message.headers["group"] for message in await read_committed(kafka.bootstrap, topic))
    finally:
        await asyncio.to_thread(kafka.start)
        for sink in sinks:
            await sink.close()
    print(f"seed {seed}: acknowledged {sorted(acknowledged)}, markers {markers}")
    assert {group: read[str(group)] for group in range(len(sinks))} == {
        group: RECORDS * (marker or 0) for group, marker in enumerate(markers)
    }
    assert all(markers[group] == 1 for group in acknowledged)


def committed_by(group: int, place: int, topic: str) -> Record:
    return Record(
        id=1 + RECORDS * group + place, shard=0, event_id=f"evt_{group}_{place}", tenant="default", topic=topic,
        key=f"k{place % 16}", sequence=None, content_type=None, headers={"group": str(group)}, payload=b"x" * 200,
        accepted_at=datetime.now(UTC),
    )  # fmt: skip


@pytest.mark.slow
async def test_answers_of_kafka_that_are_lost_repeat_nothing_for_read_committed_readers(
    database_url: str, kafka: KafkaServer, tmp_path: Path, seed: int
) -> None:
    """RO-07, F20 F56: I3 I4=0; the answer to a commit is among what is lost."""
    async with proxied("127.0.0.1", kafka.proxied_port, kafka.advertised_port) as proxy:
        brokers = Kafka(kafka.proxied_bootstrap, kafka.bootstrap)
        async with open_harness(database_url, tmp_path, seed, brokers, **CALM) as harness:
            async with harness.scenario.load():
                for _ in range(3):
                    await harness.accepts(100)
                    proxy.lose("down")
                    await lasts(1.0)
                    proxy.heal()
                await harness.accepts(100)
            assert await harness.concluded(duplicates_max=0, quiet_seconds_max=120) == CLEAN


@pytest.mark.parametrize(
    "way", ["restart", "connections closed", pytest.param("application stopped", marks=pytest.mark.slow)]
)
async def test_what_rabbitmq_had_not_confirmed_is_sent_again_and_what_it_had_is_kept(
    way: str, database_url: str, rabbitmq: RabbitServer, tmp_path: Path, seed: int
) -> None:
    """F24: I1 I3 I4"""

    def harm() -> None:
        if way == "restart":
            rabbitmq.restart()
        elif way == "connections closed":
            rabbitmq.close_all_connections("fault")
        else:
            rabbitmq.stop_app()
            rabbitmq.start_app()

    async with open_harness(database_url, tmp_path, seed, Rabbit(rabbitmq.url), keys=16, pause_seconds=0.1) as harness:
        async with harness.scenario.load():
            await harness.accepts(100)
            await asyncio.to_thread(harm)
            await harness.accepts(100)
        assert await harness.concluded(duplicates_max=DUPLICATES_MAX) == CLEAN


async def test_a_rabbitmq_behind_a_proxy_that_accepts_and_closes_ends_nobody_and_gets_all_of_it(
    database_url: str, rabbitmq: RabbitServer, tmp_path: Path, seed: int
) -> None:
    """FC-03, F24: I1 I3 I4 I7; a load balancer without a server, then one whose server goes while it greets."""
    async with proxied("127.0.0.1", rabbitmq.port) as proxy:
        rabbit = Rabbit(rabbitmq.url, f"amqp://guest:guest@127.0.0.1:{proxy.port}/")
        async with open_harness(database_url, tmp_path, seed, rabbit, **CALM) as harness:
            async with harness.scenario.load():
                await harness.accepts(100)
                for answer_bytes in (0, 7, 508, 600):
                    proxy.close_after(answer_bytes)
                    await until(lambda: proxy.turned_away >= 3, 60)
                    await harness.receives("ordered", 20)
                    proxy.heal()
                    await harness.accepts(20)
                await backs_off(harness, "amqp")
            assert await harness.concluded(duplicates_max=DUPLICATES_MAX) == CLEAN


@pytest.mark.slow
async def test_a_kafka_whose_brokers_are_fenced_ends_nobody_and_gets_all_of_it(
    database_url: str, kafka: KafkaServer, tmp_path: Path, seed: int
) -> None:
    """FC-04, F19: I1 I3 I6 I7; a broker that is continued after its session has ended is fenced for a moment.

    It is stopped for longer than a batch is waited for, so that producers are being started when it comes back.
    """
    async with open_harness(database_url, tmp_path, seed, Kafka(kafka.bootstrap), pause_seconds=0.1, **CALM) as harness:
        async with harness.scenario.load():
            await harness.accepts(100)
            for _ in range(4):
                await asyncio.to_thread(kafka.pause)
                await lasts(16.0)
                await harness.receives("ordered", 20)
                await asyncio.to_thread(kafka.resume)
                await harness.accepts(50)
        assert await harness.concluded(duplicates_max=0, quiet_seconds_max=120) == CLEAN


async def test_what_no_queue_takes_is_held_and_drained_in_order_when_one_is_bound_again(
    database_url: str, rabbitmq: RabbitServer, tmp_path: Path, seed: int
) -> None:
    """F26: I1 I3: first the binding goes, then the exchange itself; webhooks do not notice."""
    rabbit = Rabbit(rabbitmq.url)
    async with open_harness(database_url, tmp_path, seed, rabbit) as harness:
        async with harness.scenario.load():
            await harness.accepts(50)
            await rabbit.unbind()
            await held(harness, "amqp")
            await harness.receives("ordered", 50)
            await rabbit.bind()
            await harness.accepts(50)
            await rabbit.delete_exchange()
            await harness.receives("ordered", 50)
            await rabbit.bind()
            await harness.accepts(50)
        assert await harness.concluded(duplicates_max=DUPLICATES_MAX) == CLEAN
