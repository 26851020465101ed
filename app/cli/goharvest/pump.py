"""``hookwire pump``: a load generator with goharvest's flags, and a reader that verifies the arrivals.

It writes numbered records (header ``Seq``) of random keys, 20 in a transaction, to goharvest's table or through
``hookwire.publish``. There is one writer, so the numbers of a key rise in the order of its commits. The reader checks a
relay's promise in the Kafka topic (RR-01): per key the first occurrences rise and none is missing; repeats are counted.
A record that has not arrived is lost only if the outbox does not hold it any more.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections import defaultdict
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from db.mariadb.database import MariaDatabase, as_json
from db.pool import Database
from relay.kafka.reader import KafkaArrival

__all__ = [
    "PumpOptions", "PumpOutbox", "Pumped", "Verified", "outbox_in_maria", "outbox_in_postgres", "pump", "verify",
]  # fmt: skip

_IN_TRANSACTION = 20

Stash = Callable[[Sequence[str], Sequence[str | None], Sequence[int]], Awaitable[object]]
Owed = Callable[[], Awaitable[Mapping[int, bool]]]


@dataclass(frozen=True, slots=True)
class PumpOutbox:
    """Where the records go. ``stash`` writes records with these keys, values and numbers in one transaction. ``owed``
    returns the numbers that Kafka has yet to get, and whether each was given up. Both raise DatabaseError.
    """

    stash: Stash
    owed: Owed


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
    """The verified arrivals. ``arrived`` counts different records. ``on_their_way`` still wait in the outbox, and
    ``given_up`` are its dead letters; ``lost`` counts all others that did not arrive. ``disordered`` are first
    occurrences below an earlier one of their key; ``repeated`` are further occurrences.
    """

    arrived: int
    lost: int
    disordered: int
    repeated: int
    on_their_way: int = 0
    given_up: int = 0

    @property
    def exit_code(self) -> int:
        """Return 1 if the relay broke its promise or gave up a record, 4 if it is not finished, else 0."""
        if self.lost or self.disordered or self.given_up:
            return 1
        return 4 if self.on_their_way else 0


def outbox_in_postgres(database: Database, options: PumpOptions) -> PumpOutbox:
    """Return that of ``hookwire.publish``, or goharvest's table that the statements of ``database`` name."""
    stashes, owes = ("compat.stash", "compat.pump_owed") if options.compat else ("event.pump", "event.pump_owed")

    async def stash(keys: Sequence[str], values: Sequence[str | None], numbers: Sequence[int]) -> None:
        await database.execute(stashes, options.topic, keys, values, numbers, options.run)

    async def owed() -> Mapping[int, bool]:
        rows = await database.fetch(owes, options.topic, options.run)
        return {row["number"]: row["is_given_up"] for row in rows}

    return PumpOutbox(stash, owed)


def outbox_in_maria(database: MariaDatabase, options: PumpOptions) -> PumpOutbox:
    """Return the table in MariaDB or MySQL that the statements of ``database`` name."""

    async def stash(keys: Sequence[str], values: Sequence[str | None], numbers: Sequence[int]) -> None:
        rows = as_json([_row(*record) for record in zip(keys, values, numbers, strict=True)])
        await database.execute("outbox.stash", topic=options.topic, rows=rows, run=options.run)

    async def owed() -> Mapping[int, bool]:
        rows = await database.fetch("outbox.pump_owed", topic=options.topic, run=options.run)
        return {row["number"]: bool(row["is_given_up"]) for row in rows}

    return PumpOutbox(stash, owed)


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
    owed: Owed,
    options: PumpOptions,
    idle_seconds: float,
    progress: Callable[[int], None],
) -> Verified:
    """Read until every record of the run has arrived, or neither Kafka nor the outbox has changed for
    ``idle_seconds``. A record that left the outbox before the last look had as long to be read.
    """
    seen: set[int] = set()
    highest: dict[str | None, int] = defaultdict(int)
    disordered = repeated = 0
    left: Mapping[int, bool] | None = None
    idle_until = time.monotonic() + idle_seconds
    async for arrival in arrivals:
        number = _number(arrival, options.run) if arrival is not None else None
        if arrival is None or number is None:
            if time.monotonic() > idle_until:
                before, left = left, await owed()
                if left == before:
                    break
                idle_until = time.monotonic() + idle_seconds
            continue
        left, idle_until = None, time.monotonic() + idle_seconds
        if number in seen:
            repeated += 1
            continue
        seen.add(number)
        disordered += number < highest[arrival.key]
        highest[arrival.key] = max(highest[arrival.key], number)
        progress(len(seen))
        if len(seen) == options.records:
            break
    missing = set(range(1, options.records + 1)) - seen
    kept = [is_given_up for number, is_given_up in (left or {}).items() if number in missing]
    return Verified(
        len(seen), len(missing) - len(kept), disordered, repeated, kept.count(False), kept.count(True)
    )  # fmt: skip


def _number(arrival: KafkaArrival, run: str) -> int | None:
    """Return the header ``Seq`` of a record of this run, else None. ``hookwire.publish`` writes the names of headers in
    lower case.
    """
    headers = {name.lower(): value.decode(errors="replace") for name, value in arrival.headers}
    number = headers.get("seq", "")
    return int(number) if headers.get("run") == run and number.isdigit() else None
