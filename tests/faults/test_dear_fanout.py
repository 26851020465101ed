"""Backlogs whose fan-out costs more than a statement may: bystanders do not wait for them (FC-02)."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import asyncpg
import pytest

from hub.filter import compile_filter
from tests.faults.harness import CALM, CLEAN, open_harness
from tests.faults.test_database import DUPLICATES_MAX, connected
from tests.waiting import until

_PULLED = """
INSERT INTO hookwire.subscriptions (public_id, protocol, topic, topic_regex, callback, state, filter_path)
SELECT 'sub_dear_' || n, 'pull', $1, CASE WHEN $2 <> '' THEN replace($2, '{n}', n::text) END, '', 'active',
       $3::text::jsonpath
FROM generate_series(1, $4::integer) n
"""
_OWED = "SELECT count(*) FROM hookwire.outbox o JOIN hookwire.events e USING (id) WHERE e.topic LIKE 'dear%'"
_OVERDUE_MAX = 24  # ten to find one event among a thousand, and some for what the machine is busy with


async def one_event_with_a_long_list(client: asyncpg.Connection) -> None:
    """A list of 520,000 items in a mebibyte, and 20 filters with 64 values each."""
    path = compile_filter({"data": {"list": {"$in": list(range(1_000, 1_064))}}})
    await client.execute(_PULLED, "dear", "", path, 20)
    payload = json.dumps({"list": [1] * 520_000}, separators=(",", ":")).encode()
    await client.execute("SELECT hookwire.publish('dear', $1::bytea)", payload)


async def many_large_events(client: asyncpg.Connection) -> None:
    """999 events of a mebibyte and one trivial filter."""
    await client.execute(_PULLED, "dear", "", '$."data"."never" == 1', 1)
    payload = json.dumps({"list": list(range(130_000))}, separators=(",", ":")).encode()
    sql = "SELECT hookwire.publish('dear', $1::bytea) FROM generate_series(1, 333)"
    for _ in range(3):
        await client.execute(sql, payload)


async def many_topics_and_patterns(client: asyncpg.Connection) -> None:
    """1,000 topics and 3,000 patterns."""
    await client.execute(_PULLED, "dear{n}.*", r"^dear{n}\.[^.]+$", None, 3_000)
    await client.execute("SELECT hookwire.publish('dear' || n || '.x', 'x'::text) FROM generate_series(1, 1000) n")


@pytest.mark.slow
@pytest.mark.timeout(900)  # twenty filters have their tries
@pytest.mark.parametrize(
    "backlog", [one_event_with_a_long_list, many_large_events, many_topics_and_patterns], ids=lambda made: made.__name__
)
async def test_a_backlog_that_is_dear_to_fan_out_holds_up_no_bystander(
    backlog: Callable[[asyncpg.Connection], Awaitable[None]], database_url: str, tmp_path: Path, seed: int
) -> None:
    """FC-02: I1 I7: the same batch ran into the same time-out for ever, and every topic waited."""
    settings = {"FAN_OUT_SECONDS_MAX": "2"}
    async with (
        connected(database_url) as client,
        open_harness(database_url, tmp_path, seed, processes=1, settings=settings, **CALM) as harness,
    ):
        harness.scenario.children[0].pause()
        await backlog(client)
        harness.scenario.children[0].resume()
        async with harness.scenario.load():
            await harness.receives("ordered", 20, 300)
            assert overdue(tmp_path) <= _OVERDUE_MAX
        await fanned_out(client)
        await drop(client)
        assert await harness.concluded(duplicates_max=DUPLICATES_MAX) == CLEAN


async def fanned_out(client: asyncpg.Connection) -> None:
    """Wait until the backlog is gone, or a hundred of its large events; a gibibyte of JSON would take minutes."""
    owed = await client.fetchval(_OWED)

    async def holds() -> object:
        return await client.fetchval(_OWED) <= max(owed - 100, 0)

    await until(holds, 600)


async def drop(client: asyncpg.Connection) -> None:
    """What is left of the backlog, and deliveries that nobody will pull."""
    await client.execute("DELETE FROM hookwire.outbox o USING hookwire.events e WHERE e.id = o.id AND e.topic = 'dear'")
    await client.execute(
        "DELETE FROM hookwire.deliveries d USING hookwire.subscriptions s WHERE s.id = d.subscription_id"
        " AND s.protocol = 'pull'"
    )


def overdue(folder: Path) -> int:
    """How many statements of the fan-out were cut short."""
    return sum(log.read_text(errors="replace").count("fan_out_overdue") for log in folder.glob("*.log"))
