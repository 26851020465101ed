"""Work that fails again and again is told, though it always waits for its next try (GM-05)."""

from __future__ import annotations

from app.verdict.facts import read_facts
from app.verdict.judge import judge
from tests.app.conftest import opened

_FAILED = """
INSERT INTO hookwire.messages (id, queue, due_at, deliveries, created_at, headers, payload)
    VALUES (1, 'a', now() + interval '1 h', 3, now() - interval '1 h', '{}', 'x'),
           (2, 'delayed', now() + interval '1 h', 0, now() - interval '1 h', '{}', 'x'),
           (3, 'young', now() + interval '1 h', 2, now(), '{}', 'x'),
           (4, 'once', now() + interval '1 h', 1, now() - interval '1 h', '{}', 'x');
INSERT INTO hookwire.task_rows (id, kind, description, seq, due_at, attempts, created_at) OVERRIDING SYSTEM VALUE
    VALUES ('1', 'b', '', 1, now() + interval '1 h', 3, now() - interval '1 h'),
           ('2', 'delayed', '', 2, now() + interval '1 h', 0, now() - interval '1 h'),
           ('3', 'once', '', 3, now() + interval '1 h', 1, now() - interval '1 h');
INSERT INTO hookwire.jobs (seq, kind, state, args, rank_at, due_at, attempts, attempts_max, run_seconds, created_at)
    OVERRIDING SYSTEM VALUE SELECT n, 'c', 'retryable', '{}'::jsonb, now(), now() + interval '1 h', 3, 20, 60,
        now() - interval '1 h' FROM generate_series(1, 2) AS n
    UNION ALL SELECT 4, 'once', 'retryable', '{}'::jsonb, now(), now() + interval '1 h', 1, 20, 60,
        now() - interval '1 h'
    UNION ALL SELECT 3, 'snoozed', 'scheduled', '{}'::jsonb, now(), now() + interval '1 h', 3, 20, 60,
        now() - interval '1 h';
INSERT INTO hookwire.requests (id, number, service, state, deadline_at, expires_at, created_at, via, body, attempts)
    OVERRIDING SYSTEM VALUE VALUES (gen_random_uuid(), 1, 'd', 'delayed', now() + interval '1 h',
        now() + interval '2 h', now() - interval '1 h', 'http', 'x', 2),
        (gen_random_uuid(), 2, 'once', 'delayed', now() + interval '1 h',
        now() + interval '2 h', now() - interval '1 h', 'http', 'x', 1);
"""


async def test_work_whose_tries_fail_is_failing(database_url: str) -> None:
    """GM-05: a handler failed for hours, there was no part for its kind, and `hookwire status` ended with 0.

    One failure is no trouble: work that was planned long ago is old at its first try.
    """
    async with opened(database_url) as (database, sql):
        await sql.execute(_FAILED)
        parts = judge(await read_facts(database)).of("queue", "task", "job", "service")

    found = {(part.kind, part.name): (part.state, part.reason.partition(";")[0]) for part in parts}
    one = "1 failed twice or more, and waits for the next try, the oldest is 1 h old"
    assert found == {
        ("queue", "a"): ("failing", one), ("task", "b"): ("failing", one), ("service", "d"): ("failing", one),
        ("job", "c"): ("failing", "2 failed twice or more, and wait for the next try, the oldest is 1 h old"),
        ("queue", "young"): ("ok", "1 failed twice or more, and waits for the next try, the oldest is 0 s old"),
    }  # fmt: skip
