"""The AMQP sink on a real RabbitMQ: verdicts, faults, the fence (F24 to F27)."""

import asyncio
import secrets
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage

from relay.amqp.other_vhosts import OtherVhosts
from relay.amqp.sink import AmqpOptions, AmqpSink
from relay.record import Record
from relay.sink import Batch, Receipt, Refusal, SinkUnavailable, Term
from scripts.servers.rabbitmq import RabbitServer
from tests.waiting import lasts, poll

TERM = Term("amqp", 0, 1, 1, 0)


def record(number: int, key: str | None = None, topic: str = "orders", **changes: object) -> Record:
    plain = Record(
        id=number, shard=0, event_id=f"evt_abcdefgh_{number}", tenant="default", topic=topic, key=key, sequence=number,
        content_type=None, headers={}, payload=b"%d" % number, accepted_at=datetime(2025, 1, 1, tzinfo=UTC),
    )  # fmt: skip
    return plain._replace(**changes)


def records(count: int, keys: int = 10, first: int = 1) -> list[Record]:
    return [record(number, f"key {number % keys}") for number in range(first, first + count)]


class Broker:
    """One test's corner of the RabbitMQ: an exchange, lock queues and queues that nobody else uses."""

    def __init__(self, server: RabbitServer, channel: AbstractChannel) -> None:
        self.server = server
        self.name = f"test-{secrets.token_hex(4)}"
        self._channel = channel

    def sink(self, **options: object) -> AmqpSink:
        defaults = {"exchange": self.name, "publish_seconds": 2.0, "lock_seconds": 0.3, "heartbeat_seconds": 1}
        return AmqpSink(AmqpOptions(self.server.url, self.name, **{**defaults, **options}))  # type: ignore[arg-type]

    async def bind(self, pattern: str = "#", exchange: str | None = None, **arguments: object) -> str:
        """A durable queue that takes what matches; returns its name."""
        queue = f"{self.name}.{secrets.token_hex(2)}"
        await self.on_channel("declare_queue", queue, durable=True, arguments=arguments or None)
        await self.on_channel("queue_bind", queue, exchange or self.name, pattern)
        return queue

    async def on_channel(self, verb: str, *arguments: object, **options: object) -> None:
        """Say something to the broker on a connection of its own, so that an outage does not matter."""
        connection = await aio_pika.connect(self.server.url)
        async with connection, connection.channel() as channel:
            if verb == "queue_bind":
                queue, exchange, pattern = arguments
                await (await channel.get_queue(str(queue))).bind(str(exchange), str(pattern))
            else:
                await getattr(channel, verb)(*arguments, **options)

    async def limits_messages(self, size_bytes: int) -> None:
        """Close the channel of a larger message from now on; RabbitMQ's default is 128 MiB."""
        await asyncio.to_thread(
            self.server.ctl, "eval", f"application:set_env(rabbit, max_message_size, {size_bytes})."
        )

    async def drain(self, queue: str) -> list[AbstractIncomingMessage]:
        """All messages that lie in a queue."""
        connection = await aio_pika.connect(self.server.url)
        messages = []
        async with connection, connection.channel() as channel:
            source = await channel.get_queue(queue)
            while (message := await source.get(no_ack=True, fail=False)) is not None:
                messages.append(message)
        return messages

    async def bodies(self, queue: str) -> list[int]:
        return [int(message.body) for message in await self.drain(queue)]


@pytest.fixture
async def broker(rabbitmq: RabbitServer) -> AsyncIterator[Broker]:
    connection = await aio_pika.connect(rabbitmq.url)
    async with connection, connection.channel() as channel:
        corner = Broker(rabbitmq, channel)
        await channel.declare_exchange(corner.name, "topic", durable=True)
        yield corner


@asynccontextmanager
async def opened(sink: AmqpSink, term: Term = TERM) -> AsyncIterator[AmqpSink]:
    try:
        assert await sink.open(term) is None
        yield sink
    finally:
        await sink.close()


async def send(sink: AmqpSink, batch: list[Record], term: Term = TERM) -> Receipt:
    return await sink.send(Batch(term, batch))


