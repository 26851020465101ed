"""The console beside large tables: time and size of each page, its longest statements, and the share of ten consoles.

    python -m benchmarks.console --rows 1000000

There are so many dead letters, most of them of one endpoint. Jobs, ended jobs and open deliveries are as many, and
attempts ten times as many. Each page is asked for again and again; a line has its 95th percentile (bar: 100 ms) and
its size (bar: 60 kB). ``pg_stat_statements`` says how long each statement took (bar: 100 ms). Then 200 events a second
are published, without a console and with ten that are open. The time of the console's statements is printed as a share
of all (bar: 1 %). It needs the system's PostgreSQL with its contrib modules.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import asyncpg
import httpx

from benchmarks.cost import offer
from benchmarks.harness import Harness, running_harness, running_sink
from db.statements import STATEMENTS
from scripts.servers.postgres import PostgresServer, system_bin_dir

__all__ = ["PAGES", "fill", "measure_open", "measure_pages", "page_addresses", "running_server"]

_TIME_BAR_MS: Final = 100.0
_SIZE_BAR: Final = 60_000
_SHARE_BAR: Final = 0.01
_CONSOLES: Final = 10
_REFRESH_SECONDS: Final = 5.0
_RATE: Final = 200
_FILL: Final = (
    "INSERT INTO hookwire.topics (tenant, name) VALUES ('default', 'orders')",
    "INSERT INTO hookwire.subscriptions (public_id, protocol, topic, callback, state)"
    " SELECT 'sub_' || lpad(to_hex(n), 20, '0'), 'webhook', 'orders', 'http://127.0.0.1:9/' || n, 'disabled'"
    " FROM generate_series(1, 100) AS n",
    "INSERT INTO hookwire.events (id, accepted_at, ordered, tenant, topic, key, content_type, headers, sinks, payload)"
    " SELECT n, now() - interval '20 h' + n * interval '60 ms', false, 'default', 'orders', 'k' || n % 1000,"
    " 'application/json', '{}', '{webhooks}', '{\"order\": 4711}' FROM ROWS",
    "INSERT INTO hookwire.dead_letters (event_id, subscription_id, tenant, kind, attempts, last_status, last_outcome,"
    " died_at) SELECT n, CASE WHEN n % 20 = 0 THEN 2 + n % 99 ELSE 1 END, 'default', 'exhausted', 10, 500,"
    " 'server_error', now() - interval '20 h' + n * interval '60 ms' FROM ROWS",
    "INSERT INTO hookwire.attempts (event_id, subscription_id, started_at, number, total_seconds, tenant, outcome,"
    " decision, trigger, worker, status) SELECT n, CASE WHEN n % 20 = 0 THEN 2 + n % 99 ELSE 1 END, now(), a, 0.1,"
    " 'default', 'server_error', CASE a WHEN 10 THEN 'dead' ELSE 'retry' END, 'first', 'w', 500"
    " FROM ROWS, generate_series(1, 10) AS a",
    "INSERT INTO hookwire.deliveries (event_id, subscription_id, due_at, created_at, tenant)"
    " SELECT n, 1 + n % 100, now() + interval '1 day', now(), 'default' FROM ROWS",
    "INSERT INTO hookwire.relay_dead_letters (sink, event_id, tenant, topic, shard, layout, reason, detail)"
    " SELECT 'kafka', n, 'default', 'orders', n % 64, 1, 'too_large', '' FROM ROWS",
    "INSERT INTO hookwire.jobs (seq, kind, state, args, rank_at, attempts_max, run_seconds, created_at)"
    " OVERRIDING SYSTEM VALUE SELECT n, 'j' || n % 100, 'available', '{}', now(), 5, 60, now() FROM ROWS",
    "UPDATE hookwire.jobs SET for_people = true WHERE seq % 1000 = 1",
    "UPDATE hookwire.jobs SET state = 'assigned', assignee = '127.0.0.1' WHERE seq % 1000 = 2",
    "UPDATE hookwire.jobs SET state = 'review', performer = 'w' WHERE seq % 1000 = 3",
    "INSERT INTO hookwire.job_archive (id, seq, kind, queue, state, args, key, priority, attempts, attempts_max,"
    " run_seconds, number, errors, created_at, ended_at) SELECT gen_random_uuid(), COUNT + n, 'j' || n % 100,"
    " 'default', 'completed', '{}', '', 0, 1, 5, 60, 1, '[]', now(), now() FROM ROWS",
    "SELECT setval('hookwire.event_id', COUNT)",
)
PAGES: Final = (
    "../console", "events", "topics", "subscriptions", "deliveries", "undelivered", "dead-letters", "holds", "replays",
    "queues", "tasks", "jobs", "services", "requests", "upstreams", "keys", "audit", "topics/orders",
    "deliveries?state=dead", "deliveries?state=delivered", "undelivered?outcome=dead", "events?outcome=dead",
    "events?key=k7", "jobs?state=available&kind=j7", "my-work", "pool", "pool?kind=j1", "review",
    "search?q=orders", "search?q=k7", "search?q=127.0.0.1", "incidents", "sources", "refusals", "jobs/new",
    "replays/new", "topics?prefix=o", "subscriptions?health=disabled", "deliveries?topic=orders", "audit?actor=nobody",
    "undelivered?since=2000-01-01T00:00Z",
)  # fmt: skip
"""Addresses of pages, relative to the folder of the console."""
_OF_ONE: Final = (
    "subscriptions/{}", "deliveries?subscription_id={}", "dead-letters?subscription_id={}",
    "undelivered?subscription_id={}", "deliveries?subscription_id={}&state=delivered", "pair?subscription={}",
)  # fmt: skip
_ONE: Final = ("sub_" + "0" * 19 + "1", "sub_" + "0" * 19 + "7")
_THINGS: Final = ("events", "deliveries", "dead-letters", "undelivered?outcome=waiting", "jobs")
"""Lists whose first thing has a page."""


async def page_addresses(client: httpx.AsyncClient) -> list[str]:
    """Return the addresses of all pages that are measured. ``client`` asks the hub for one thing of some lists."""
    things = []
    for path in _THINGS:
        asked = await client.get(f"/{path}{'&' if '?' in path else '?'}limit=1")
        [one] = asked.raise_for_status().json()["items"]
        kind = path.partition("?")[0].replace("undelivered", "deliveries")
        things.append(f"{kind}/{one.get('delivery_id') or one['id']}")
    return [*PAGES, *(page.format(one) for one in _ONE for page in _OF_ONE), *things]


@asynccontextmanager
async def running_server() -> AsyncIterator[str]:
    """Run the system's PostgreSQL with pg_stat_statements; yield the URL of a database for a hub."""
    with tempfile.TemporaryDirectory(prefix="hookwire-bench-") as folder:
        server = PostgresServer("console", Path(folder), system_bin_dir())
        await asyncio.to_thread(server.start)
        try:
            sql = await asyncpg.connect(server.url)
            await sql.execute("ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'")
            await sql.execute("ALTER SYSTEM SET max_wal_size = '8GB'")
            await sql.execute("CREATE DATABASE hookwire")
            await sql.close()
            await asyncio.to_thread(server.restart)
            yield server.url.removesuffix("postgres") + "hookwire"
        finally:
            await asyncio.to_thread(server.stop, "immediate")


