"""Lists and look-ups of the console read their rows by an index, however many others there are."""

from __future__ import annotations

from typing import Any

import asyncpg

from db.pool import PoolOptions
from tests.db.test_verdict_reads import Counted

_JOBS = """
INSERT INTO hookwire.jobs (seq, kind, state, for_people, assignee, args, rank_at, attempts_max, run_seconds, created_at)
    OVERRIDING SYSTEM VALUE
    SELECT n, 'k', CASE WHEN n > 60 THEN 'available' ELSE (ARRAY['available', 'assigned', 'review'])[1 + n % 3] END,
           n <= 60 AND n % 3 = 0, CASE WHEN n <= 60 AND n % 3 = 1 THEN 'ada' END, '{}', now(), 5, 60, now()
    FROM generate_series(1, 10000) AS n
"""
"""Twenty jobs of each list, older than all the others."""
_ENDED = """
INSERT INTO hookwire.job_archive (id, seq, kind, queue, state, assignee, args, key, priority, attempts, attempts_max,
                                  run_seconds, number, errors, created_at, ended_at)
    SELECT gen_random_uuid(), 10000 + n, 'k', 'default', 'completed', 'bob', '{}', '', 0, 1, 5, 60, 1, '[]', now(),
           now()
    FROM generate_series(1, 10000) AS n
"""
_READ_MAX = 100


_LISTS = {"my work": ("assigned", "ada", None), "pool": (None, None, True), "review": ("review", None, None)}


async def test_a_list_of_people_reads_its_own_rows_alone(database_url: str) -> None:
    """CN-10: state, assignee and pool of each list."""
    settings: dict[str, Any] = PoolOptions(database_url).server_settings()
    connection = await asyncpg.connect(database_url, server_settings=settings)
    await connection.execute(f"{_JOBS}; {_ENDED}; ANALYZE hookwire.jobs, hookwire.job_archive")
    await connection.execute("SET plan_cache_mode = force_custom_plan")
    counted, rows, dear = Counted(connection), {}, {}
    for name, (state, person, pool) in _LISTS.items():
        found = await counted.fetch("job.list", 2**63 - 1, state, None, person, pool, None, None, 41, 10**7)
        rows[name] = len(found)
        dear[name] = {one: number for one, number in counted.read["job.list"].items() if number > _READ_MAX}
    await connection.close(timeout=2)

    assert (rows, list(dear.values())) == (dict.fromkeys(_LISTS, 20), [{}, {}, {}])


async def test_the_subscriptions_of_a_host_are_looked_up_by_their_index(database_url: str) -> None:
    """CN-06: among 10,000 others, in any case of letters, with a final dot, and where one host has two spellings."""
    settings: dict[str, Any] = PoolOptions(database_url).server_settings()
    connection = await asyncpg.connect(database_url, server_settings=settings)
    await connection.execute(
        "INSERT INTO hookwire.subscriptions (public_id, protocol, topic, callback, state)"
        " SELECT 'sub_' || n, 'webhook', 'a', CASE n WHEN 9998 THEN 'https://xn--bcher-kva.example/'"
        " WHEN 9999 THEN 'https://me@Shop.Example:8443?a@b' WHEN 10000 THEN 'https://SHOP.example.'"
        " ELSE 'https://b' || n % 7 || '.example/shop.example' END, 'active' FROM generate_series(1, 10000) AS n"
    )
    await connection.execute("SET plan_cache_mode = force_custom_plan")
    counted = Counted(connection)
    asked = ("subscription.list", "default", 0, None, None, 41, 10**7, None, None)
    found = []
    for spellings in (("shop.example", None), (None, ["bücher.example", "xn--bcher-kva.example"])):
        rows = await counted.fetch(*asked, *spellings)
        dear = {one: number for one, number in counted.read["subscription.list"].items() if number > _READ_MAX}
        found.append(([row["public_id"] for row in rows], dear))
    await connection.close(timeout=2)

    assert found == [(["sub_9999", "sub_10000"], {}), (["sub_9998"], {})]