def refusals(receipt: Receipt) -> list[tuple[int, str, str]]:
    return [(refusal.record.id, refusal.scope, refusal.reason) for refusal in receipt.refused]


async def eventually(action, seconds: float = 60.0):  # type: ignore[no-untyped-def]
    """Repeats an action until it raises SinkUnavailable no more."""
    async with asyncio.timeout(seconds):
        while True:
            try:
                return await action()
            except SinkUnavailable:
                await poll()


async def carry(sink: AmqpSink, batch: list[Record], seconds: float = 60) -> tuple[list[int], list[Refusal]]:
    """Send as a harvester does, opening again after each failure, until every record is settled or waits."""
    acknowledged: list[int] = []
    refused: list[Refusal] = []
    while left := [one for one in batch if one.id not in acknowledged and not waits(one, refused)]:

        async def step() -> Receipt:
            try:
                return await send(sink, left[: sink.features.batch_records_max])
            except SinkUnavailable:
                await sink.open(TERM)
                raise

        receipt = await eventually(step, seconds)
        acknowledged += [one.id for one in receipt.acknowledged]
        refused += receipt.refused
    return sorted(acknowledged), refused


def repeats_are_adjacent(arrived: list[int], keys: int) -> bool:
    """Per key the order of arrival never goes back (I3, RR-01)."""
    by_key = ([n for n in arrived if n % keys == key] for key in range(keys))
    return all([n for n, _ in groupby(of_key)] == sorted(set(of_key)) for of_key in by_key)


def waits(one: Record, refused: list[Refusal]) -> bool:
    """Whether the harvester would hold the record behind a refusal."""
    return any(
        refusal.record.topic == one.topic and (refusal.scope == "topic" or refusal.record.key == one.key)
        for refusal in refused
    )


# --- verdicts ---------------------------------------------------------------------------------------------------


async def test_a_batch_is_confirmed_and_lies_in_the_queue_in_order_per_key(broker: Broker):
    """RQ-08."""
    queue, batch = await broker.bind(), records(500, keys=40)
    async with opened(broker.sink()) as sink:
        receipt = await send(sink, batch)
    assert receipt == Receipt(batch, [])
    arrived = await broker.bodies(queue)
    by_key = {key: list(group) for key, group in groupby(sorted(arrived, key=lambda n: n % 40), lambda n: n % 40)}
    assert by_key == {key: [one.id for one in batch if one.id % 40 == key] for key in range(40)}


async def test_messages_are_persistent_and_tell_their_event_and_term(broker: Broker):
    """RQ-03, RO-15."""
    queue = await broker.bind()
    async with opened(broker.sink()) as sink:
        await send(sink, [record(7, "a", payload=b"", content_type="text/plain")], Term("amqp", 0, 9, 1, 0))
    (message,) = await broker.drain(queue)
    assert (message.body, message.message_id, message.content_type, message.delivery_mode, message.routing_key) == (
        b"", "evt_abcdefgh_7", "text/plain", 2, "orders",
    )  # fmt: skip
    assert {name: message.headers[name] for name in ("hookwire-key", "hookwire-sequence", "hookwire-term")} == {
        "hookwire-key": "a", "hookwire-sequence": 7, "hookwire-term": 9,
    }  # fmt: skip


async def test_without_our_headers_a_message_has_the_publishers_alone(broker: Broker):
    """RO-15."""
    queue = await broker.bind()
    async with opened(broker.sink(own_headers=False)) as sink:
        await send(sink, [record(7, "a", headers={"x-trace": "1"})])
    (message,) = await broker.drain(queue)
    assert (message.headers, message.message_id) == ({"x-trace": "1"}, "evt_abcdefgh_7")


