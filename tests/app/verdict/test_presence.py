"""A process reports its sinks and sources, and others see how they are and since when (GU-01)."""

from __future__ import annotations

from app.verdict.current_verdict import CurrentVerdict
from app.verdict.facts import read_facts
from app.verdict.presence import Presence, StateReport
from tests.app.conftest import opened
from tests.webhooks.harness import Gated

LEADING = StateReport("sink", "kafka", "leading", "")
DOWN = StateReport("sink", "kafka", "backing off", "no broker answers")


async def test_the_time_of_a_state_stays_while_the_state_does(database_url: str) -> None:
    """GU-01."""
    reports, seen = [LEADING], []
    async with opened(database_url) as (database, _):
        presence = Presence(database, "a-1", lambda: reports)
        for reports[0] in (LEADING, DOWN, DOWN._replace(reason="it is still away"), LEADING):
            await presence.once()
            (row,) = (await read_facts(database)).processes
            seen.append((row["state"], row["reason"], row["since"]))
    since = [moment for *_, moment in seen]
    assert [(state, reason) for state, reason, _ in seen] == [
        ("leading", ""), ("backing off", "no broker answers"), ("backing off", "it is still away"), ("leading", ""),
    ]  # fmt: skip
    assert (since[1] == since[2], since[0] < since[1] < since[3]) == (True, True)


async def test_a_verdict_from_before_the_first_report_is_not_kept(database_url: str) -> None:
    """For five seconds after a start, /readyz said trouble: no relay was known when it was asked first."""
    async with opened(database_url) as (database, _):
        leading = [StateReport("sink", name, "leading", "") for name in ("webhooks", "jobs")]
        current, kept = CurrentVerdict(database, 3600, 0, 3600, 0), []
        presence = Presence(database, "a-1", lambda: leading, current.expire)
        for _ in range(3):
            kept.append(await current.get_older())
            await presence.once()
    assert [found.word for found in kept if found is not None] == ["trouble", "ok", "ok"]
    assert kept[1] is kept[2]


async def test_states_that_stay_are_written_seldom(database_url: str) -> None:
    """GU-01: an idle process costs one statement in five seconds."""
    async with opened(database_url) as (database, _):
        gated = Gated(database)
        presence = Presence(gated, "a-1", lambda: [LEADING])
        for _ in range(5):
            await presence.once()
        await Presence(gated, "b-1", list).once()
    assert gated.passed["verdict.report"] == 1


async def test_a_queue_and_a_topic_of_one_name_are_one_report_and_trouble_counts_more(database_url: str) -> None:
    """The statement failed at each beat, and no state of the process was written."""
    good = StateReport("source", "orders", "reading", "")
    bad = StateReport("source", "orders", "backing off", "no broker answers")
    async with opened(database_url) as (database, _):
        await Presence(database, "a-1", lambda: [LEADING, good, bad, good]).once()
        found = [(row["name"], row["reason"]) for row in (await read_facts(database)).processes]
    assert found == [("kafka", ""), ("orders", "no broker answers")]


async def test_a_source_that_a_process_has_no_more_is_forgotten_at_its_next_report(database_url: str) -> None:
    """A deleted topic of a pattern counted as one whose process is gone, until the process was restarted."""
    topic = StateReport("source", "shop-a", "reading", "")
    async with opened(database_url) as (database, _):
        reports = [LEADING, topic]
        presence = Presence(database, "a-1", lambda: reports)
        await Presence(database, "b-1", lambda: [topic]).once()
        await presence.once()
        reports.remove(topic)
        await presence.once()
        found = [(row["process"], row["name"]) for row in (await read_facts(database)).processes]
    assert found == [("a-1", "kafka"), ("b-1", "shop-a")]


async def test_a_deleted_topic_of_a_pattern_is_forgotten_after_a_restart_too(database_url: str) -> None:
    """The process before had left a row of it, which stayed because nobody read that topic an hour later."""
    topic = StateReport("source", "shop-a", "reading", "")
    async with opened(database_url) as (database, sql):
        await Presence(database, "before-1", lambda: [topic]).once()
        await sql.execute("UPDATE hookwire.process_states SET until = now()")
        reports = [topic]
        presence = Presence(database, "after-1", lambda: reports)
        await presence.once()
        reports.clear()
        await presence.once()
        found = [(row["process"], row["name"]) for row in (await read_facts(database)).processes]
    assert found == []


async def test_a_source_that_nobody_reads_stays_until_it_is_read_again_or_forgotten(database_url: str) -> None:
    """GU-01: a clean stop deleted its row at once, and a killed process's row went after an hour: the hub was green."""
    topics = [StateReport("source", name, "reading", "") for name in ("shop_a", "shop_b", "mail/50%")]
    async with opened(database_url) as (database, sql):
        await Presence(database, "killed-1", lambda: topics[:1]).once()
        stopped = Presence(database, "stopped-1", lambda: [LEADING, *topics])
        await stopped.once()
        stopped.stop()
        await stopped.run()
        await sql.execute("UPDATE hookwire.process_states SET until = now() - interval '2 days'")
        await Presence(database, "alive-1", lambda: [LEADING]).once()
        unread = [(row["name"], row["state"]) for row in (await read_facts(database)).processes if not row["is_alive"]]
        reader = Presence(database, "alive-2", lambda: topics[:1])
        await reader.once()
        left = [(row["process"], row["name"]) for row in (await read_facts(database)).processes]
        forgotten = [await database.fetchval("verdict.forget", name, "ada", None) for name in ("s*", "mail/50%", "a%")]
        rest = [(row["process"], row["name"]) for row in (await read_facts(database)).processes]
        audited = await sql.fetch("SELECT action, subject FROM hookwire.audit ORDER BY id")
    assert unread == [("mail/50%", "left"), ("shop_a", "reading"), ("shop_a", "left"), ("shop_b", "left")]
    assert left == [
        ("alive-1", "kafka"), ("alive-2", "shop_a"), ("stopped-1", "mail/50%"), ("stopped-1", "shop_b"),
    ]  # fmt: skip
    assert (forgotten, rest) == ([1, 1, 0], [("alive-1", "kafka"), ("alive-2", "shop_a")])
    assert [tuple(row) for row in audited] == [("source.forget", "shop_b"), ("source.forget", "mail/50%")]


async def test_a_process_that_stops_takes_its_reports_along(database_url: str) -> None:
    """GU-01: and one that is killed counts as gone after a while; it is forgotten after an hour."""
    async with opened(database_url) as (database, sql):
        for name in ("killed-1", "long-gone-1"):
            await Presence(database, name, lambda: [LEADING]).once()
        presence = Presence(database, "stopped-1", lambda: [LEADING])
        presence.stop()
        await presence.run()
        await sql.execute(
            "UPDATE hookwire.process_states SET until = now() - CASE process WHEN 'killed-1' THEN interval '1 min'"
            " ELSE interval '2 hours' END"
        )
        await Presence(database, "alive-1", lambda: [LEADING]).once()
        found = {row["process"]: row["is_alive"] for row in (await read_facts(database)).processes}
    assert found == {"killed-1": False, "alive-1": True}
