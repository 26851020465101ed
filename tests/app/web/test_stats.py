"""Rates and times over HTTP, as commands and as pages, end to end (CN-10, CN-11)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from app.maintenance.rollups import Rollups
from db.pool import PoolOptions, open_database
from tests.app.conftest import ALL_ROLES, Receiver, RunHub, RunningHub
from tests.app.web.console.harness import Page, browsing
from tests.app.web.publishing.test_ingest import kind
from tests.app.web.test_authentication import authorized, bearer
from tests.app.web.test_replays import command


async def fold(hub: RunningHub) -> None:
    database = await open_database(PoolOptions(hub.database_url, connections_min=1, connections_max=2))
    await Rollups(database).fold()
    await database.aclose()


async def stats(hub: RunningHub, subscription: str, query: str = "") -> dict[str, Any]:
    answer = await hub.client.get(f"/subscriptions/{subscription}/stats{query}")
    return dict(answer.json()) | {"code": answer.status_code}


async def test_the_numbers_of_api_command_and_page_equal_those_of_the_attempts(
    running_hub: RunHub, receiver: Receiver
) -> None:
    """CN-08, CN-11: and the form of a pause has a forecast."""
    async with running_hub(ALL_ROLES) as hub, browsing(hub) as browser:
        one = (await hub.subscribe("a", receiver.callback, retry_schedule_seconds=[1]))["id"]
        other = (await hub.subscribe("b", receiver.callback))["id"]
        for number in range(5):
            await hub.publish("a", b"%d" % number)
        await hub.until(f"/deliveries?subscription_id={one}&state=delivered", lambda page: len(page["items"]) == 5)
        receiver.status = 503
        await hub.publish("a", b"lost")
        await hub.until("/dead-letters", lambda page: len(page["items"]) == 1)
        await fold(hub)
        [[attempts, delivered, shortest, longest]] = await hub.sql(
            "SELECT count(*), count(*) FILTER (WHERE decision = 'delivered'), min(total_seconds), max(total_seconds)"
            " FROM hookwire.attempts a JOIN hookwire.subscriptions s ON s.id = a.subscription_id WHERE s.topic = 'a'"
        )
        found, quiet = await stats(hub, one), await stats(hub, other)
        printed = await command(hub, "subscriptions", "stats", one, "--since", "2h")
        page = await browser.open(f"subscriptions/{one}")
        empty = await browser.open(f"subscriptions/{other}")
        pause, blind = [await browser.open(f"subscriptions/{each}/pause") for each in (one, other)]

        assert (attempts, delivered, len(receiver.delivered)) == (7, 5, 7)
        assert [found[name] for name in ("attempts", "delivered", "failed", "grain")] == [7, 5, 2, "minute"]
        assert sum(point["attempts"] for point in found["points"]) == 7
        assert shortest / 1.1 <= found["attempt_seconds"]["p50"] <= found["attempt_seconds"]["p99"] <= longest * 1.1
        assert (quiet["attempts"], quiet["success"], quiet["attempt_seconds"]["p50"]) == (0, None, None)
        assert "delivered  5, 71.4%" in printed.stdout
        assert ("7 in all" in page.text, "No attempt was made." in empty.text) == (True, True)
        assert "days by default: end the pause and replay before" in pause.text
        assert ("leaves out about" in pause.text, "it is unknown how much" in blind.text) == (True, True)


async def test_numbers_that_fall_behind_say_of_which_moment_they_are_and_are_exact_once_counted(
    running_hub: RunHub, receiver: Receiver
) -> None:
    """CN-11: a session holds the entries of half an hour, so no process can count them."""
    async with running_hub() as hub, browsing(hub) as browser:
        one = (await hub.subscribe("a", receiver.callback))["id"]
        holder = await asyncpg.connect(hub.database_url)
        try:
            async with holder.transaction():
                await holder.execute(
                    "INSERT INTO hookwire.attempt_entries (settled_at, subscription_ids, seconds, ages)"
                    " SELECT now() - n * interval '1 s', ARRAY[s.id, s.id], '{0.1, 0.2}', '{0.3, NULL}'"
                    " FROM hookwire.subscriptions s, generate_series(1, 1800) n"
                )
            async with holder.transaction():
                oldest = await holder.fetchval(
                    "SELECT min(x.settled_at) FROM (SELECT e.settled_at FROM hookwire.attempt_entries e FOR UPDATE) x"
                )
                await fold(hub)
                behind = await stats(hub, one)
                page = await browser.open(f"subscriptions/{one}")
        finally:
            await holder.close()
        await fold(hub)
        after = await stats(hub, one)

        assert (behind["attempts"], datetime.fromisoformat(behind["as_of"])) == (0, oldest)
        assert re.search(r"Counted up to 3\d min ago", Page(page.text).text) is not None
        assert [after[name] for name in ("attempts", "delivered")] == [3_600, 1_800]


@pytest.mark.parametrize(
    "query",
    [
        "?since=2026-01-15T10:00:00Z&until=2026-01-15T10:00:00Z", "?since=2020-01-01T00:00:00Z&grain=minute",
        "?since=2020-01-01T00:00:00Z&until=2020-01-01T01:00:00Z&grain=minute",
        "?until=0001-01-01T00:00:00Z", "?until=9999-12-31T23:59:59Z&grain=day", "?grain=week", "?since=yesterday",
        "?since=2026-01-15T10:00:00",
    ],
)  # fmt: skip
async def test_a_span_that_cannot_be_shown_is_refused(shared_hub: RunHub, receiver: Receiver, query: str) -> None:
    async with shared_hub() as hub:
        one = (await hub.subscribe("a", receiver.callback))["id"]
        answer = await hub.client.get(f"/subscriptions/{one}/stats{query}")
        assert (answer.status_code, kind(answer)[-1]) == (400, "invalid-parameter")


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("since=HOUR-01:00&until=HOUR+00:00&grain=minute", ("minute", 60)), ("since=LAST70d&until=LAST69d", ("day", 1)),
        ("since=LAST9d&until=LAST8d", ("hour", 24)),
    ],
)  # fmt: skip
async def test_a_span_of_whole_units_has_no_further_one_and_old_ones_a_grain_that_is_kept(
    running_hub: RunHub, receiver: Receiver, query: str, found: tuple[str, int]
) -> None:
    async with running_hub() as hub:
        one = (await hub.subscribe("a", receiver.callback))["id"]
        answer = (await hub.client.get(f"/subscriptions/{one}/stats?{moments(query)}")).json()
        length = datetime.fromisoformat(answer["until"]) - datetime.fromisoformat(answer["since"])
        units = {"minute": timedelta(minutes=1), "hour": timedelta(hours=1), "day": timedelta(days=1)}
        assert (answer["grain"], length / units[answer["grain"]]) == found


def moments(query: str) -> str:
    """The query with times: HOUR is a whole hour of today, LAST9d the midnight nine days ago."""
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    day = hour.replace(hour=0)
    query = query.replace("HOUR-01:00", (hour - timedelta(hours=1)).isoformat()).replace("HOUR+00:00", hour.isoformat())
    query = re.sub(r"LAST(\d+)d", lambda found: (day - timedelta(days=int(found[1]))).isoformat(), query)
    return query.replace("+00:00", "Z")


async def test_a_key_for_other_topics_sees_no_numbers(running_hub: RunHub, receiver: Receiver) -> None:
    async with running_hub(access="keys") as hub:
        hub.client.headers.update(authorized(await bearer(hub, "admin")))
        one = (await hub.subscribe("a", receiver.callback))["id"]
        theirs = authorized(await bearer(hub, "read", topics=["b"]))
        answer = await hub.client.get(f"/subscriptions/{one}/stats", headers=theirs)
        assert (answer.status_code, kind(answer)[-1]) == (404, "not-found")


_WORK = """
    INSERT INTO hookwire.queues (name, history) VALUES ('mail', true), ('brief', false);
    INSERT INTO hookwire.message_archive (id, queue, created_at, claimed_at, accepted_at, deliveries, priority, headers,
        payload)
    SELECT n, 'mail', t.made, t.begun, t.ended, 1, 0, '{}', '' FROM generate_series(1, 3) AS n, t;
    INSERT INTO hookwire.dead_messages (id, queue, created_at, died_at, deliveries, reason, priority, headers, payload)
    SELECT n, (ARRAY['mail', 'brief'])[n], t.made, t.ended, 5, 'r', 0, '{}', '' FROM generate_series(1, 2) AS n, t;
    INSERT INTO hookwire.job_archive (id, seq, kind, queue, state, args, key, priority, attempts, attempts_max,
        run_seconds, number, errors, created_at, claimed_at, ended_at)
    SELECT gen_random_uuid(), -n, 'ship', 'default', (ARRAY['completed', 'completed', 'discarded', 'cancelled'])[n],
           '{}', '', 0, 1, 5, 60, 0, '[]', t.made, t.begun, t.ended FROM generate_series(1, 4) AS n, t;
    INSERT INTO hookwire.task_archive (id, kind, description, outcome, created_at, start_time, finish_time, attempts)
    SELECT 'a', 'post', '', 'finished', t.made, t.begun, t.ended, 1 FROM t;
    INSERT INTO hookwire.task_kinds (kind, keeps_record) VALUES ('post', true);
    INSERT INTO hookwire.request_archive (id, service, state, via, attempts, created_at, answered_at, closed_at,
        closed_by, body_bytes)
    SELECT gen_random_uuid(), 'echo', state, 'http', 1, t.made, t.ended, t.ended, 'me', 0
    FROM unnest('{answered,expired}'::text[]) AS state, t