async def test_unroutable_is_never_sent_but_makes_its_topic_wait_until_somebody_binds(broker: Broker):
    """RQ-01, F26, MU-09."""
    queue = await broker.bind("orders")
    batch = [record(1, "a", "git.push"), record(2, "a"), record(3, "a", "git.push"), record(4, "b")]
    async with opened(broker.sink(window_records_max=1)) as sink:
        receipt = await send(sink, batch)
        late = await broker.bind("git.*")
        again = await send(sink, [batch[0], batch[2]])
    assert (receipt.acknowledged, refusals(receipt)) == ([batch[1], batch[3]], [(1, "topic", "unroutable")])
    assert again == Receipt([batch[0], batch[2]], [])
    assert (await broker.bodies(queue), await broker.bodies(late)) == ([2, 4], [1, 3])


async def test_an_exchange_of_a_topics_own_must_exist_and_is_not_created(broker: Broker):
    """RQ-11."""
    queue, own = await broker.bind(), f"{broker.name}.own"
    batch = [record(1, "a", "audit", amqp_exchange=own), record(2, "b", "audit", amqp_exchange=own), record(3, "c")]
    async with opened(broker.sink()) as sink:
        missing = await send(sink, batch)
        await broker.on_channel("declare_exchange", own, "fanout", durable=True)
        late = await broker.bind("", own)
        present = await send(sink, batch[:2])
    assert missing.acknowledged == [batch[2]]
    assert [(r.record.id, r.scope, r.reason, r.detail.split(" - ")[0]) for r in missing.refused] == [
        (1, "topic", "exchange_unusable", "NOT_FOUND")
    ]
    assert present == Receipt(batch[:2], [])
    assert (await broker.bodies(queue), sorted(await broker.bodies(late))) == ([3], [1, 2])


@pytest.mark.parametrize(
    "wrong",
    [{"amqp_exchange": "tür"}, {"amqp_exchange": "x" * 128, "amqp_exchange_type": "fanout"}, {"amqp_exchange": "a(b)"},
     {"amqp_exchange": "amq.default", "amqp_routing_key": "q\n"}],
)  # fmt: skip
async def test_a_name_that_the_client_cannot_send_holds_its_topic_and_no_other(broker: Broker, wrong: dict[str, str]):
    """FM-02: the client's own error for it looked like a lost connection, and stopped the whole sink."""
    queue = await broker.bind()
    batch = [record(1, "a", "audit", **wrong), record(2, "b")]
    async with opened(broker.sink()) as sink:
        receipt = await send(sink, batch)
        again = await send(sink, [record(3, "b")])
    assert (receipt.acknowledged, refusals(receipt)) == ([batch[1]], [(1, "topic", "exchange_unusable")])
    assert (len(again.acknowledged), await broker.bodies(queue)) == (1, [2, 3])


async def test_an_exchange_deleted_under_us_holds_its_topic_while_the_others_in_flight_arrive(broker: Broker):
    """RQ-11, F26: the broker closes the channel under all messages that are under way."""
    own = f"{broker.name}.own"
    await broker.on_channel("declare_exchange", own, "topic", durable=True)
    queue, _ = await broker.bind(), await broker.bind("#", own)
    batch = [record(1, "a", "audit", amqp_exchange=own), *(record(n, f"key {n}") for n in range(2, 30))]
    async with opened(broker.sink()) as sink:
        before = await send(sink, batch[:1])
        await broker.on_channel("exchange_delete", own)
        acknowledged, refused = await carry(sink, batch)
    assert (before, [(r.record.id, r.scope, r.reason) for r in refused], acknowledged) == (
        Receipt(batch[:1], []), [(1, "topic", "exchange_unusable")], list(range(2, 30)),
    )  # fmt: skip
    assert set(await broker.bodies(queue)) == set(range(2, 30))


async def user_of(server: RabbitServer, configure: str) -> str:
    """The URL of a user who may configure what matches, and write and read everything."""
    name = f"user-{secrets.token_hex(4)}"
    await asyncio.to_thread(server.ctl, "add_user", name, "secret")
    await asyncio.to_thread(server.ctl, "set_permissions", name, configure, ".*", ".*")
    return server.url.replace("guest:guest", f"{name}:secret")


