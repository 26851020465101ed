"""The AMQP source on a real RabbitMQ, with an intake of the test's own: what is settled, and what is read again."""

from __future__ import annotations

import asyncio
import secrets
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import ClassVar

import aio_pika
import pytest
from aio_pika.abc import AbstractConnection, AbstractIncomingMessage
from aio_pika.exceptions import ChannelNotFoundEntity
from pamqp.commands import Basic
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from relay.amqp.options import AmqpOptions
from relay.amqp.source import AmqpSource, SourceMetrics
from relay.source import IntakeRefused, IntakeResult, IntakeUnavailable, RefusedMessage, SourceMessage, SourceRoute
from scripts.servers.rabbitmq import RabbitServer
from tests.faults.proxy import proxied
from tests.waiting import until

DEADLINE_SECONDS = 60.0
CUTS = (1, 7, 8, 30, 60, 76, 77, 78, 84, 92, 100, 106, 108, 110, 112, 114, 116, 119, 140)
"""Bytes of a delivery: deliver ends at 77, header at some 108, body at some 117; the last cut is behind it."""


@dataclass
class Recorder:
    """An intake: remembers messages by id; ``closed`` makes it unavailable, a body "bad" is refused. Also a store."""

    taken: list[SourceMessage] = field(default_factory=list)
    kept: list[RefusedMessage] = field(default_factory=list)
    closed: bool = False
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def exchange_type(self, route: SourceRoute) -> str:
        return ""

    async def is_wanted(self, route: SourceRoute) -> bool:
        return True

    async def take(self, route: SourceRoute, message: SourceMessage) -> IntakeResult:
        self._changed.set()
        await asyncio.sleep(0)
        if self.closed:
            raise IntakeUnavailable("closed")
        if message.body == b"bad":
            raise IntakeRefused("bad", "it is bad")
        self.taken.append(message)
        self._changed.set()
        return IntakeResult("stored", message.left_out)

    async def keep(self, message: RefusedMessage) -> None:
        self.kept.append(message)

    async def until(self, count: int) -> list[SourceMessage]:
        """The messages taken, once there are so many different ones."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while len({message.body for message in self.taken}) < count:
                self._changed.clear()
                await self._changed.wait()
        return self.taken

    async def called(self) -> None:
        """Until it was asked once more."""
        self._changed.clear()
        await asyncio.wait_for(self._changed.wait(), DEADLINE_SECONDS)


@dataclass
class Corner:
    """One test's queue on the broker, the source that reads it, and what became of its messages."""

    url: str
    route: SourceRoute
    source: AmqpSource
    intake: Recorder
    registry: CollectorRegistry

    async def publish(self, *messages: aio_pika.Message, key: str = "") -> None:
        """To the exchange, or to the queue where there is none."""
        async with await aio_pika.connect(self.url) as connection, connection.channel() as channel:
            there = channel.default_exchange
            if self.route.exchange:
                there = await channel.get_exchange(self.route.exchange)
            for message in messages:
                await there.publish(message, key or self.route.queue)

    async def count(self, queue: str, wanted: int) -> None:
        """Until so many messages lie in a queue, ready for a consumer; the source may have to declare it first."""
        async with await aio_pika.connect(self.url) as connection:

            async def has_wanted() -> bool:
                return await self._ready(connection, queue) == wanted

            await until(has_wanted, DEADLINE_SECONDS)

    async def _ready(self, connection: AbstractConnection, queue: str) -> int:
        """The number of messages in a queue; 0 where the queue does not exist, which closes a channel."""
        channel = await connection.channel()
        try:
            declared = await channel.declare_queue(queue, passive=True)
        except ChannelNotFoundEntity:
            return 0
        finally:
            await channel.close()
        return declared.declaration_result.message_count or 0

    async def rest(self, queue: str) -> list[AbstractIncomingMessage]:
        """Everything that lies in a queue."""
        found = []
        async with await aio_pika.connect(self.url) as connection, connection.channel() as channel:
            source = await channel.get_queue(queue)
            while (message := await source.get(no_ack=True, fail=False)) is not None:
                found.append(message)
        return found

    def counted(self, name: str, **labels: str) -> float:
        """A metric of this queue."""
        return (
            self.registry.get_sample_value(f"hookwire_amqp_source_{name}", {"queue": self.route.queue, **labels}) or 0
        )


