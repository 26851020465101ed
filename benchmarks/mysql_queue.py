"""A queue in MariaDB: ours beside the article's worker that takes one message at a time, in one run.

    python -m benchmarks.mysql_queue --messages 5000 --rounds 3

Every commit is flushed: ``innodb_flush_log_at_trx_commit=1`` and ``sync_binlog=1`` hold for the whole server. The naive
worker is the article's: UPDATE one row with a random mark, SELECT it, DELETE it, each a transaction. Ours receives and
accepts 50 at a time on one connection of pymysql, with the archive off and on. Beside them: an INSERT of 50 rows with
its commit. Rounds alternate; the table has medians.

Then it times a claim of ten with 10^6 and with 10^3 waiting, in turn. Last, it drains 1,000 live messages beside
100,000 dead ones, and counts the rows that the server reads for them. PostgreSQL does the same.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import asyncpg
import pymysql

from db.migrate import migrate
from hookwire.jobs import Queue
from scripts.servers.fleet import take_server
from scripts.servers.mariadb import MariaServer
from scripts.servers.postgres import PostgresServer

PAYLOAD = "x" * 200
BATCH = 50
FEW, MANY = 1_000, 1_000_000
LIVE, DEAD = 1_000, 100_000
NAIVE_BAR, INSERT_GOAL, DEPTH_GOAL = 5.0, 0.5, 1.2
Connection: TypeAlias = "pymysql.Connection[Any]"


class TimedCursor(pymysql.cursors.Cursor):  # type: ignore[misc]
    """Adds the time of each statement to the profile, by its first words."""

    profile: dict[str, float] = defaultdict(float)  # noqa: RUF012 - one profile for the run

    def execute(self, query: Any, args: Any = None) -> int:
        """Run a statement and time it."""
        began = time.perf_counter()
        found: int = super().execute(query, args)
        words = " ".join(str(query).split()[:2]).replace("`", "")
        self.profile[words] += time.perf_counter() - began
        return found


def connected(url: str, database: str, *, autocommit: bool = True) -> Connection:
    """Return a connection to a database of the server."""
    at = urlsplit(url)
    assert at.hostname is not None
    return pymysql.connect(
        host=at.hostname, port=at.port or 3306, user=at.username, password=at.password or "", database=database,
        autocommit=autocommit, cursorclass=TimedCursor,
    )  # fmt: skip


def run(connection: Connection, text: str, arguments: Sequence[Any] = ()) -> list[Any]:
    """Run a statement and return its rows."""
    with connection.cursor() as cursor:
        cursor.execute(text, tuple(arguments))
        return list(cursor.fetchall())


def insert(connection: Connection, messages: int) -> float:
    """Insert 50 rows at a time, each with its commit; return rows a second."""
    run(connection, "TRUNCATE plain")
    rows = ", ".join(["(%s)"] * BATCH)
    began = time.perf_counter()
    for _ in range(messages // BATCH):
        run(connection, f"INSERT INTO plain (payload) VALUES {rows}", [PAYLOAD] * BATCH)
    return messages / (time.perf_counter() - began)


def naive(connection: Connection, messages: int) -> float:
    """Drain a table as the article's worker does, one at a time; return messages a second."""
    count = messages // 5
    run(connection, "TRUNCATE naive")
    run(connection, f"INSERT INTO naive (payload) SELECT '{PAYLOAD}' FROM seq_1_to_{count}")
    began = time.perf_counter()
    for _ in range(count):
        mark = secrets.randbelow(1 << 24)
        run(connection, "UPDATE naive SET claim_id = %s WHERE claim_id IS NULL ORDER BY id LIMIT 1", [mark])
        [[found]] = run(connection, "SELECT id FROM naive WHERE claim_id = %s", [mark])
        run(connection, "DELETE FROM naive WHERE id = %s", [found])
    return count / (time.perf_counter() - began)


def ours(queue: Queue) -> Callable[[Connection, int], float]:
    """Return a drain of a queue, 50 at a time; it returns messages a second."""

    def drain(connection: Connection, messages: int) -> float:
        fill(connection, queue, messages)
        return drained(connection, queue, messages)

    return drain


def fill(connection: Connection, queue: Queue, messages: int, values: str = "NULL, NULL") -> None:
    """Insert messages by one statement."""
    run(
        connection,
        f"INSERT INTO {queue.name} (payload, claim, reason) SELECT '{PAYLOAD}', {values} FROM seq_1_to_{messages}",
    )


def drained(connection: Connection, queue: Queue, messages: int) -> float:
    """Receive and accept 50 at a time until nothing is left; return messages a second."""
    done, after, began = 0, 0, time.perf_counter()
    while done < messages:
        received = queue.receive(connection, BATCH, after_id=after)
        after = received[-1].id if received else 0
        done += len(queue.accept(connection, received))
    return messages / (time.perf_counter() - began)


def claim_seconds(connection: Connection, queue: Queue) -> float:
    """Return the seconds of a claim of ten, and keep the number that waits."""
    began = time.perf_counter()
    received = queue.receive(connection, 10)
    took = time.perf_counter() - began
    queue.accept(connection, received)
    fill(connection, queue, 10)
    return took


def read_rows(connection: Connection) -> int:
    """Return how many rows this session's statements have read from tables."""
    return sum(int(value) for _, value in run(connection, "SHOW SESSION STATUS LIKE 'Handler_read%%'"))


