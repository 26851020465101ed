"""What somebody alters in the database is named by the lake, which has the other side (GP-10)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from app.cli.pipeline.audit import _without_strangers
from db.statements import STATEMENTS
from pipeline.audit.inquiry import Cell, Finding, unexplained
from pipeline.audit.selftest import HOUR, SelftestRecord
from tests.app.maintenance.test_ledger import carry
from tests.pipeline.test_audit_command import archived, audit, events
from tests.pipeline.test_tampering import executed
from tests.relay.harness import relay_harness

__all__ = ["events"]


def test_events_altered_by_hand_are_named_by_the_lake(
    spark: SparkSession, lake_uri: str, events: Sequence[SelftestRecord], database_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """GP-10: six of twenty alterations were a cell without an id: payloads, headers, times, and several deleted."""
    monkeypatch.setenv("HOOKWIRE_RETENTION_DAYS", "0")
    archived(lake_uri, events)
    by_bucket: dict[int, list[SelftestRecord]] = {}
    for event in events:
        by_bucket.setdefault(event.number & 3, []).append(event)
    (paid, retimed), (headed, rekeyed), deleted, (one, other) = (by_bucket[bucket] for bucket in range(4))

    async def by_hand() -> None:
        for change, event in (
            ("payload = 'forged'", paid),
            ("accepted_at = accepted_at + interval '1 second'", retimed),
            ('headers = \'{"x-forged": "1"}\'', headed),
            ("key = 'forged'", rekeyed),
            ("payload = 'of the other'", one),
            ("payload = 'of one'", other),
        ):
            await executed(database_url, f"UPDATE hookwire.events SET {change} WHERE id = $1", event.number)
        for event in deleted:
            await executed(database_url, "DELETE FROM hookwire.events WHERE id = $1", event.number)

    asyncio.run(by_hand())
    code, report = audit(lake_uri)
    named = {(found["fault"], found["count"], tuple(found["examples"])) for found in report["findings"]}
    cells = [("rewritten", (paid, retimed)), ("rewritten", (headed, rekeyed)), ("deleted", deleted),
             ("rewritten", (one, other))]  # fmt: skip
    assert (code, named) == (1, {(fault, 2, tuple(event.event_id for event in pair)) for fault, pair in cells})


def test_a_ledger_that_was_altered_accuses_neither_lake_nor_database(
    spark: SparkSession, lake_uri: str, events: Sequence[SelftestRecord], database_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """GP-10: a deleted row of the ledger called every record of the lake a phantom; an altered sum named nothing."""
    monkeypatch.setenv("HOOKWIRE_RETENTION_DAYS", "0")
    archived(lake_uri, events)

    async def by_hand() -> None:
        await executed(database_url, "DELETE FROM hookwire.ledger WHERE sink = 'kafka' AND bucket = 0")
        for sink, bucket in (("kafka", 1), ("", 2)):
            alter = "UPDATE hookwire.ledger SET owed_content = owed_content + 1 WHERE sink = $1 AND bucket = $2"
            await executed(database_url, alter, sink, bucket)

    asyncio.run(by_hand())
    code, report = audit(lake_uri)
    named = {(found["fault"], found["count"], *found["examples"]) for found in report["findings"]}
    assert (code, named) == (
        1,
        {
            ("uncounted", 2, "the ledger has no row of sink kafka, bucket 0"),
            ("miscounted", 1, "the ledger's row of sink kafka, bucket 1"),
            ("miscounted", 1, "the ledger's row of all events, bucket 2, differs from database and lake"),
        },
    )


def test_a_database_of_another_name_is_one_sentence(
    spark: SparkSession, lake_uri: str, events: Sequence[SelftestRecord], database_url: str
) -> None:
    """Each event was lost and each record a phantom, and nobody said why."""
    archived(lake_uri, events)
    asyncio.run(executed(database_url, "UPDATE hookwire.installation SET incarnation = 'zzzzzzzz'"))
    code, report = audit(lake_uri)
    [said] = report["lake"]
    name = events[0].incarnation
    assert (code, report["findings"]) == (1, [])
    assert f"every record in these hours is of another installation, {name}, and this database is zzzzzzzz" in said


class OtherRecords:
    """Stands for an audit whose records are all of one other installation, or of several."""

    def __init__(self, name: str | None) -> None:
        self._name = name

    def other_installation(self) -> str | None:
        return self._name


@pytest.mark.parametrize(
    ("name", "records", "explained"),
    [("zzzzzzzz", 2, {"lost", "phantom"}), ("zzzzzzzz", 1, set()), (None, 2, set())],
    ids=["as many", "fewer", "of several"],
)
def test_another_installation_explains_what_is_lost_only_if_no_record_is_missing(
    name: str | None, records: int, explained: set[str]
) -> None:
    """Whoever forged every id could delete a record unseen."""
    owed = Cell("orders", HOUR, 0, 2, 1, 2, 0, 0, 0, 0, is_equal=False, has_contents=None)
    theirs = replace(owed, bucket=None, owed=0, owed_low=None, owed_high=None, records=records)
    findings = [Finding(fault, "orders", HOUR, 2, []) for fault in ("lost", "phantom", "altered")]
    audit: Any = OtherRecords(name)
    said, left = _without_strangers(audit, "abcd2345", [owed, theirs], findings)
    assert ({one.fault for one in findings if one not in left}, len(said)) == (explained, int(name is not None))


@pytest.mark.slow
def test_a_lost_event_is_named_beside_another_installation_and_a_name_of_before_is_none(
    spark: SparkSession, lake_uri: str, events: Sequence[SelftestRecord], database_url: str
) -> None:
    """Whoever forged every id could delete a record unseen; and a restored hub's own name was another's."""
    archived(lake_uri, events[1:])
    asyncio.run(executed(database_url, "UPDATE hookwire.installation SET incarnation = 'zzzzzzzz'"))
    code, report = audit(lake_uri)
    faults = {found["fault"]: found["count"] for found in report["findings"]}
    assert (code, len(report["lake"]), faults) == (1, 1, {"lost": 8, "phantom": 7})

    before = "INSERT INTO hookwire.former_incarnations (through_id, incarnation) VALUES (1, $1)"
    asyncio.run(executed(database_url, before, events[0].incarnation))
    code, report = audit(lake_uri)
    faults = {found["fault"]: found["count"] for found in report["findings"]}
    assert (code, report["lake"], faults) == (1, [], {"lost": 8, "phantom": 7})


def test_an_event_that_was_moved_by_hand_is_named_on_both_sides(
    spark: SparkSession, lake_uri: str, events: Sequence[SelftestRecord], database_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """GP-10: to another hour, and to another topic; the lake has where it was."""
    monkeypatch.setenv("HOOKWIRE_RETENTION_DAYS", "0")
    archived(lake_uri, events)
    for change, event in zip(
        ("accepted_at = accepted_at + interval '1 hour'", "topic = 'carts'"), events, strict=False
    ):
        asyncio.run(executed(database_url, f"UPDATE hookwire.events SET {change} WHERE id = $1", event.number))
    code, report = audit(lake_uri)
    named = {(found["fault"], found["topic"], found["hour"][11:13], *found["examples"]) for found in report["findings"]}
    retimed, moved = (event.event_id for event in events[:2])
    assert (code, named) == (
        1, {("deleted", "orders", "09", retimed), ("inserted", "orders", "10", retimed),
            ("deleted", "orders", "09", moved), ("inserted", "carts", "09", moved)},
    )  # fmt: skip


def test_a_sum_that_neither_side_has_is_the_ledgers_fault() -> None:
    """GP-10: ids and number agree, and so does each event."""
    cell = Cell("orders", HOUR, 2, 1, 2, 2, 1, 0, 0, 0, is_equal=True, has_contents=False)
    found = unexplained([cell], [], set())
    assert found == [Finding("miscounted", "orders", HOUR, 1, ["the ledger's row of sink kafka, bucket 2"])]


ATTEMPTS = """
INSERT INTO hookwire.subscriptions (id, public_id, protocol, topic, callback, state) OVERRIDING SYSTEM VALUE
VALUES (1, 'sub_1', 'webhook', 'orders', '', 'active');
INSERT INTO hookwire.attempts (event_id, subscription_id, started_at, number, total_seconds, tenant, outcome, decision,
                               trigger, worker, status)