async def test_an_exchange_that_exists_is_used_as_it_is(broker: Broker):
    """GW-10: one with an alternate exchange, or of another type, was refused for ever."""
    own, mirrored, spare = f"{broker.name}.own", f"{broker.name}.mirrored", f"{broker.name}.spare"
    await broker.on_channel("declare_exchange", spare, "fanout", durable=True)
    for name in (own, mirrored):
        await broker.on_channel(
            "declare_exchange", name, "topic", durable=True, arguments={"alternate-exchange": spare}
        )
    unrouted, routed = await broker.bind("", spare), await broker.bind("orders", own)
    batch = [
        record(1, "a"),
        record(2, "b", "other"),
        record(3, "c", amqp_exchange=mirrored, amqp_exchange_type="fanout"),
    ]
    async with opened(broker.sink(exchange=own)) as sink:
        receipt = await send(sink, batch)
    assert receipt == Receipt(batch, [])
    assert (await broker.bodies(routed), sorted(await broker.bodies(unrouted))) == ([1], [2, 3])


async def test_a_user_who_may_declare_nothing_but_locks_uses_what_is_there(broker: Broker):
    """GW-10: the exchange, and a queue of the default exchange."""
    queue, task_queue = await broker.bind(), f"{broker.name}.tasks"
    await broker.on_channel("declare_queue", task_queue, durable=True, arguments={"x-max-length": 9})
    url = await user_of(broker.server, r"^hookwire\.lock\.")
    batch = [record(1, "a"), record(2, "b", "tasks", amqp_exchange="amq.default", amqp_routing_key=task_queue)]
    sink = AmqpSink(AmqpOptions(url, broker.name, exchange=broker.name, publish_seconds=2.0))
    async with opened(sink):
        receipt = await send(sink, batch)
    assert receipt == Receipt(batch, [])
    assert (await broker.bodies(queue), await broker.bodies(task_queue)) == ([1], [2])


async def test_a_user_who_may_not_declare_locks_is_told_what_to_grant(broker: Broker):
    """GW-10."""
    url = await user_of(broker.server, "^$")
    with pytest.raises(SinkUnavailable, match="grant the user the configure and write permissions"):
        await AmqpSink(AmqpOptions(url, broker.name, exchange=broker.name, publish_seconds=2.0)).open(TERM)


async def test_our_own_exchange_is_declared_again_when_somebody_deletes_it(broker: Broker):
    """F26: then nobody is bound to it, so the topic waits."""
    async with opened(broker.sink()) as sink:
        await broker.on_channel("exchange_delete", broker.name)
        _, refused = await carry(sink, records(20))
        waiting = await send(sink, records(1))
        queue = await broker.bind()
        again = await send(sink, records(20))
    assert ({r.scope for r in refused}, refusals(waiting)) == ({"topic"}, [(1, "topic", "unroutable")])
    assert (again.acknowledged, set(await broker.bodies(queue))) == (records(20), set(range(1, 21)))


async def test_a_message_too_large_for_the_broker_is_refused_alone(broker: Broker):
    """RO-08: the broker closes the channel for it; its neighbours are sent again and arrive."""
    queue = await broker.bind()
    batch = records(200, keys=100)
    batch[1] = batch[1]._replace(payload=b"x" * 2000)
    await broker.limits_messages(1000)
    try:
        async with opened(broker.sink()) as sink:
            acknowledged, refused = await carry(sink, batch)
    finally:
        await broker.limits_messages(134_217_728)
    assert ([(r.record.id, r.scope, r.reason) for r in refused], acknowledged) == (
        [(2, "record", "refused_by_broker")], [n for n in range(1, 201) if n % 100 != 2],
    )  # fmt: skip
    assert set(await broker.bodies(queue)) == set(acknowledged)


async def test_a_record_that_amqp_cannot_carry_is_refused_and_the_connection_lives(broker: Broker):
    queue = await broker.bind()
    async with opened(broker.sink()) as sink:
        receipt = await send(sink, [record(1, "a", headers={"x": "y" * 200_000}), record(2, "b")])
    assert (refusals(receipt), await broker.bodies(queue)) == ([(1, "record", "headers_too_large")], [2])