async def fill(sql: asyncpg.Connection, rows: int) -> None:
    """Fill the tables of a hub that has just started."""
    await sql.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
    await sql.execute("SET session_replication_role = replica")
    for statement in _FILL:
        series = f"generate_series(1, {rows}) AS n"
        await sql.execute(statement.replace("ROWS", series).replace("COUNT", str(rows)), timeout=1800)
    await sql.execute("VACUUM ANALYZE", timeout=1800)


async def measure_pages(url: str, sql: asyncpg.Connection, rounds: int) -> None:
    """Ask for each page so often; print a line for each, then the longest statements. The first request of all is that
    of a process that has served no page yet.
    """
    await sql.execute("SELECT pg_stat_statements_reset()")
    async with httpx.AsyncClient(base_url=f"{url}/console/", trust_env=False, timeout=60) as client:
        began = time.perf_counter()
        await client.get("../console", headers={"Accept": "text/html"})
        first = (time.perf_counter() - began) * 1000
        print(
            f"the first page of a process: {first:.1f} ms  {'met' if first <= _TIME_BAR_MS else 'missed'}", flush=True
        )
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as api:
            addresses = await page_addresses(api)
        for address in addresses:
            times, size, status = [], 0, 0
            for _ in range(rounds):
                began = time.perf_counter()
                answer = await client.get(address, headers={"Accept": "text/html"}, follow_redirects=True)
                times.append((time.perf_counter() - began) * 1000)
                size, status = len(answer.content), answer.status_code
            p95 = sorted(times)[min(int(rounds * 0.95), rounds - 1)]
            word = "met" if p95 <= _TIME_BAR_MS and size <= _SIZE_BAR else "missed"
            spread = f"median {statistics.median(times):7.1f}  p95 {p95:7.1f} ms"
            print(f"{address:70} {status}  {spread}  {size:6,} B  {word}", flush=True)
    rows = await sql.fetch(
        "SELECT query, calls, max_exec_time AS max, mean_exec_time AS mean FROM pg_stat_statements s"
        " JOIN pg_database d ON d.oid = s.dbid AND d.datname = current_database()"
        " WHERE query NOT LIKE '%pg_stat_statements%' ORDER BY max_exec_time DESC LIMIT 12"
    )
    for row in rows:
        word = "met" if row["max"] <= _TIME_BAR_MS else "missed"
        spread = f"mean {row['mean']:7.1f}  max {row['max']:7.1f} ms"
        print(f"{_name(row['query']):40} {row['calls']:6} calls  {spread}  {word}")


