"""webhooks/incidents: failures are grouped as they are stored, and successes cost nothing."""

from __future__ import annotations

import asyncpg
import pytest

from tests.webhooks.harness import INCARNATION
from tests.webhooks.test_settlement import STARTED, SettlementHarness, settling
from webhooks.contents import Contents
from webhooks.incidents.known import OWN_MAX, KnownIncidents
from webhooks.outcome import Outcome
from webhooks.pull import Pull, PullReceipt
from webhooks.result import Result
from webhooks.retry import Decision

RETRY = Decision("retry", 100.0)
DEAD = Decision("dead", dead_kind="exhausted")


def failure(text: str, status: int = 500) -> Outcome:
    """An answer of a receiver that fails."""
    return Outcome("server_error", status, body=text.encode())


async def rows(on: SettlementHarness, statement: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in await on.harness.sql.fetch(statement)]


async def test_failures_of_one_cause_are_one_incident_and_successes_ask_for_none(database_url: str) -> None:
    """CN-03: a column of failing deliveries and dead letters; counts equal those of the attempts."""
    async with settling(database_url) as on:
        well, *_ = await on.claim(b"0")
        on.add(well)
        await on.until_settled(1)
        asked = on.database.passed["incident.note"]
        again, dead, other = await on.claim(b"1", b"2", b"3")
        on.add(again, RETRY, failure("down at 10:00:01"))
        await on.until_settled(2)
        on.add(dead, DEAD, failure("down at 10:00:02"))
        on.add(other, DEAD, failure("full"))
        await on.until_settled(4)
        found = await rows(on, "SELECT outcome, status, excerpt, kind FROM hookwire.incidents ORDER BY id")
        counted = await rows(
            on, "SELECT incident_id, sum(failures) FROM hookwire.incident_failures GROUP BY 1 ORDER BY 1"
        )
        marked = await rows(
            on,
            "SELECT incident_id, event_id FROM hookwire.deliveries"
            " UNION ALL SELECT incident_id, event_id FROM hookwire.dead_letters ORDER BY 2",
        )

        assert (asked, on.database.passed["incident.note"]) == (0, 2)
        assert found == [("server_error", 500, "down at TIME", "cause"), ("server_error", 500, "full", "cause")]
        assert (counted, [one for one, _ in marked]) == ([(1, 2), (2, 1)], [1, 1, 2])