SELECT e.id, 1, now(), n, 0.1, 'default', a.outcome, a.decision, 'first', 'w', a.status
FROM (SELECT id, row_number() OVER (ORDER BY id) AS place FROM hookwire.events) AS e
JOIN (VALUES (1, 1, 'delivered', 'delivered', 500), (2, 1, 'server_error', 'delivered', 500),
             (3, 1, 'server_error', 'retry', 204), (4, 1, 'delivered', 'delivered', 204), (4, 2, 'gone', 'dead', 410),
             (4, 3, 'throttled', 'retry', 503), (5, 1, 'timeout', 'retry', NULL), (5, 2, 'throttled', 'retry', 502))
    AS a(place, n, outcome, decision, status) ON a.place = e.place;
"""


async def test_an_attempt_whose_status_means_something_else_is_contradictory(database_url: str) -> None:
    """GP-10: a status 204 that was made 500 was silent."""
    async with relay_harness(database_url) as harness:
        ids = await carry(harness, *"abcdef")
        await harness.connection.execute(ATTEMPTS)
        hour = await harness.connection.fetchval("SELECT date_trunc('hour', accepted_at, 'UTC') FROM hookwire.events")
        rows = await harness.connection.fetch(STATEMENTS["lake.contradictory"], hour, 0, 2**62, 10)
    assert [(row["subscription"], row["count"], row["ids"]) for row in rows] == [("sub_1", 4, ids[:4])]
