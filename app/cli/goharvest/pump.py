"""``hookwire pump``: a load generator with goharvest's flags, and a reader that verifies the arrivals.

It writes numbered records (header ``Seq``) of random keys, 20 in a transaction, to goharvest's table or through
``hookwire.publish``. There is one writer, so the numbers of a key rise in the order of its commits. The reader checks a
relay's promise in the Kafka topic (RR-01): per key the first occurrences rise and none is missing; repeats are counted.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections import defaultdict
from collections.abc import AsyncIterable, Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from db.mariadb.database import MariaDatabase, as_json
from db.pool import Database
from relay.kafka.reader import KafkaArrival

__all__ = ["PumpOptions", "Pumped", "Stash", "Verified", "pump", "stash_in_maria", "stash_in_postgres", "verify"]

_IN_TRANSACTION = 20

Stash = Callable[[Sequence[str], Sequence[str | None], Sequence[int]], Awaitable[object]]
"""Writes records with these keys, values and numbers in one transaction. Raises DatabaseError."""


@dataclass(frozen=True, slots=True)
class PumpOptions:
    """goharvest's flags: ``interval_seconds`` is the pause between two transactions, ``blank`` writes null values.

    ``compat``: rows of goharvest's table; otherwise events of our own. ``run`` marks this run's records.
    """

    keys: int
    records: int
    interval_seconds: float = 0.0
    topic: str = "pump"
    blank: bool = False
    compat: bool = False
    run: str = field(default_factory=lambda: secrets.token_hex(6))


@dataclass(frozen=True, slots=True)
class Pumped:
    """The number of committed records, and the time that it took."""

    records: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Verified:
    """The verified arrivals. ``arrived`` counts different records; ``lost`` counts written records that did not arrive.
    ``disordered`` are first occurrences below an earlier one of their key; ``repeated`` are further occurrences.
    """

    arrived: int
    lost: int
    disordered: int
    repeated: int

    @property
    def holds(self) -> bool:
        """Return whether the relay kept its promise."""
        return self.lost == 0 and self.disordered == 0


def stash_in_postgres(database: Database, options: PumpOptions) -> Stash:
    """Writes records by ``hookwire.publish``, or to goharvest's table that the statements of ``database`` name."""
    statement = "compat.stash" if options.compat else "event.pump"

    async def stash(keys: Sequence[str], values: Sequence[str | None], numbers: Sequence[int]) -> None:
        await database.execute(statement, options.topic, keys, values, numbers, options.run)

    return stash


def stash_in_maria(database: MariaDatabase, options: PumpOptions) -> Stash:
    """Writes records to the table in MariaDB or MySQL that the statements of ``database`` name."""

    async def stash(keys: Sequence[str], values: Sequence[str | None], numbers: Sequence[int]) -> None:
        rows = as_json([_row(*record) for record in zip(keys, values, numbers, strict=True)])
        await database.execute("outbox.stash", topic=options.topic, rows=rows, run=options.run)

    return stash


def _row(key: str, value: str | None, number: int) -> dict[str, object]:
    """Return a row for JSON_TABLE. A missing value is NULL; MySQL 8.0.15 turns a JSON null into the text "null"."""
    return {"key": key, "seq": number} | ({} if value is None else {"value": value})


async def pump(stash: Stash, options: PumpOptions, progress: Callable[[int], None]) -> Pumped:
    """Write the records; ``progress`` gets the number written, after each commit. Raises DatabaseError."""
    started_at = time.monotonic()
    for first in range(1, options.records + 1, _IN_TRANSACTION):
        numbers = range(first, min(first + _IN_TRANSACTION, options.records + 1))
        keys = [f"key-{random.randrange(options.keys):x}" for _ in numbers]  # noqa: S311 - load, not secrets
        values = [None if options.blank else f"value-{number:x}" for number in numbers]
        await stash(keys, values, numbers)
        progress(numbers[-1])
        if options.interval_seconds:
            await asyncio.sleep(options.interval_seconds)
    return Pumped(options.records, time.monotonic() - started_at)


async def verify(
    arrivals: AsyncIterable[KafkaArrival | None],
    options: PumpOptions,
    idle_seconds: float,
    progress: Callable[[int], None],
) -> Verified:
    """Read until every record of the run has arrived, or no record of it has arrived for ``idle_seconds``."""
    seen: set[int] = set()
    highest: dict[str | None, int] = defaultdict(int)
    disordered = repeated = 0
    idle_until = time.monotonic() + idle_seconds
    async for arrival in arrivals:
        number = _number(arrival, options.run) if arrival is not None else None
        if arrival is None or number is None:
            if time.monotonic() > idle_until:
                break
            continue
        idle_until = time.monotonic() + idle_seconds
        if number in seen:
            repeated += 1
            continue
        seen.add(number)
        disordered += number < highest[arrival.key]
        highest[arrival.key] = max(highest[arrival.key], number)
        progress(len(seen))
        if len(seen) == options.records:
            break
    return Verified(len(seen), options.records - len(seen), disordered, repeated)


def _number(arrival: KafkaArrival, run: str) -> int | None:
    """Return the header ``Seq`` of a record of this run, else None. ``hookwire.publish`` writes the names of headers in
    lower case.
    """
    headers = {name.lower(): value.decode(errors="replace") for name, value in arrival.headers}
    number = headers.get("seq", "")
    return int(number) if headers.get("run") == run and number.isdigit() else None