@asynccontextmanager
async def reading(
    server: RabbitServer, url: str = "", prefetch: int = 10, *, is_foreign: bool = False, **route: str
) -> AsyncIterator[Corner]:
    """A source that consumes a queue of its own; ``is_foreign``: which was there before, without arguments."""
    registry, intake = CollectorRegistry(), Recorder()
    where = SourceRoute(f"source-{secrets.token_hex(4)}", **route)
    if is_foreign:
        async with await aio_pika.connect(server.url) as connection, connection.channel() as channel:
            await channel.declare_queue(where.queue, durable=True)
    options = AmqpOptions(url or server.url, "abcdefgh", heartbeat_seconds=1)
    source = AmqpSource(options, where, intake, SourceMetrics(registry), prefetch, 1_000, intake)
    corner = Corner(server.url, where, source, intake, registry)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(source.run())
        await until(lambda: corner.counted("connected") > 0 or running.done(), DEADLINE_SECONDS)
        try:
            yield corner
        finally:
            source.stop()


def message(body: bytes, **about: object) -> aio_pika.Message:
    return aio_pika.Message(body, **about)  # type: ignore[arg-type]


async def test_a_message_is_read_with_all_that_it_says(rabbitmq: RabbitServer) -> None:
    """FM-03: a queue that is missing is made and bound; what another hub and the broker say of it is left out."""
    name = f"source-{secrets.token_hex(4)}"
    async with reading(rabbitmq, exchange=name, binding_key="stock.#") as corner:
        headers = {
            "Colour": "red", "count": 3, "sure": True, "at": datetime(2026, 1, 1, tzinfo=UTC), "cloudEvents_type": "t",
            "hookwire-key": "k", "hookwire-hops": "2", "hookwire-event-id": "evt_x", "x-death": [{"queue": "q"}],
        }  # fmt: skip
        about = {"headers": headers, "content_type": "text/plain", "message_id": "m1", "correlation_id": "c1"}
        await corner.publish(message(b"b", **about), key="stock.new")
        (found,) = await corner.intake.until(1)

    assert found == SourceMessage(
        name, "stock.new", "m1", "k", "2", "text/plain",
        {
            "colour": "red", "count": "3", "sure": "true", "at": "2026-01-01T00:00:00Z", "ce-type": "t",
            "x-amqp-correlation-id": "c1",
        },
        b"b",
    )  # fmt: skip


ARRIVING = {
    "a list, as Celery sends": ({"headers": {"shadow": None, "argsrepr": "()", "stamps": {"a": [1, None]}}},
                                {"argsrepr": "()", "stamps": '{"a":[1,null]}'}, ()),
    "a table of a shovel": ({"headers": {"x-shovelled": [{"n": 1, "src-uri": "amqp://a"}]}},
                            {"x-shovelled": '[{"n":1,"src-uri":"amqp://a"}]'}, ()),
    "bytes and times in a table": ({"headers": {"t": {"b": bytearray(b"\xff"), "u": bytearray(b"x"),
                                                      "at": datetime(2026, 1, 1, tzinfo=UTC)}}},
                                   {"t": '{"at":"2026-01-01T00:00:00Z","b":"/w==","u":"x"}'}, ()),
    "line breaks of a stack trace": ({"headers": {"x-exception-stacktrace": "a: 50%\n\tat b"}},
                                     {"x-exception-stacktrace": "a: 50%25%0A%09at b"}, ()),
    "per cent in one line": ({"headers": {"a": "50%"}}, {"a": "50%"}, ()),
    "bytes that are not UTF-8": ({"headers": {"a": bytearray(b"\xff a")}}, {"a": "%FF a"}, ()),
    "a blank in a name": ({"headers": {"a b": "1", "c": "2"}}, {"c": "2"}, ("name",)),
    "a name in two cases": ({"headers": {"X-Id": "1", "x-id": "2"}}, {"x-id": "1"}, ("twice",)),
    "one of the hub's names": ({"headers": {"hookwire-link": "x"}}, {}, ("reserved",)),
    "hops that are no number": ({"headers": {"hookwire-hops": "many"}}, {}, ("hops",)),
    "more headers than an event has": ({"headers": {f"h{n:02}": "x" for n in range(65)}},
                                       {f"h{n:02}": "x" for n in range(60)}, ("limit",) * 5),
    "a header that is too large": ({"headers": {"h": "x" * 20_000, "cloudEvents_type": "t", "i": "1"}},
                                   {"i": "1", "ce-type": "t"}, ("limit",)),
    "a type that is no type": ({"content_type": "text/\x01"}, {}, ("content_type",)),
    "a long partition key": ({"headers": {"cloudEvents_partitionkey": "p" * 1_025}},
                             {"ce-partitionkey": "p" * 1_025}, ()),
    "a tombstone with a body": ({"headers": {"hookwire-tombstone": "true", "hookwire-key": "k"}}, {}, ("tombstone",)),
}  # fmt: skip


