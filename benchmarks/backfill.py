"""A backfill against a replay of the hub, of the same events to the same receiver, by turns in one run.

    python -m benchmarks.backfill --events 20000 --rounds 3

The hub has the events and the lake has them too: 600 bytes each, on 1,000 keys. The yardstick is a replay at its own
pace, which leaves room for live events, and one with a rate that no worker reaches. Ours is `hookwire pipeline
backfill` without a rate. A rate counts from the first arrival to the last one, so the start of Spark is printed apart.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from pathlib import Path

import asyncpg
import httpx
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from benchmarks.harness import Counted, Harness, Sink, running_harness, running_sink
from benchmarks.pipeline import generated
from pipeline.delta.snapshot import Change
from pipeline.lake import bronze
from pipeline.session import SessionOptions, spark_session
from pipeline.storage import LakeStorage

_KEYS = 1_000
_UNREACHED = 100_000
_BODY = b"t=1768467600.0000000 ".ljust(600, b"x")
_EVENTS = """
INSERT INTO hookwire.events (id, accepted_at, ordered, tenant, topic, key, headers, sinks, payload)
SELECT n, now(), true, 'default', 'orders', 'key ' || n % $2::bigint, '{}', '{webhooks}', $3::bytea
FROM generate_series(1, $1::bigint) n
"""


def fill_lake(uri: str, incarnation: str, events: int) -> None:
    """Write the events into a lake, and end Spark."""
    spark = spark_session(SessionOptions("benchmark"))
    number = F.col("event_number").cast("string")
    rows = generated(spark, events).withColumns(
        {
            "event_id": F.concat(F.lit(f"evt_{incarnation}_"), number),
            "key": F.concat(F.lit("key "), (F.col("event_number") % _KEYS).cast("string")).cast("binary"),
            "value": F.lit(bytearray(_BODY)),
        }
    )
    table = bronze(LakeStorage(uri))
    table.commit(table.snapshot(), Change("archive", "run", table.write(rows, 1)))
    spark.stop()


async def fill_hub(harness: Harness, events: int) -> str:
    """Insert the events; return the name of the installation."""
    connection = await asyncpg.connect(harness.database_url, timeout=60)
    try:
        await connection.execute(_EVENTS, events, _KEYS, _BODY)
        await connection.execute("SELECT setval('hookwire.event_id', $1)", events)
        await connection.execute("VACUUM ANALYZE hookwire.events")
        name: str = await connection.fetchval("SELECT incarnation FROM hookwire.installation")
    finally:
        await connection.close()
    return name


def _rate(counted: Counted) -> float:
    return counted.count / max(counted.last - counted.first, 0.001)


async def replayed(client: httpx.AsyncClient, sink: Sink, subscription: str, events: int, rate: int | None) -> float:
    """Replay all events from the hub; return the deliveries a second."""
    await sink.clear()
    body = {"source": "events", "subscription_id": subscription, "rate_per_second": rate}
    (await client.post("/replays", json=body)).raise_for_status()
    return _rate(await sink.until(events, 900))


async def backfilled(harness: Harness, sink: Sink, subscription: str, events: int, lake: str) -> tuple[float, float]:
    """Backfill all events from the lake; return the deliveries a second, and the seconds until the first one."""
    await sink.clear()
    began = time.time()
    arguments = ("pipeline", "backfill", "--subscription", subscription, "--lake", lake)
    with harness.process(*arguments) as child:
        code = await asyncio.to_thread(child.wait, 900)
    counted = await sink.counted()
    if (code, counted.count) != (0, events):
        log = (harness.data_dir.parent / "more.log").read_text()
        raise RuntimeError(f"{counted.count} of {events} arrived, exit code {code}: {log[-2_000:]}")
    return _rate(counted), counted.first - began


async def run(events: int, rounds: int) -> list[str]:
    """Measure; return the lines to print."""
    paced, fast, ours, starts = [], [], [], []
    with tempfile.TemporaryDirectory() as folder:
        lake = (Path(folder) / "lake").as_uri()
        async with (
            running_sink() as sink,
            running_harness() as harness,
            httpx.AsyncClient(base_url=harness.url, trust_env=False, timeout=120) as client,
        ):
            target = {"topic": "orders", "callback": f"http://127.0.0.1:{sink.port}/"}
            subscription = (await client.post("/subscriptions", json=target)).raise_for_status().json()["id"]
            await asyncio.to_thread(fill_lake, lake, await fill_hub(harness, events), events)
            for _ in range(rounds):
                fast.append(await replayed(client, sink, subscription, events, _UNREACHED))
                rate, start = await backfilled(harness, sink, subscription, events, lake)
                ours.append(rate)
                starts.append(start)
                paced.append(await replayed(client, sink, subscription, events, None))
    own, best, usual = map(statistics.median, (ours, fast, paced))
    return [
        f"{events:,} events of {len(_BODY)} bytes on {_KEYS:,} keys, median of {rounds}",
        f"backfill                    {own:,.0f}/s, the first event after {statistics.median(starts):.1f} s",
        f"replay at its own pace      {usual:,.0f}/s: {own / usual:.2f} (bar 0.8)",
        f"replay with no limit        {best:,.0f}/s: {own / best:.2f} (bar 0.8)",
        f"load of the machine         {' '.join(f'{one:.1f}' for one in os.getloadavg())}",
    ]


def main() -> None:
    """Read the command line, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--events", type=int, default=20_000, help="events of the range (20,000)")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each (3)")
    options = parser.parse_args()
    print("\n".join(asyncio.run(run(options.events, options.rounds))), flush=True)


if __name__ == "__main__":
    main()
