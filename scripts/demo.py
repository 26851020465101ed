"""A tour that drives and ends itself: one event in a webhook, in a Kafka topic and in an AMQP queue.

It starts Apache Kafka and RabbitMQ, or takes those that the environment names. It starts `hookwire serve` on a free
port with an embedded database in a temporary folder. Then it shows four things:

    1. one POST arrives in all three places          3. SQL: ROLLBACK delivers nothing, COMMIT at once
    2. events of one key arrive in order             4. a callback into a private network is refused

A broker that cannot be started is left out, and the tour says how to get it. Everything that it starts ends with it.
Exit codes: 0 all seen, 1 a step failed, 2 wrong use, 4 not finished: something is still on its way.
"""

import argparse
import asyncio
import logging
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import aio_pika
import httpx
from aiokafka.errors import KafkaError

from runtime.port import free_port
from scripts.demo_stage import (
    ARRIVAL_SECONDS,
    Arrivals,
    DemoFailed,
    DemoUnfinished,
    Receiver,
    amqp_reader,
    kafka_reader,
    running_hub,
    serving,
)
from scripts.servers.fleet import VARIABLES, take_server
from scripts.servers.given import GivenServer
from scripts.servers.missing import MissingServerError
from scripts.servers.process import ServerFailedError, ServerProcess
from scripts.servers.warden import WARDEN

ROOT = Path(__file__).parents[1]
BROKERS = {"kafka": "Apache Kafka", "rabbitmq": "RabbitMQ"}
TOPIC = "demo.orders"
KEYS = ("ada", "bob", "eve")
PER_KEY = 6
QUIET_SECONDS = 1.0
TOUR_SECONDS = 75.0
OPERATING_ERRORS = (httpx.HTTPError, KafkaError, aio_pika.exceptions.AMQPError, OSError)

Server = ServerProcess | GivenServer


@dataclass(frozen=True)
class Tour:
    """The objects that every step needs.

    ``places`` are those where events must arrive; ``psql`` reaches the database.
    """

    hub: httpx.AsyncClient
    psql: Sequence[str]
    arrivals: Arrivals
    places: Collection[str]


def say(text: str = "") -> None:
    """Print one line, at once."""
    print(text, flush=True)


def install(wanted: Collection[str]) -> None:
    """Install the brokers' software where that can be done; a broker that stays missing is left out later."""
    ours = [name for name in wanted if not os.environ.get(VARIABLES[name])]
    if ours:
        subprocess.run([ROOT / "scripts" / "install-servers", *ours], check=False)


@contextmanager
def brokers(folder: Path, without: Collection[str]) -> Iterator[Mapping[str, Server]]:
    """Yield the brokers that could be started, in parallel; say for each of the others why it is left out."""
    wanted = [name for name in BROKERS if name not in without]
    for name in without:
        say(f"   {BROKERS[name]} is left out, as asked.")
    found: dict[str, Server] = {}
    try:
        with ThreadPoolExecutor(max_workers=len(BROKERS)) as pool:
            for name, taking in [(name, pool.submit(take_server, name, folder, os.environ)) for name in wanted]:
                try:
                    found[name] = taking.result()
                except (MissingServerError, ServerFailedError) as error:
                    say(f"   {BROKERS[name]} is left out. {str(error).splitlines()[0]}")
                    say(f"   To see it too: as root on Debian `scripts/install-servers {name}` installs what it needs;")
                    say(f"   or name your own in {VARIABLES[name]}. Then run the tour again.")
                else:
                    say(f"   {BROKERS[name]} {found[name].version} at {found[name].address}")
        yield found
    finally:
        for server in found.values():
            server.discard()


async def one_event(tour: Tour) -> None:
    """Step 1: one POST, every place, and the hub's answer."""
    say(f"\n1. One POST, {len(tour.places)} place{'s' * (len(tour.places) > 1)}")
    event_id = await publish(tour, "ada", 0)
    say(f"   POST /topics/{TOPIC}/events  Hookwire-Key: ada   ->  202 {event_id}")
    await everywhere(tour, [event_id])
    for place, arrival in sorted(tour.arrivals.of(event_id).items()):
        say(f"   {place:<8} {arrival.event_id}  {arrival.detail}")
    await delivered(tour, event_id)