@pytest.mark.parametrize(("about", "headers", "left_out"), ARRIVING.values(), ids=list(ARRIVING))
async def test_the_content_arrives_whatever_comes_along(
    rabbitmq: RabbitServer, about: dict[str, object], headers: dict[str, str], left_out: tuple[str, ...]
) -> None:
    """GW-02: such messages were refused, and RabbitMQ deleted them."""
    async with reading(rabbitmq) as corner:
        await corner.publish(message(b"content", **about))
        (found,) = await corner.intake.until(1)
        await corner.count(corner.route.queue, 0)

    assert (found.body, found.headers, found.left_out) == (b"content", headers, left_out)
    assert {reason: corner.counted("headers_left_out_total", reason=reason) for reason in left_out} == {
        reason: float(left_out.count(reason)) for reason in left_out
    }


REFUSED = [
    (message(b"x" * 1_001), "too_large"),
    (message(b"", headers={"hookwire-key": "k" * 1_025}), "key"),
    (message(b"", headers={"hookwire-key": ["k"]}), "key"),
    (message(b"bad"), "bad"),
]


@pytest.mark.parametrize(("bad", "reason"), REFUSED, ids=lambda value: value if isinstance(value, str) else "")
async def test_a_message_that_cannot_be_an_event_is_kept_and_counted(
    rabbitmq: RabbitServer, bad: aio_pika.Message, reason: str
) -> None:
    """GW-02, FM-03: with all that it said, also of a queue without a dead-letter exchange; later messages go on."""
    async with reading(rabbitmq, is_foreign=True) as corner:
        await corner.publish(bad, message(b"good"))
        await corner.intake.until(1)
        await corner.count(f"{corner.route.queue}.refused", 1)
        (kept,) = await corner.rest(f"{corner.route.queue}.refused")

    told = {name.removeprefix("x-refused-"): value for name, value in kept.headers.items() if "refused" in name}
    assert (kept.body, told["reason"], told["routing-key"], corner.counted("refused_total", reason=reason)) == (
        bad.body, reason, corner.route.queue, 1.0,
    )  # fmt: skip


async def test_a_source_that_has_kept_a_message_says_so(rabbitmq: RabbitServer) -> None:
    """GU-01: its kind; a person had to look at it, and the verdict was ok."""
    async with reading(rabbitmq, is_foreign=True) as corner:
        before = corner.source.state
        await corner.publish(message(b"bad"))
        await until(lambda: corner.source.state == "refusing", DEADLINE_SECONDS)
        told = corner.source.last_error

    assert (before, told.partition(", ")[0], told.partition(" in ")[2]) == (
        "reading", "1 refused message was kept", f"{corner.route.queue}.refused: bad",
    )  # fmt: skip


async def test_a_kept_message_stays_until_a_person_removes_it(rabbitmq: RabbitServer) -> None:
    """GW-02: the broker would let it expire, refuse it for its user, or route it by CC to another queue again."""
    async with reading(rabbitmq, is_foreign=True) as corner:
        other = f"{corner.route.queue}.other"
        about = {
            "headers": {"CC": [other], "a": [1]}, "expiration": 60, "user_id": "guest", "message_id": "m", "type": "t",
            "content_type": "text/plain", "correlation_id": "c",
        }  # fmt: skip
        await corner.publish(message(b"bad", **about))
        await corner.count(f"{corner.route.queue}.refused", 1)
        (kept,) = await corner.rest(f"{corner.route.queue}.refused")

    assert (kept.expiration, kept.user_id, kept.message_id, kept.type, kept.content_type, kept.correlation_id) == (
        None, None, "m", "t", "text/plain", "c",
    )  # fmt: skip
    assert kept.headers == {
        "a": [1], "x-refused-reason": "bad", "x-refused-detail": "it is bad", "x-refused-exchange": "",
        "x-refused-routing-key": corner.route.queue, "x-refused-expiration": "60.0", "x-refused-user-id": "guest",
        "x-refused-cc": [other],
    }  # fmt: skip


