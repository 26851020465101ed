"""A transactional consumer in a process of its own: the other end of benchmarks/sustained.py.

``python -m benchmarks.consumer BOOTSTRAP TOPIC`` reads the topic from its beginning, with the isolation level
``read_committed``, until its input ends. Then it prints a line for each record: the id of its event, and the time at
which it was read.
"""

from __future__ import annotations

import asyncio
import sys
import time

from aiokafka import AIOKafkaConsumer, ConsumerRecord


async def read(bootstrap: str, topic: str) -> list[str]:
    """Read until the input ends; return the lines to print."""
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest",
        enable_auto_commit=False,
    )  # fmt: skip
    await consumer.start()
    print("reading", flush=True)
    lines: list[str] = []
    told = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    while not told.done():
        for records in (await consumer.getmany(timeout_ms=200)).values():
            now = time.time()
            lines += [f"{_number(record)} {now:.6f}" for record in records]
    await consumer.stop()
    return lines


def _number(record: ConsumerRecord[bytes, bytes]) -> str:
    event = dict(record.headers)["hookwire-event-id"].decode()
    return str(event.rpartition("_")[2])


def main() -> None:
    """Run the command line."""
    print("\n".join(asyncio.run(read(*sys.argv[1:]))))


if __name__ == "__main__":
    main()