async def measure_open(harness: Harness, sql: asyncpg.Connection, seconds: float) -> None:
    """Publish at the rate without a console, then with ten; print the share of the console's statements.

    Which statements are the console's is seen before, in a hub that is idle and in one that is only looked at.
    """
    async with running_sink() as sink:
        async with httpx.AsyncClient(base_url=harness.url, trust_env=False, timeout=60) as client:
            body = {"topic": "cost", "callback": f"http://127.0.0.1:{sink.port}/"}
            (await client.post("/subscriptions", json=body)).raise_for_status()
        idle = await _window(harness, sql, seconds, 0, 0)
        watched = await _window(harness, sql, seconds, 0, _CONSOLES)
        alone = await _window(harness, sql, seconds, _RATE, 0)
        beside = await _window(harness, sql, seconds, _RATE, _CONSOLES)
    own = {}
    for query, (calls, _) in watched.items():
        if calls > 2 * idle.get(query, (0, 0.0))[0] and query in beside:
            more = beside[query][0] - alone.get(query, (0, 0.0))[0]
            own[query] = max(0.0, beside[query][1] * more / beside[query][0])
    whole = sum(time for _, time in beside.values())
    share = sum(own.values()) / whole
    word = "met" if share <= _SHARE_BAR else "missed"
    print(
        f"ten consoles: {sum(own.values()):.0f} of {whole:.0f} ms of statements in {seconds:g} s, {share:.2%}  {word}"
    )
    for query, spent in sorted(own.items(), key=lambda one: -one[1])[:12]:
        print(f"  {_name(query):40} {beside[query][0]:6} calls  {spent:8.1f} ms")


async def _window(
    harness: Harness, sql: asyncpg.Connection, seconds: float, rate: int, consoles: int
) -> Mapping[str, tuple[int, float]]:
    """Return calls and milliseconds of each statement, with so many events a second and so many open consoles."""
    await sql.execute("SELECT pg_stat_statements_reset()")
    watchers = [asyncio.create_task(_watch(harness.url, n / consoles * _REFRESH_SECONDS)) for n in range(consoles)]
    try:
        await (offer(harness.port, rate, seconds) if rate else asyncio.sleep(seconds))
    finally:
        for watcher in watchers:
            watcher.cancel()
        await asyncio.gather(*watchers, return_exceptions=True)
    rows = await sql.fetch(
        "SELECT query, sum(calls)::bigint AS calls, sum(total_exec_time) AS ms FROM pg_stat_statements s"
        " JOIN pg_database d ON d.oid = s.dbid AND d.datname = current_database()"
        " WHERE query NOT LIKE '%pg_stat_statements%' GROUP BY query"
    )
    return {row["query"]: (row["calls"], row["ms"]) for row in rows}


async def _watch(url: str, after: float) -> None:
    """Ask for the first page as an open console does."""
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as client:
        await asyncio.sleep(after)
        while True:
            await client.get("/console", headers={"Hookwire-Refresh": "1"})
            await asyncio.sleep(_REFRESH_SECONDS)


def _plain(text: str) -> str:
    """Return a statement without its comments, in one line."""
    return " ".join(line.partition("--")[0].strip() for line in text.splitlines()).strip().rstrip(";")


_NAMES: Final = {_plain(text): name for name, text in STATEMENTS.items()}


def _name(query: str) -> str:
    """Return the name of a statement; of others the beginning."""
    text = _plain(query)
    return _NAMES.get(text, text[:40])


async def measure(rows: int, rounds: int, seconds: float) -> None:
    """Start everything, fill it, measure both parts."""
    async with running_server() as database_url, running_harness(database_url=database_url) as harness:
        sql = await asyncpg.connect(database_url, timeout=60)
        await fill(sql, rows)
        print(f"{rows:,} dead letters, {10 * rows:,} attempts, {rows:,} jobs; {rounds} rounds", flush=True)
        await measure_pages(harness.url, sql, rounds)
        await measure_open(harness, sql, seconds)
        await sql.close()


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.console", description=__doc__)
    parser.add_argument(
        "--rows", type=int, default=1_000_000, help="dead letters and jobs; attempts are ten times as many"
    )
    parser.add_argument("--rounds", type=int, default=20, help="how often each page is asked for")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long events are published, twice")
    arguments = parser.parse_args()
    asyncio.run(measure(arguments.rows, arguments.rounds, arguments.seconds))


if __name__ == "__main__":
    main()