async def test_a_full_queue_is_back_pressure_on_its_topic_and_what_was_confirmed_is_not_sent_twice(broker: Broker):
    """RQ-02, F26, GW-01."""
    queue = await broker.bind("#", **{"x-max-length": 3, "x-overflow": "reject-publish"})
    batch = [record(number, "a") for number in range(1, 8)]
    async with opened(broker.sink()) as sink:
        receipt = await send(sink, batch)
        again = await send(sink, batch[len(receipt.acknowledged) :])
    confirmed = [one.id for one in receipt.acknowledged]
    full = [(len(confirmed) + 1, "topic", "queue_full")]
    assert (refusals(receipt), refusals(again), confirmed) == (full, full, await broker.bodies(queue))
    assert "x-max-length" in receipt.refused[0].detail


# --- the fence --------------------------------------------------------------------------------------------------


async def test_a_successor_waits_until_the_predecessor_is_gone(broker: Broker):
    """RO-13."""
    await broker.bind()
    async with opened(broker.sink()) as first:
        successor = broker.sink()
        with pytest.raises(SinkUnavailable, match="lock queue"):
            await successor.open(replace(TERM, number=2))
        assert (await send(first, [record(1)])).acknowledged == [record(1)]
    async with opened(successor, replace(TERM, number=2)):
        assert (await send(successor, [record(2)])).acknowledged == [record(2)]


async def test_a_lost_connection_loses_the_lock_and_publishes_no_more(broker: Broker):
    """RQ-06, MU-08, I5: an old leader cannot write after its successor."""
    queue = await broker.bind()
    async with opened(broker.sink()) as old, opened(broker.sink(exchange=broker.name, lock_seconds=5.0), TERM_OTHER):
        await send(old, [record(1, "a")])
        await asyncio.to_thread(broker.server.close_all_connections, "a test cuts every connection")
        async with opened(broker.sink(lock_seconds=5.0), replace(TERM, number=2)) as new:
            with pytest.raises(SinkUnavailable):
                await send(old, [record(2, "a")], TERM)
            with pytest.raises(SinkUnavailable):
                await old.open(TERM)
            await send(new, [record(2, "a")], replace(TERM, number=2))
    assert [(int(m.body), m.headers["hookwire-term"]) for m in await broker.drain(queue)] == [(1, 1), (2, 2)]


TERM_OTHER = Term("amqp", 1, 1, 1, 0)