async def test_a_message_whose_refused_queue_is_full_waits(rabbitmq: RabbitServer) -> None:
    """GW-02: it is neither lost nor in the way of other messages, and it is kept when there is room."""
    with capture_logs() as logs:
        async with reading(rabbitmq, is_foreign=True) as corner:
            full = f"{corner.route.queue}.refused"
            async with await aio_pika.connect(rabbitmq.url) as connection, connection.channel() as channel:
                arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
                declared = await channel.declare_queue(full, durable=True, arguments=arguments)
                await channel.default_exchange.publish(message(b"first"), full)
                await corner.publish(message(b"bad"), message(b"good"))
                await corner.intake.until(1)
                await until(lambda: [one for one in logs if full in str(one.get("error"))], DEADLINE_SECONDS)
                counted = corner.counted("refused_total", reason="bad")
                await declared.purge()
            await corner.count(corner.route.queue, 0)
            await until(lambda: corner.counted("refused_total", reason="bad"), DEADLINE_SECONDS)
            kept = await corner.rest(full)

    assert (counted, [one.body for one in kept]) == (0.0, [b"bad"])


async def test_a_refused_queue_that_was_deleted_is_declared_again(rabbitmq: RabbitServer) -> None:
    """GW-02: a person may delete it after a look; the next refused message is not lost."""
    async with reading(rabbitmq, is_foreign=True) as corner:
        kept_in = f"{corner.route.queue}.refused"
        await corner.publish(message(b"bad"))
        await corner.count(kept_in, 1)
        async with await aio_pika.connect(rabbitmq.url) as connection, connection.channel() as channel:
            await channel.queue_delete(kept_in)
        await corner.publish(message(b"bad"))
        await until(lambda: corner.counted("refused_total", reason="bad") == 2, DEADLINE_SECONDS)
        kept = await corner.rest(kept_in)

    assert [one.body for one in kept] == [b"bad"]


async def test_a_refused_message_whose_queue_may_not_be_declared_is_kept_by_the_hub(rabbitmq: RabbitServer) -> None:
    """GW-02: its user may not declare the queue. Once the queue is there, it keeps those that follow."""
    user = f"reader-{secrets.token_hex(4)}"
    await asyncio.to_thread(rabbitmq.ctl, "add_user", user, "secret")
    await asyncio.to_thread(rabbitmq.ctl, "set_permissions", user, "^$", "^amq.default$", ".*")
    url = rabbitmq.url.replace("guest:guest", f"{user}:secret")
    with capture_logs() as logs:
        async with reading(rabbitmq, url, is_foreign=True) as corner:
            kept_in = f"{corner.route.queue}.refused"
            await corner.publish(message(b"bad"))
            await corner.publish(message(b"good"))
            await corner.intake.until(1)
            await until(lambda: corner.counted("refused_total", reason="bad"), DEADLINE_SECONDS)
            state = corner.source.state
            async with await aio_pika.connect(rabbitmq.url) as connection, connection.channel() as channel:
                await channel.declare_queue(kept_in, durable=True)
            await corner.publish(message(b"bad"))
            await corner.count(kept_in, 1)
            await corner.count(corner.route.queue, 0)

    (kept,) = corner.intake.kept
    told = next(str(one.get("error")) for one in logs if one["event"] == "amqp_source_no_refused_queue")
    assert (kept.queue, kept.body, kept.refused.reason) == (corner.route.queue, b"bad", "bad")
    assert (kept.content is None, "refused=reject" in told, state) == (False, True, "reading")