async def in_postgres(folder: Path, messages: int) -> None:
    """Print the same drain in PostgreSQL, beside 100,000 dead letters."""
    server = take_server("postgres15", folder, {})
    assert isinstance(server, PostgresServer), "none was given"
    try:
        await migrate(server.url)
        connection = await asyncpg.connect(server.url)
        queue = Queue("bench")
        await connection.execute(
            "INSERT INTO hookwire.dead_messages (id, queue, created_at, died_at, deliveries, reason, priority, headers,"
            " payload) SELECT nextval('hookwire.message_id'), 'bench', now(), now(), 5, 'dead', 0, '{}', $1"
            f" FROM generate_series(1, {DEAD})",
            PAYLOAD.encode(),
        )
        await connection.execute("VACUUM ANALYZE")
        rates = []
        for _ in range(5):
            async with connection.transaction():
                await queue.submit_many(connection, [PAYLOAD] * messages)
            done, after, began = 0, 0, time.perf_counter()
            while done < messages:
                received = await queue.receive(connection, BATCH, after_id=after)
                after = received[-1].id if received else 0
                done += len(await queue.accept(connection, received))
            rates.append(messages / (time.perf_counter() - began))
        await connection.close()
    finally:
        server.discard()
    print(f"PostgreSQL, {LIVE:,} live beside {DEAD:,} dead    {statistics.median(rates):10,.0f}/s")


def compare_rates(url: str, messages: int, rounds: int) -> None:
    """Print the rates and their ratios, and where the time goes."""
    connection = connected(url, "bench")
    plain, kept = Queue("q"), Queue("kept")
    plain.create(connection)
    kept.create(connection, archive=True)
    run(connection, "CREATE TABLE plain (id bigint AUTO_INCREMENT PRIMARY KEY, payload longblob NOT NULL)")
    run(
        connection,
        "CREATE TABLE naive (id bigint AUTO_INCREMENT PRIMARY KEY, claim_id int, payload longblob NOT NULL,"
        " KEY (claim_id))",
    )
    ways: dict[str, Callable[[Connection, int], float]] = {
        "INSERT of 50": insert, "naive, one at a time": naive, "ours, batch 50": ours(plain),
        "ours, batch 50, archive on": ours(kept),
    }  # fmt: skip
    rates: dict[str, list[float]] = defaultdict(list)
    profiles: dict[str, dict[str, float]] = {}
    for number in range(rounds + 1):
        for name, way in ways.items():
            TimedCursor.profile.clear()
            rate = way(connection, messages)
            if number:  # the first round warms up
                rates[name].append(rate)
                profiles[name] = dict(TimedCursor.profile)
    medians = {name: statistics.median(found) for name, found in rates.items()}
    for name, found in rates.items():
        print(f"{name:28} {medians[name]:10,.0f}/s   {min(found):,.0f} to {max(found):,.0f}")
    for name in ("ours, batch 50", "ours, batch 50, archive on"):
        ratio = medians[name] / medians["naive, one at a time"]
        print(f"{name} : naive = {ratio:.1f} (bar {NAIVE_BAR:g}{'' if ratio >= NAIVE_BAR else ', missed'})")
        ratio = medians[name] / medians["INSERT of 50"]
        print(f"{name} : INSERT = {ratio:.2f} (goal {INSERT_GOAL:g}{'' if ratio >= INSERT_GOAL else ', missed'})")
        shares = sorted(profiles[name].items(), key=lambda one: -one[1])
        print("  profile: " + ", ".join(f"{words} {seconds * 1000:,.0f} ms" for words, seconds in shares[:7]))
    connection.close()


def compare_depths(url: str, claims: int, many: int) -> None:
    """Print the time of a claim with many waiting beside one with few."""
    connection = connected(url, "bench")
    queues = {count: Queue(f"depth_{count}") for count in (FEW, many)}
    for count, queue in queues.items():
        queue.create(connection)
        fill(connection, queue, count)
    found: dict[int, list[float]] = defaultdict(list)
    for _ in range(claims):
        for count, queue in queues.items():
            found[count].append(claim_seconds(connection, queue))
    few, deep = (statistics.median(found[count]) for count in (FEW, many))
    print(
        f"claim of ten, {many:,} waiting: {deep * 1000:.2f} ms beside {few * 1000:.2f} ms with {FEW:,}"
        f" = {deep / few:.2f} (goal {DEPTH_GOAL:g}{'' if deep / few <= DEPTH_GOAL else ', missed'})"
    )
    connection.close()


def beside_dead(url: str) -> None:
    """Print the rate beside dead messages, and the rows that are read for a live one."""
    connection = connected(url, "bench")
    queue = Queue("dead")
    queue.create(connection)
    fill(connection, queue, DEAD, "1, 'dead'")
    rates, rows = [], 0
    for _ in range(5):
        fill(connection, queue, LIVE)
        before = read_rows(connection)
        rates.append(drained(connection, queue, LIVE))
        rows = read_rows(connection) - before
    print(
        f"MariaDB, {LIVE:,} live beside {DEAD:,} dead       {statistics.median(rates):10,.0f}/s,"
        f" {rows / LIVE:.1f} rows read for each"
    )
    connection.close()


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mysql_queue", description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--claims", type=int, default=200)
    parser.add_argument("--many", type=int, default=MANY)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o711)
        server = take_server("mariadb", folder, {})
        assert isinstance(server, MariaServer), "none was given"
        try:
            admin = connected(server.url, "mysql")
            for text in (
                "SET GLOBAL innodb_flush_log_at_trx_commit = 1", "SET GLOBAL sync_binlog = 1", "CREATE DATABASE bench",
            ):  # fmt: skip
                run(admin, text)
            admin.close()
            compare_rates(server.url, options.messages, options.rounds)
            compare_depths(server.url, options.claims, options.many)
            beside_dead(server.url)
        finally:
            server.discard()
        asyncio.run(in_postgres(folder, LIVE))
    return 0


if __name__ == "__main__":
    sys.exit(main())