async def delivered(tour: Tour, event_id: str) -> None:
    """Show the hub's own account; a settlement may be a moment behind the arrival."""
    deadline = time.monotonic() + ARRIVAL_SECONDS
    while True:
        event = (await tour.hub.get(f"/events/{event_id}")).json()
        if [delivery["state"] for delivery in event["deliveries"]] == ["delivered"] and not any(
            sink["state"] != "sent" for sink in event["sinks"]
        ):
            break
        if time.monotonic() > deadline:
            raise DemoUnfinished(f"the hub says of {event_id}: {event['summary']}")
        await asyncio.sleep(0.05)
    say(f"   GET /events/{event_id}   ->  {event['summary']}")


async def same_key_order(tour: Tour) -> None:
    """Step 2: three keys, by HTTP and by SQL in turn; each key's order holds in each place."""
    say(f"\n2. {PER_KEY} events for each of {len(KEYS)} keys, by HTTP and by SQL in turn: order per key")
    event_ids = []
    for n in range(1, PER_KEY + 1):
        for key in KEYS:
            event_ids.append(await publish(tour, key, n) if n % 2 else (await by_sql(tour, key, n, "COMMIT"))[0])
    await everywhere(tour, event_ids)
    for place in sorted(tour.places):
        orders = {key: tour.arrivals.counts(place, key) for key in KEYS}
        say(f"   {place:<8} " + "   ".join(f"{key}: {' '.join(map(str, order))}" for key, order in orders.items()))
        if any(order != sorted(order) or len(order) < PER_KEY for order in orders.values()):
            raise DemoFailed(f"{place} has events of a key out of order")


async def sql_transaction(tour: Tour) -> None:
    """Step 3: the event is part of the transaction that writes it."""
    say("\n3. SQL: SELECT hookwire.publish(...) inside a transaction")
    (undone,) = await by_sql(tour, "ada", 99, "ROLLBACK")
    await asyncio.sleep(QUIET_SECONDS)
    if tour.arrivals.of(undone) or (await tour.hub.get(f"/events/{undone}")).status_code != 404:
        raise DemoFailed(f"{undone} was rolled back and exists")
    say(f"   ROLLBACK  {undone} is nowhere: not stored, not delivered")
    started = time.monotonic()
    (kept,) = await by_sql(tour, "ada", 100, "COMMIT")
    await everywhere(tour, [kept])
    took_ms = 1000 * (time.monotonic() - started)
    say(f"   COMMIT    {kept} is in {' and '.join(sorted(tour.places))}, {took_ms:.0f} ms after psql was started")


async def refused_callback(tour: Tour) -> None:
    """Step 4: the guard, and the setting that it names."""
    say("\n4. A callback into a private network is refused, and the answer says which setting allows it")
    answer = await tour.hub.post("/subscriptions", json={"topic": TOPIC, "callback": "http://10.0.0.7/hook"})
    problem = answer.json()
    if answer.status_code != 422 or "HOOKWIRE_EGRESS_ALLOW_CIDRS" not in problem["setting"]:
        raise DemoFailed(f"the callback was answered with {answer.status_code}: {answer.text}")
    say(f"   422 {problem['detail']}")


async def publish(tour: Tour, key: str, n: int) -> str:
    """POST one event; its id."""
    answer = await tour.hub.post(f"/topics/{TOPIC}/events", json={"n": n}, headers={"Hookwire-Key": key})
    if answer.status_code != 202:
        raise DemoFailed(f"publishing was answered with {answer.status_code}: {answer.text}")
    event_id: str = answer.json()["id"]
    return event_id