async def test_a_source_whose_user_may_not_bind_reads_the_queue_as_it_is_bound(rabbitmq: RabbitServer) -> None:
    """GW-10: it read nothing, for ever."""
    user, name = f"reader-{secrets.token_hex(4)}", f"source-{secrets.token_hex(4)}"
    await asyncio.to_thread(rabbitmq.ctl, "add_user", user, "secret")
    await asyncio.to_thread(rabbitmq.ctl, "set_permissions", user, "^$", "^$", ".*")
    async with await aio_pika.connect(rabbitmq.url) as connection, connection.channel() as channel:
        exchange = await channel.declare_exchange(name, "fanout", durable=True, arguments={"alternate-exchange": "a"})
        for queue in (name, f"{name}.refused"):
            await (await channel.declare_queue(queue, durable=True)).bind(exchange)
    url = rabbitmq.url.replace("guest:guest", f"{user}:secret")
    route = SourceRoute(name, exchange=name, binding_key="#")
    intake, registry = Recorder(), CollectorRegistry()
    source = AmqpSource(AmqpOptions(url, "abcdefgh"), route, intake, SourceMetrics(registry), 10, 1_000, intake)
    corner = Corner(rabbitmq.url, route, source, intake, registry)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(source.run())
        await until(lambda: corner.counted("connected") > 0, DEADLINE_SECONDS)
        source.stop()


async def test_a_route_may_leave_refused_messages_to_the_broker(rabbitmq: RabbitServer) -> None:
    """GW-02: refused=reject, for a queue whose dead-letter exchange is set by a policy, which a client cannot see."""
    async with reading(rabbitmq, refused="reject") as corner:
        await corner.publish(message(b"bad"))
        await corner.count(f"{corner.route.queue}.refused", 1)
        (dead,) = await corner.rest(f"{corner.route.queue}.refused")

    assert (dead.headers["x-death"][0]["reason"], corner.counted("refused_total", reason="bad")) == ("rejected", 1.0)  # type: ignore[index,call-overload]


class RawProperties(Basic.Properties):
    """Properties as bytes: flags, then values, as a program of another language may send them."""

    raw: ClassVar[bytes]

    def marshal(self) -> bytes:
        return self.raw


def raw_properties(raw: bytes) -> Basic.Properties:
    return type("Raw", (RawProperties,), {"raw": raw})()


def table(entry: bytes) -> bytes:
    """The header table with one entry."""
    return struct.pack(">HI", 1 << 13, len(entry)) + entry


def nested(depth: int) -> bytes:
    entry = b"\x01aI\0\0\0\0"
    for _ in range(depth):
        entry = b"\x01aF" + struct.pack(">I", len(entry)) + entry
    return entry


UNREADABLE = {
    "a time beyond the calendar": struct.pack(">HQ", 1 << 6, 2**63 - 1),
    "a header's time beyond the calendar": table(b"\x02atT" + b"\xff" * 8),
    "a header's name that is not UTF-8": table(b"\x01\xffS\0\0\0\x01x"),
    "deep nesting": table(nested(2_000)),
}


@pytest.mark.parametrize("raw", UNREADABLE.values(), ids=list(UNREADABLE))
async def test_properties_that_cannot_be_read_are_refused_and_hold_up_nothing(
    rabbitmq: RabbitServer, raw: bytes
) -> None:
    """FM-03: the client's connection ended at such a message, which came again for ever."""
    async with reading(rabbitmq) as corner:
        async with await aio_pika.connect(corner.url) as connection, connection.channel() as channel:
            publisher = await channel.get_underlay_channel()
            await publisher.basic_publish(b"raw", routing_key=corner.route.queue, properties=raw_properties(raw))
        await corner.publish(message(b"good"))
        await corner.intake.until(1)
        await corner.count(f"{corner.route.queue}.refused", 1)
        (kept,) = await corner.rest(f"{corner.route.queue}.refused")

    assert ([one.body for one in corner.intake.taken], corner.counted("refused_total", reason="properties")) == (
        [b"good"], 1.0,
    )  # fmt: skip
    assert (kept.body, bytes(kept.headers["x-raw-properties"])) == (b"raw", raw)  # type: ignore[arg-type]


async def test_an_id_that_is_no_text_is_an_id(rabbitmq: RabbitServer) -> None:
    """FM-03: its bytes are written with backslashes, so that a repeat is still a repeat."""
    raw = struct.pack(">H", 1 << 7) + b"\x01\xff"
    async with reading(rabbitmq) as corner:
        async with await aio_pika.connect(corner.url) as connection, connection.channel() as channel:
            publisher = await channel.get_underlay_channel()
            await publisher.basic_publish(b"raw", routing_key=corner.route.queue, properties=raw_properties(raw))
        (found,) = await corner.intake.until(1)

    assert (found.body, found.message_id) == (b"raw", "\\xff")


