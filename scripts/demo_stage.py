"""The stage of the tour: a hub of its own, a callback, and a plain reader for each broker.

Each is a context manager that ends what it started. Readers write down what arrives in one `Arrivals`.
"""

import asyncio
import json
import os
import shlex
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aio_pika
import httpx
from aiohttp import web
from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from standardwebhooks import Webhook, WebhookVerificationError

from runtime.port import free_port
from scripts.servers.tree import ProcessTree
from scripts.servers.warden import WARDEN

ARRIVAL_SECONDS = 20.0
_HUB_START_SECONDS = 60.0
_HUB_STOP_SECONDS = 15.0


class DemoFailed(Exception):
    """Something was not as it should be; the text says what."""


class DemoUnfinished(Exception):
    """An event is still on its way, as on a busy machine; the text names it."""


@dataclass(frozen=True)
class Arrival:
    """One event in one place; ``n`` is the publisher's own count for the key."""

    place: str
    event_id: str
    key: str
    n: int
    detail: str


class Arrivals:
    """Everything that arrived, in order, and a signal for waiting tasks."""

    def __init__(self) -> None:
        self.seen: list[Arrival] = []
        self._notified = asyncio.Event()

    def add(self, place: str, event_id: str, key: str, body: bytes, detail: str) -> None:
        """Write one down."""
        self.seen.append(Arrival(place, event_id, key, json.loads(body)["n"], detail))
        self._notified.set()

    async def until(self, done: Callable[[], bool], missing: str) -> None:
        """Wait until ``done``, while something arrives; raise DemoUnfinished after 20 s without an arrival."""
        while not done():
            self._notified.clear()
            try:
                async with asyncio.timeout(ARRIVAL_SECONDS):
                    await self._notified.wait()
            except TimeoutError:
                raise DemoUnfinished(f"{missing}: nothing more arrived for {ARRIVAL_SECONDS:g} s") from None

    def of(self, event_id: str) -> dict[str, Arrival]:
        """Return the first arrival of an event at each place."""
        return {one.place: one for one in reversed(self.seen) if one.event_id == event_id}

    def counts(self, place: str, key: str) -> list[int]:
        """Return the publisher's counts of a key in order of first arrival: at least once means that repeats are
        allowed.
        """
        return list({one.event_id: one.n for one in self.seen if (one.place, one.key) == (place, key)}.values())


@asynccontextmanager
async def running_hub(folder: Path, settings: Mapping[str, str]) -> AsyncIterator[tuple[str, Sequence[str]]]:
    """Run `hookwire serve` with these settings alone; yield its URL and the psql command that it printed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOOKWIRE_")}
    log_path = folder / "hub.log"
    with log_path.open("wb") as log:
        child = await asyncio.create_subprocess_exec(
            Path(sys.executable).with_name("hookwire"), "serve", stdin=asyncio.subprocess.DEVNULL, stdout=log,
            stderr=log, cwd=folder, env=environment | dict(settings), start_new_session=True,
        )  # fmt: skip
    tree = ProcessTree.of(child.pid)
    WARDEN.watch(tree, signal.SIGTERM)
    url = f"http://{settings['HOOKWIRE_LISTEN']}"
    try:
        await _ready(url, child, log_path)
        yield url, _psql_command(log_path)
    finally:
        await _stop(child)
        WARDEN.forget(tree)


async def _ready(url: str, child: asyncio.subprocess.Process, log_path: Path) -> None:
    async with httpx.AsyncClient() as client:
        deadline = time.monotonic() + _HUB_START_SECONDS
        while child.returncode is None and time.monotonic() < deadline:
            try:
                if (await client.get(f"{url}/readyz")).status_code == 200:
                    return
            except httpx.TransportError:
                await asyncio.sleep(0.1)
    raise DemoFailed("the hub did not start:\n" + "\n".join(log_path.read_text().splitlines()[-10:]))


def _psql_command(log_path: Path) -> Sequence[str]:
    line = next(line for line in log_path.read_text().splitlines() if line.split()[:1] == ["database"])
    return [*shlex.split(line)[1:], "--no-psqlrc", "--quiet", "--tuples-only", "--no-align"]


async def _stop(child: asyncio.subprocess.Process) -> None:
    """Stop the hub softly; it also stops its database."""
    if child.returncode is None:
        child.terminate()
    try:
        async with asyncio.timeout(_HUB_STOP_SECONDS):
            await child.wait()
    except TimeoutError:
        child.kill()
        await child.wait()


class Receiver:
    """The callback: checks each signature on the raw bytes, then writes the event down."""

    def __init__(self, arrivals: Arrivals) -> None:
        self.secret = "whsec_" + "A" * 32  # until the hub has made the real one
        self._arrivals = arrivals

    async def receive(self, request: web.Request) -> web.Response:
        """204 for a delivery that the hub has signed, 401 for everything else."""
        body = await request.read()
        try:
            Webhook(self.secret).verify(body, {name.lower(): value for name, value in request.headers.items()})
        except WebhookVerificationError:
            return web.Response(status=401)
        detail = "signature verified with the package standardwebhooks"
        self._arrivals.add("webhook", request.headers["webhook-id"], request.headers["hookwire-key"], body, detail)
        return web.Response(status=204)


@asynccontextmanager
async def serving(receive: Callable[[web.Request], Awaitable[web.Response]]) -> AsyncIterator[str]:
    """Serve the callback on a free port of loopback; yields its URL."""
    application = web.Application()
    application.router.add_post("/hook", receive)
    runner = web.AppRunner(application)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield f"http://127.0.0.1:{port}/hook"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def kafka_reader(bootstrap: str, kafka_topic: str, arrivals: Arrivals) -> AsyncIterator[None]:
    """Yield a plain consumer of the hub's topic, and delete the topic afterwards."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic(kafka_topic, num_partitions=4, replication_factor=1)])
    consumer = AIOKafkaConsumer(
        kafka_topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
    )
    await consumer.start()
    try:
        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(_read_kafka(consumer, arrivals), name="Kafka reader")
            yield
            reading.cancel()
    finally:
        await consumer.stop()
        await admin.delete_topics([kafka_topic])
        await admin.close()


async def _read_kafka(consumer: Any, arrivals: Arrivals) -> None:
    async for record in consumer:
        headers = {name: value.decode() for name, value in record.headers}
        detail = f"topic {record.topic}, partition {record.partition}, offset {record.offset}"
        arrivals.add("Kafka", headers["hookwire-event-id"], record.key.decode(), record.value, detail)


@asynccontextmanager
async def amqp_reader(url: str, exchange_name: str, arrivals: Arrivals) -> AsyncIterator[None]:
    """Yield a plain client's queue, bound to the hub's exchange, and delete both afterwards."""
    connection = await aio_pika.connect(url)
    async with connection:
        channel = await connection.channel()
        exchange = await channel.declare_exchange(exchange_name, "topic", durable=True)
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind(exchange, "demo.#")
        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(_read_amqp(queue, arrivals), name="AMQP reader")
            yield
            reading.cancel()
        await exchange.delete()


async def _read_amqp(queue: aio_pika.abc.AbstractQueue, arrivals: Arrivals) -> None:
    async with queue.iterator() as messages:
        async for message in messages:
            detail = f"exchange {message.exchange}, routing key {message.routing_key}"
            key = str(message.headers["hookwire-key"])
            arrivals.add("AMQP", message.message_id or "", key, message.body, detail)
            await message.ack()