async def by_sql(tour: Tour, key: str, n: int, end: str) -> list[str]:
    """Publish in a transaction of psql and end it; the ids that were given out."""
    script = f"BEGIN;\nSELECT hookwire.publish('{TOPIC}', '{{\"n\": {n}}}'::jsonb, key => '{key}');\n{end};\n"
    child = await asyncio.create_subprocess_exec(
        *tour.psql, "--set=ON_ERROR_STOP=1", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    output, _ = await child.communicate(script.encode())
    if child.returncode != 0:
        raise DemoFailed(f"psql failed: {output.decode()}")
    return output.decode().split()


async def everywhere(tour: Tour, event_ids: Sequence[str]) -> None:
    """Wait until each event has arrived in each place; raise DemoFailed only if the hub has nothing more to send."""

    def done() -> bool:
        return all(tour.arrivals.of(event_id).keys() >= set(tour.places) for event_id in event_ids)

    missing = f"{len(event_ids)} event(s) in {', '.join(tour.places)}"
    try:
        await tour.arrivals.until(done, missing)
    except DemoUnfinished:
        stories = [(await tour.hub.get(f"/events/{event_id}")).json() for event_id in event_ids]
        if any(story["state"] != "delivered" for story in stories):
            raise
        try:
            await tour.arrivals.until(done, missing)  # what has left the hub since then
        except DemoUnfinished as late:
            raise DemoFailed(f"{late}, and the hub has sent them all") from None


async def bounded_tour(folder: Path, found: Mapping[str, Server]) -> None:
    """Run the tour and end it in any case; raise DemoFailed."""
    try:
        async with asyncio.timeout(TOUR_SECONDS):
            await tour(folder, found)
    except BaseExceptionGroup as group:
        raise _first(group) from group
    except TimeoutError:
        raise DemoUnfinished(f"the tour did not end within {TOUR_SECONDS:g} s") from None
    except OPERATING_ERRORS as error:
        raise DemoFailed(f"no answer: {error!r}") from error


def _first(error: BaseException) -> BaseException:
    """Return the error that ended the readers' task groups, without its wrapping."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return DemoFailed(f"no answer: {error!r}") if isinstance(error, OPERATING_ERRORS) else error


async def tour(folder: Path, found: Mapping[str, Server]) -> None:
    """Put the stage together, then walk the four steps."""
    run = secrets.token_hex(3)
    settings = {"HOOKWIRE_DATA_DIR": str(folder / "data"), "HOOKWIRE_LISTEN": f"127.0.0.1:{free_port()}"}
    arrivals = Arrivals()
    async with AsyncExitStack() as stack:
        if "kafka" in found:
            prefix = f"demo-{run}-"  # so that the topic of an earlier run on the same broker is not ours
            settings |= {
                "HOOKWIRE_KAFKA_BOOTSTRAP_SERVERS": found["kafka"].address,
                "HOOKWIRE_KAFKA_TOPIC_PREFIX": prefix,
            }
            await stack.enter_async_context(kafka_reader(found["kafka"].address, prefix + TOPIC, arrivals))
        if "rabbitmq" in found:
            exchange = f"hookwire-demo-{run}"
            settings |= {"HOOKWIRE_AMQP_URL": found["rabbitmq"].address, "HOOKWIRE_AMQP_EXCHANGE": exchange}
            await stack.enter_async_context(amqp_reader(found["rabbitmq"].address, exchange, arrivals))
        receiver = Receiver(arrivals)
        callback = await stack.enter_async_context(serving(receiver.receive))
        say("\nStarting `hookwire serve` with a new embedded PostgreSQL.")
        url, psql = await stack.enter_async_context(running_hub(folder, settings))
        hub = await stack.enter_async_context(httpx.AsyncClient(base_url=url, timeout=10))
        say(f"   {url}")
        answer = await hub.post("/subscriptions", json={"topic": "demo.*", "callback": callback, "ordered": True})
        if answer.status_code != 201:
            raise DemoFailed(f"subscribing was answered with {answer.status_code}: {answer.text}")
        receiver.secret = answer.json()["secret"]
        say(f"   POST /subscriptions  demo.* -> {callback}   ->  201 {answer.json()['id']}")
        names = {"kafka": "Kafka", "rabbitmq": "AMQP"}
        stops = Tour(hub, psql, arrivals, ["webhook", *(names[name] for name in found)])
        for step in (one_event, same_key_order, sql_transaction, refused_callback):
            await step(stops)


def main() -> int:
    """Run the tour; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="scripts/demo", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--without", action="append", default=[], choices=BROKERS, help="leave this broker out")
    without = parser.parse_args().without
    # Both end the tour in the same orderly way, also where a shell has us started with Ctrl-C ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # a topic that is being made or deleted alarms it
    folder = Path(tempfile.mkdtemp(prefix="hookwire-demo-"))
    folder.chmod(0o711)  # under root the database runs as another account, which has to pass through
    WARDEN.remove(folder)
    say("hookwire: one event, several places. The tour drives itself and ends by itself.\n")
    install([name for name in BROKERS if name not in without])
    say("Starting the brokers (the very first time Apache Kafka is fetched, 43 MB).")
    try:
        with brokers(folder, without) as found:
            started = time.monotonic()
            asyncio.run(bounded_tour(folder, found))
            left_out = [BROKERS[name] for name in BROKERS if name not in found]
    except DemoFailed as error:
        say(f"\nThe tour failed: {error}")
        return 1
    except DemoUnfinished as error:
        say(f"\nThe tour is not finished: {error}")
        return 4
    except KeyboardInterrupt:
        return 130
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    rest = f" Left out: {' and '.join(left_out)}." if left_out else ""
    say(f"\nThe tour took {time.monotonic() - started:.0f} s; everything that was started has ended.{rest}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