"""
"""Each took four seconds to run, and eight since it was made."""
_TIMES = (
    "(SELECT now() - interval '9 s' AS made, now() - interval '5 s' AS begun, now() - interval '1 s' AS ended) AS t"
)


async def test_queues_kinds_and_services_have_rates_and_times_from_their_archives(running_hub: RunHub) -> None:
    async with running_hub() as hub:
        for statement in _WORK.replace(", t;", f", {_TIMES};").replace("FROM t;", f"FROM {_TIMES};").split(";\n"):
            await hub.sql(statement.replace("AS state, t", f"AS state, {_TIMES}"))
        paths = ("queues/mail", "queues/brief", "job-kinds/ship", "task-kinds/post", "services/echo")
        found = [(await hub.client.get(f"/{path}/stats")).json() for path in paths]
        printed = [
            await command(hub, *line)
            for line in (
                ("queues", "stats", "mail"), ("queues", "stats", "brief"), ("jobs", "stats", "--kind", "ship"),
                ("tasks", "stats", "post"), ("services", "stats", "echo", "--since", "1d"),
            )
        ]  # fmt: skip

        assert [[one[name] for name in ("ended", "done", "failed", "success")] for one in found] == [
            [4, 3, 1, 0.75], [None, None, 1, None], [3, 2, 1, pytest.approx(2 / 3)], [1, 1, 0, 1.0], [2, 1, 1, 0.5],
        ]  # fmt: skip
        assert [one["age_seconds"]["p99"] for one in found] == [8.0, None, 8.0, 8.0, 8.0]
        assert [one["run_seconds"]["p50"] for one in found] == [4.0, None, 4.0, 4.0, None]
        assert [line.stdout.splitlines()[2][:17] for line in printed] == [
            "done       3, 75.", "given up   1", "done       2, 66.", "done       1, 100", "done       1, 50.",
        ]  # fmt: skip


async def test_a_topic_has_its_hours_and_what_its_sinks_got(running_hub: RunHub) -> None:
    async with running_hub() as hub:
        await hub.sql(
            """
            INSERT INTO hookwire.ledger (sink, tenant, topic, hour, bucket, owed_count, sent_count, dead_count)
            SELECT sink, 'default', 'a', date_trunc('hour', now(), 'UTC') - n * interval '1 h', part, 5, sent, 5 - sent
            FROM (VALUES ('', 0), ('kafka', 4)) s(sink, sent), generate_series(0, 1) n, generate_series(0, 3) part
            """
        )
        found = (await hub.client.get("/topics/a/stats")).json()
        printed = await command(hub, "topics", "stats", "a", "--since", "2d")
        answer = await hub.client.get("/topics/a/stats?since=2020-01-01T00:00:00Z")

        assert (found["accepted"], [point["accepted"] for point in found["points"]]) == (40, [20, 20])
        assert found["sinks"] == [{"sink": "kafka", "owed": 40, "sent": 32, "dead": 8}]
        assert "kafka      32 of 40 sent, 8 given up" in printed.stdout
        assert (answer.status_code, kind(answer)[-1]) == (400, "invalid-parameter")