async def test_a_source_that_is_cut_off_says_so_once_and_says_that_it_goes_on(rabbitmq: RabbitServer) -> None:
    """FM-03: with the broker's reason."""
    with capture_logs() as logs:
        async with reading(rabbitmq) as corner:
            await asyncio.to_thread(rabbitmq.close_all_connections, "maintenance")
            await until(lambda: [one for one in logs if one["event"] == "amqp_source_goes_on"], DEADLINE_SECONDS)
    told = [one for one in logs if one["event"] == "amqp_source_waits" and one.get("queue") == corner.route.queue]

    assert (len(told), told[0]["log_level"], "maintenance" in told[0]["error"]) == (1, "warning", True)


async def test_messages_of_a_key_are_taken_in_order_and_at_most_so_many_are_here(rabbitmq: RabbitServer) -> None:
    """FM-03: while nothing can be stored, nothing is acknowledged, and the broker keeps what is beyond the prefetch."""
    async with reading(rabbitmq, prefetch=4) as corner:
        corner.intake.closed = True
        sent = [message(b"%d" % n, headers={"hookwire-key": f"k{n % 2}"}) for n in range(20)]
        await corner.publish(*sent)
        await corner.count(corner.route.queue, 16)
        await corner.intake.called()
        corner.intake.closed = False
        taken = [int(one.body) for one in await corner.intake.until(20)]
        await corner.count(corner.route.queue, 0)

    assert [[n for n in taken if n % 2 == key] for key in (0, 1)] == [list(range(0, 20, 2)), list(range(1, 20, 2))]


async def test_what_was_not_acknowledged_at_a_stop_is_in_the_queue(rabbitmq: RabbitServer) -> None:
    """FM-03."""
    async with reading(rabbitmq) as corner:
        corner.intake.closed = True
        await corner.publish(*(message(b"%d" % n) for n in range(3)))
        await corner.intake.called()
    await corner.count(corner.route.queue, 3)

    assert [one.body for one in await corner.rest(corner.route.queue)] == [b"0", b"1", b"2"]


async def test_a_queue_that_is_there_stays_as_it_was_made(rabbitmq: RabbitServer) -> None:
    """FM-03: its owner's arguments are no reason to fail; when it is deleted, it is made anew."""
    async with reading(rabbitmq) as corner:
        async with await aio_pika.connect(rabbitmq.url) as connection, connection.channel() as channel:
            await channel.queue_delete(corner.route.queue)
            await channel.declare_queue(corner.route.queue, durable=True, arguments={"x-max-length": 5})
        await corner.publish(message(b"1"))
        (found,) = await corner.intake.until(1)

    assert found.body == b"1"


async def test_a_connection_that_is_cut_at_any_byte_of_a_delivery_loses_nothing(rabbitmq: RabbitServer) -> None:
    """FM-03: deliver, header and body are three frames; a cut in each, and between any two, has them sent again."""
    host, port = "127.0.0.1", rabbitmq.port
    async with proxied(host, port) as proxy:
        url = f"amqp://guest:guest@127.0.0.1:{proxy.port}/"
        async with reading(rabbitmq, url) as corner:
            for number, cut in enumerate(CUTS):
                before = corner.counted("messages_total", outcome="stored")
                proxy.close_after(cut)
                await corner.publish(message(b"%d" % number, message_id=f"m{number}"))
                await until(lambda: proxy.closes, DEADLINE_SECONDS)
                proxy.heal()
                await corner.intake.until(number + 1)
                await until(
                    lambda before=before: corner.counted("messages_total", outcome="stored") > before, DEADLINE_SECONDS
                )
            await corner.count(corner.route.queue, 0)

    assert sorted({int(one.body) for one in corner.intake.taken}) == list(range(len(CUTS)))


async def test_a_source_tells_its_state(free_port: int) -> None:
    """GU-01: as other processes will see it."""
    options = AmqpOptions(f"amqp://127.0.0.1:{free_port}/", "abcdefgh", heartbeat_seconds=1)
    metrics = SourceMetrics(CollectorRegistry())
    source = AmqpSource(options, SourceRoute("in"), Recorder(), metrics, 1, 1_000, Recorder())
    states = [source.state]
    running = asyncio.ensure_future(source.run())
    await until(lambda: source.state != "connecting")
    states.append(source.state)
    source.stop()
    await running
    assert ([*states, source.state], bool(source.last_error)) == (["connecting", "backing off", "stopped"], True)