async def test_a_receiver_with_another_text_each_time_makes_fifty_incidents_and_one_for_the_rest(
    database_url: str,
) -> None:
    """CN-03: the texts differ in words, so that nothing can be reduced."""
    async with settling(database_url) as on:
        claimed = await on.claim(*(b"%d" % number for number in range(80)))
        for number, one in enumerate(claimed):
            on.add(one, RETRY, failure("no " + "abcdefghij"[number % 10] * (1 + number // 10)))
        await on.until_settled(80)
        kinds = await rows(on, "SELECT kind, count(*) FROM hookwire.incidents GROUP BY 1 ORDER BY 1")
        others = await rows(
            on, "SELECT sum(f.failures) FROM hookwire.incident_failures f JOIN hookwire.incidents i"
            " ON i.id = f.incident_id WHERE i.kind = 'other'",
        )  # fmt: skip

        assert (kinds, others) == ([("cause", OWN_MAX), ("other", 1)], [(80 - OWN_MAX,)])


async def test_two_processes_never_pass_the_limit_together(database_url: str) -> None:
    """CN-03: one holds the turn of the subscription, and the other one waits for it."""
    async with settling(database_url) as on:
        other = await asyncpg.connect(database_url)
        note = "SELECT is_other FROM hookwire.note_incidents($1, $2, $3, $4, $5, $6, 1)"

        def asked(digest: str) -> list[object]:
            return [[on.subscription], [digest], ["timeout"], [None], [""], [1]]

        async with other.transaction():
            first = await other.fetchval(note, *asked("a"))
            await on.harness.sql.execute("SET lock_timeout = '100ms'")
            with pytest.raises(asyncpg.LockNotAvailableError):
                await on.harness.sql.fetchval(note, *asked("b"))
        second = await on.harness.sql.fetchval(note, *asked("b"))
        await other.close()

        assert (first, second) == (False, True)


async def test_a_fingerprint_beyond_the_limit_is_tried_again_after_a_minute(database_url: str) -> None:
    """CN-03: the incidents before it may be resolved by then. Until then no other unknown cause asks the database.

    A known cause is not asked for within the hour.
    """
    now = 0.0
    async with settling(database_url) as on:
        known = KnownIncidents(lambda: now)
        [claimed] = await on.claim(b"1")

        async def seen(text: str) -> int:
            result = Result(
                claimed["event_id"], on.subscription, claimed["fence"], 1, STARTED, failure(text), RETRY
            )  # fmt: skip
            await known.of(on.database, [result])  # type: ignore[arg-type]
            return on.database.passed["incident.note"]

        for number in range(OWN_MAX):
            await seen("x" * (number + 1) if number < 31 else "y" * (number - 30))
        before = await seen("beyond")
        again = [await seen("beyond"), await seen("also beyond"), await seen("x")]
        await on.harness.sql.execute("UPDATE hookwire.incidents SET state = 'resolved'")
        now = 61.0
        after = [await seen("beyond"), await seen("x")]
        kind = await on.harness.sql.fetchval("SELECT kind FROM hookwire.incidents WHERE excerpt = 'beyond'")

        assert (again, after, kind) == ([before] * 3, [before + 1] * 2, "cause")


async def test_a_refused_pull_is_grouped_by_its_reason(database_url: str) -> None:
    """CN-03: a subscriber that fetches names the reason itself."""
    async with settling(database_url) as on:
        [claimed] = await on.claim(b"1")
        pull = Pull(on.harness.database, Contents(on.harness.database, INCARNATION), "w")
        receipt = PullReceipt(claimed["event_id"], on.subscription, claimed["fence"])
        await pull.nack(on.subscription, [receipt], 10.0, "no such order 4711", dead=False)
        found = await rows(
            on, "SELECT i.outcome, i.excerpt, f.failures FROM hookwire.incidents i JOIN hookwire.incident_failures f"
            " ON f.incident_id = i.id",
        )  # fmt: skip

        assert found == [("rejected", "no such order N", 1)]


async def test_nothing_of_an_answer_is_stored_where_the_event_was_erased_meanwhile(database_url: str) -> None:
    """CN-03: neither the excerpt of an incident, nor what a probe in flight was answered."""
    async with settling(database_url) as on:
        gone, kept = [one["event_id"] for one in await on.claim(b"1", b"2")]
        await on.harness.sql.execute("UPDATE hookwire.events SET erased_at = now() WHERE id = $1", gone)
        three = [on.subscription] * 3, ["a", "b", "c"], ["timeout"] * 3, [None] * 3
        await on.database.fetch("incident.note", *three, ["1", "2", "3"], [gone, kept, kept + 1000], 50)
        for event in (gone, kept):
            await on.harness.database.execute(
                "incident.record_probe", "default", event, on.subscription, False, "probe", STARTED, "server_error",
                500, 0.1, 0.1, 0.1, "192.0.2.1", "why", '{"a": "b"}', b"body", "w",
            )  # fmt: skip
        excerpts = await rows(on, "SELECT excerpt FROM hookwire.incidents ORDER BY fingerprint")
        probes = await rows(
            on,
            "SELECT status, detail, response_headers IS NULL, response_body FROM hookwire.attempts"
            " WHERE decision = 'probe' ORDER BY event_id",
        )

        assert excerpts == [("",), ("2",), ("",)]
        assert probes == [(500, None, True, None), (500, "why", False, b"body")]
