"""The statements of the verdict beside a large backlog: the time of each, for /status, the status page and the metrics.

    python -m benchmarks.verdict --rows 1000000

Each table of what waits and of what was given up has as many rows. There are deliveries of 100 subscriptions that fail.
Records, holds, messages, tasks, jobs and requests have 100 names each. Each line has the shortest, the median and the
longest time of a statement in rounds of all statements (bar: a median of 50 ms). The last line has the time of the
whole.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

import asyncpg

from app.verdict.facts import read_facts
from app.verdict.judge import judge
from benchmarks.harness import running_harness
from db.pool import Database, PoolOptions, open_database

_BAR_MS: Final = 50.0
_NAMES: Final = 100
_FAILING: Final = 100
_FILL: Final = (
    "INSERT INTO hookwire.subscriptions (public_id, protocol, topic, callback, state)"
    " SELECT 'sub_' || n, 'webhook', 'orders', 'http://a/', 'active' FROM generate_series(1, NAMES) AS n",
    "INSERT INTO hookwire.delivery_failures (subscription_id, failures, settled_at, failed, failing_since)"
    f" SELECT id, 9, '{{}}', '{{}}', now() - interval '1 h' FROM hookwire.subscriptions ORDER BY id LIMIT {_FAILING}",
    "INSERT INTO hookwire.attempts (event_id, subscription_id, started_at, number, total_seconds, tenant, outcome,"
    " decision, trigger, worker) SELECT n, s.id, now(), 1, 0.1, 'default', 'delivered', 'delivered', 'first', 'w'"
    " FROM generate_series(1, 20) AS n, hookwire.subscriptions s",
    "INSERT INTO hookwire.deliveries (event_id, subscription_id, due_at, created_at, tenant)"
    " SELECT n, 1 + n % NAMES, now() - interval '1 h', now() - interval '1 h', 'default' FROM ROWS",
    "INSERT INTO hookwire.outbox (id, sink, shard, layout) SELECT n, 'webhooks', n % 64, 1 FROM ROWS",
    "INSERT INTO hookwire.holds (sink, tenant, topic, key, reason, detail, probe_at)"
    " SELECT 'kafka', 'default', 't' || n % NAMES, n::text, 'too_large', '', now() + interval '1 day' FROM ROWS",
    "INSERT INTO hookwire.dead_letters (event_id, subscription_id, tenant, kind, attempts)"
    " SELECT n, 1 + n % NAMES, 'default', 'exhausted', 9 FROM ROWS",
    "INSERT INTO hookwire.relay_dead_letters (sink, event_id, tenant, topic, shard, layout, reason, detail)"
    " SELECT 'kafka', n, 'default', 't' || n % NAMES, n % 64, 1, 'too_large', '' FROM ROWS",
    "INSERT INTO hookwire.source_refusals (source, partition, record_offset, reason, detail, headers, bytes, held_keys)"
    " SELECT 's' || n % NAMES, 0, n, 'too_large', '', '[]', 0, CASE WHEN n % 2 = 0 THEN '{k}'::text[] END FROM ROWS",
    "INSERT INTO hookwire.messages (id, queue, created_at, headers, payload)"
    " SELECT n, 'q' || n % NAMES, now() - interval '1 h', '{}', 'x' FROM ROWS",
    "INSERT INTO hookwire.messages (id, queue, due_at, deliveries, created_at, headers, payload)"
    " SELECT n + 100000000, 'r' || n % NAMES, now() + interval '1 h', 3, now() - interval '1 h', '{}', 'x' FROM ROWS",
    "INSERT INTO hookwire.task_rows (id, kind, description, seq, due_at, attempts) OVERRIDING SYSTEM VALUE"
    " SELECT 'r' || n, 'r' || n % NAMES, '', n + 100000000, now() + interval '1 h', 3 FROM ROWS",
    "INSERT INTO hookwire.jobs (seq, kind, state, args, rank_at, due_at, attempts, attempts_max, run_seconds,"
    " created_at) OVERRIDING SYSTEM VALUE SELECT n + 100000000, 'r' || n % NAMES, 'retryable', '{}', now(),"
    " now() + interval '1 h', 3, 20, 60, now() FROM ROWS",
    "INSERT INTO hookwire.dead_messages (id, queue, created_at, died_at, deliveries, reason, priority, headers,"
    " payload) SELECT -n, 'q' || n % NAMES, now(), now(), 5, 'r', 0, '{}', 'x' FROM ROWS",
    "INSERT INTO hookwire.task_rows (id, kind, description, seq)"
    " OVERRIDING SYSTEM VALUE SELECT n::text, 'k' || n % NAMES, '', n FROM ROWS",
    "INSERT INTO hookwire.dead_tasks (id, kind, description, reason, attempts, created_at)"
    " SELECT n::text, 'k' || n % NAMES, '', 'r', 5, now() FROM ROWS",
    "INSERT INTO hookwire.jobs (seq, kind, state, args, rank_at, attempts_max, run_seconds, created_at)"
    " OVERRIDING SYSTEM VALUE SELECT n, 'j' || n % NAMES, 'available', '{}', now(), 5, 60, now() FROM ROWS",
    "INSERT INTO hookwire.job_archive (id, seq, kind, queue, state, args, key, priority, attempts, attempts_max,"
    " run_seconds, number, errors, created_at, ended_at) SELECT gen_random_uuid(), -n,"
    " 'j' || n % NAMES, 'default', 'discarded', '{}', '', 0, 5, 5, 60, 0, '[]', now(), now() FROM ROWS",
    "INSERT INTO hookwire.requests (id, number, service, state, deadline_at, expires_at, created_at, via, body)"
    " OVERRIDING SYSTEM VALUE SELECT gen_random_uuid(), n,"
    " 's' || n % NAMES, state, now() + interval '1 day', now() + interval '1 day', now(), 'sql', 'x'"
    " FROM ROWS, unnest('{waiting,delayed,expired}'::text[]) AS state",
)


class _Timed(Database):
    """A database whose statements are timed, in milliseconds."""

    def __init__(self, database: Database) -> None:
        self.times: dict[str, list[float]] = defaultdict(list)
        self._inner = database

    async def fetch(self, name: str, *arguments: Any) -> Any:
        """Time one statement."""
        began = time.perf_counter()
        found = await self._inner.fetch(name, *arguments)
        self.times[name].append((time.perf_counter() - began) * 1000)
        return found

    async def fetchrow(self, name: str, *arguments: Any) -> Any:
        """Time one statement."""
        found = await self.fetch(name, *arguments)
        return found[0] if found else None


async def fill(sql: asyncpg.Connection, rows: int, names: int) -> None:
    """Fill each table with rows of so many names. Nothing is vacuumed, so that counts have to look at the rows."""
    await sql.execute("SET session_replication_role = replica")
    await sql.execute("UPDATE hookwire.sinks SET configured = true")
    for statement in _FILL:
        series = f"generate_series(1, {rows}) AS n"
        await sql.execute(statement.replace("ROWS", series).replace("NAMES", str(names)))


async def measure(rows: int, rounds: int) -> None:
    """Fill the database of a hub, and print the table."""
    async with running_harness("api") as harness:
        sql = await asyncpg.connect(harness.database_url)
        await fill(sql, rows, _NAMES)
        await sql.execute("ANALYZE")
        await sql.close()
        database = await open_database(PoolOptions(harness.database_url))
        timed, whole = _Timed(database), []
        for _ in range(rounds):
            began = time.perf_counter()
            verdict = judge(await read_facts(timed))
            whole.append((time.perf_counter() - began) * 1000)
        await database.aclose()
    print(f"{rows:,} rows a table, {rounds} rounds; the verdict: {verdict.word}, {len(verdict.findings)} findings")
    for name, times in sorted(timed.times.items(), key=lambda one: -statistics.median(one[1])):
        median = statistics.median(times)
        word = "met" if median <= _BAR_MS else "missed"
        print(f"{name:30} {_spread(times)}  bar {_BAR_MS:g} ms: {word}")
    print(f"{'the whole verdict':30} {_spread(whole)}")


def _spread(times: Sequence[float]) -> str:
    """Return the shortest, the median and the longest; on a busy machine the shortest says most."""
    middle = statistics.median(times)
    return f"shortest {min(times):6.1f} ms  median {middle:6.1f} ms  longest {max(times):6.1f} ms"


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.verdict", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of each table")
    parser.add_argument("--rounds", type=int, default=9, help="how often each statement runs")
    arguments = parser.parse_args()
    asyncio.run(measure(arguments.rows, arguments.rounds))


if __name__ == "__main__":
    main()