async def test_a_leader_that_hangs_loses_its_lock_by_its_heartbeat(broker: Broker):
    """RQ-07, F05: the successor takes over after two to three heartbeats."""
    await broker.bind()
    script = (
        "import asyncio, sys, time\n"
        "from relay.amqp.sink import AmqpOptions, AmqpSink\n"
        "from relay.sink import Term\n"
        "async def main():\n"
        "    sink = AmqpSink(AmqpOptions(sys.argv[1], sys.argv[2], sys.argv[2], heartbeat_seconds=1))\n"
        "    await sink.open(Term('amqp', 0, 1, 1, 0))\n"
        "    print('leading', flush=True)\n"
        "    time.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    hung = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, broker.server.url, broker.name, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert hung.stdout is not None
        assert await hung.stdout.readline() == b"leading\n"
        async with opened(broker.sink(lock_seconds=20.0), replace(TERM, number=2)) as successor:
            assert (await send(successor, [record(1)])).acknowledged == [record(1)]
        assert hung.returncode is None
    finally:
        hung.kill()
        await hung.wait()


# --- outages ----------------------------------------------------------------------------------------------------


async def test_a_restart_of_the_broker_keeps_what_was_confirmed_and_the_rest_is_sent_again(broker: Broker):
    """RQ-05, WH-11, F24, I1, I3."""
    queue, sink, acknowledged = await broker.bind(), broker.sink(), list[int]()
    restart = asyncio.create_task(asyncio.to_thread(restart_app, broker.server))
    while not restart.done():
        confirmed, _ = await carry(sink, records(21, keys=7, first=len(acknowledged) + 1))
        acknowledged += confirmed
        await lasts(0.005)  # a publisher's pace, not a wait
    await sink.close()
    arrived = await broker.bodies(queue)
    assert acknowledged == sorted(set(arrived))
    assert repeats_are_adjacent(arrived, keys=7)


def restart_app(server: RabbitServer) -> None:
    server.stop_app()
    server.start_app()


async def test_an_alarm_pauses_the_sink_and_healing_it_loses_and_reorders_nothing(broker: Broker):
    """RQ-11, F25."""
    queue, batch = await broker.bind(), records(100, keys=7)
    sink = broker.sink()
    await sink.open(TERM)
    confirmed = list((await send(sink, batch[:7])).acknowledged)
    await asyncio.to_thread(broker.server.set_vm_memory_high_watermark, 0.00001)
    try:
        with pytest.raises(SinkUnavailable):
            await send_on(sink, batch, confirmed)
        with pytest.raises(SinkUnavailable, match="memory or disk"):
            await eventually_not_locked(sink)
    finally:
        await asyncio.to_thread(broker.server.set_vm_memory_high_watermark, 0.4)
    await eventually(lambda: sink.open(TERM))
    receipt = await send(sink, [one for one in batch if one not in confirmed])
    await sink.close()
    arrived = await broker.bodies(queue)
    assert sorted(one.id for one in [*confirmed, *receipt.acknowledged]) == sorted(set(arrived)) == list(range(1, 101))
    assert repeats_are_adjacent(arrived, keys=7)


async def send_on(sink: AmqpSink, batch: list[Record], confirmed: list[Record]) -> None:
    """Sends until the sink is unavailable: the broker may let some messages pass before it blocks."""
    while True:
        confirmed += (await send(sink, [one for one in batch if one not in confirmed])).acknowledged


async def eventually_not_locked(sink: AmqpSink) -> None:
    """Opens until the lock of the predecessor is gone; the broker notices only then that a blocked client left."""
    async with asyncio.timeout(45):
        while True:
            try:
                return await sink.open(TERM)
            except SinkUnavailable as error:
                if "lock queue" not in str(error):
                    raise


async def test_a_broker_that_hangs_is_an_unknown_outcome_and_never_an_endless_wait(broker: Broker):
    """RQ-04."""
    queue, batch = await broker.bind(), records(20, keys=3)
    sink = broker.sink(publish_seconds=0.5)
    await sink.open(TERM)
    broker.server.pause()
    try:
        with pytest.raises(SinkUnavailable, match="in time"):
            await send(sink, batch)
        async with asyncio.timeout(20):
            await sink.close()
    finally:
        broker.server.resume()
    await eventually(lambda: sink.open(TERM))
    receipt = await send(sink, batch)
    await sink.close()
    arrived = await broker.bodies(queue)
    assert (receipt, set(arrived)) == (Receipt(batch, []), {one.id for one in batch})
    assert repeats_are_adjacent(arrived, keys=3)


async def test_a_broker_that_falls_silent_is_found_by_the_heartbeat(broker: Broker):
    """RQ-07: before the confirmation is overdue; the cancellation that the library makes of it is not ours."""
    await broker.bind()
    sink = broker.sink(publish_seconds=60)
    await sink.open(TERM)
    broker.server.pause()
    try:
        async with asyncio.timeout(45):
            with pytest.raises(SinkUnavailable, match="lost"):
                await send(sink, [record(1)])
    finally:
        broker.server.resume()
    await sink.close()


@pytest.mark.parametrize(("reason", "expected"), [(Exception(), SinkUnavailable), (ValueError(), ExceptionGroup)])
async def test_a_bare_exception_of_the_library_is_an_operating_error_and_a_bug_is_not(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, reason: Exception, expected: type[Exception]
):
    """RL-22, RQ-04: aiormq ends so whoever waits on a connection that was closed without a reason."""
    await broker.bind()
    async with opened(broker.sink()) as sink:

        async def ended(*_arguments: object, **_options: object) -> None:
            raise reason

        monkeypatch.setattr("aiormq.Channel.basic_publish", ended)
        with pytest.raises(expected):
            await send(sink, [record(1)])


async def test_nobody_at_the_address_is_unavailable_and_the_password_is_not_told(free_port: int):
    """I11."""
    options = AmqpOptions(f"amqp://user:hush@127.0.0.1:{free_port}/", "abcdefgh")
    with pytest.raises(SinkUnavailable) as caught:
        await AmqpSink(options).open(TERM)
    assert "hush" not in f"{caught.value} {caught.value.__cause__!r} {options!r}"


async def test_wrong_credentials_are_unavailable_with_the_brokers_reason(rabbitmq: RabbitServer):
    options = AmqpOptions(rabbitmq.url.replace("guest:guest", "guest:hush"), "abcdefgh")
    with pytest.raises(SinkUnavailable, match="HOOKWIRE_AMQP_URL") as caught:
        await AmqpSink(options).open(TERM)
    assert "hush" not in str(caught.value)


async def test_a_sink_that_is_not_open_is_unavailable():
    with pytest.raises(SinkUnavailable):
        await send(AmqpSink(AmqpOptions("amqp://127.0.0.1/", "abcdefgh")), [record(1)])


@pytest.mark.parametrize(
    "unsafe",
    [
        {"heartbeat_seconds": 0}, {"heartbeat_seconds": 11}, {"publish_seconds": 0}, {"publish_seconds": 61},
        {"exchange": ""}, {"exchange": "x" * 128}, {"window_records_max": 0}, {"url": "http://127.0.0.1/"},
    ],
)  # fmt: skip
def test_unsafe_options_are_refused(unsafe: dict[str, object]):
    """SC-03, SC-04."""
    with pytest.raises(ValueError, match="AMQP"):
        AmqpOptions(**{"url": "amqps://broker/", "incarnation": "abcdefgh", **unsafe})  # type: ignore[arg-type]


async def test_a_virtual_host_without_permission_holds_its_own_records_and_comes_back(broker: Broker) -> None:
    """GM-10: the other virtual host goes on meanwhile."""
    vhosts = [f"{broker.name}-{name}" for name in ("a", "b")]
    allow = ("set_permissions", "-p", vhosts[0], "guest", ".*", ".*", ".*")
    for vhost in vhosts:
        await asyncio.to_thread(broker.server.ctl, "add_vhost", vhost)
        await asyncio.to_thread(broker.server.ctl, *allow[:2], vhost, *allow[3:])
        connection = await aio_pika.connect(broker.server.url.rstrip("/") + f"/{vhost}")
        async with connection, connection.channel() as channel:
            await (await channel.declare_queue("q", durable=True)).bind("amq.fanout")

    def batch(first: int) -> list[Record]:
        place = {"amqp_exchange": "amq.fanout", "amqp_exchange_type": "fanout", "amqp_routing_key": ""}
        return [record(first + n, topic=vhost, amqp_vhost=vhost, **place) for n, vhost in enumerate(vhosts)]

    async with opened(broker.sink()) as sink:
        before = await send(sink, batch(1))
        await asyncio.to_thread(broker.server.ctl, "clear_permissions", "-p", vhosts[0], "guest")
        await asyncio.to_thread(broker.server.ctl, "close_all_connections", "--vhost", vhosts[0], "gone")
        without = await send(sink, batch(3))
        await asyncio.to_thread(broker.server.ctl, *allow)
        after = await send(sink, batch(5))

    ids = [[one.id for one in receipt.acknowledged] for receipt in (before, without, after)]
    assert (ids, refusals(without)) == ([[1, 2], [4], [5, 6]], [(3, "topic", "vhost_unavailable")])


async def test_a_virtual_host_that_does_not_answer_holds_up_the_others_for_one_confirmation() -> None:
    """GM-10: a connection may take a minute, and the lock as long again."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"amqp://127.0.0.1:{silent.getsockname()[1]}/"
        options = AmqpOptions(url, "abcdefgh", publish_seconds=0.2, connect_seconds=1.0)
        vhosts = OtherVhosts(options)
        refusal = await vhosts.publish("v", record(1), aio_pika.Message(b""), "", alone=True, seconds=1.0)

    assert refusal == Refusal(record(1), "topic", "vhost_unavailable", "virtual host v: it was not usable within 0.2 s")
