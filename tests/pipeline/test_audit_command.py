"""`hookwire pipeline audit` against a real ledger and a lake on disk (PL-A02..A09)."""

import asyncio
import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from app.cli.main import application
from db.statements import STATEMENTS
from pipeline.audit.selftest import SelftestRecord
from pipeline.lake import bronze
from pipeline.runs import runs
from pipeline.storage import LakeStorage
from scripts.servers.kafka import KafkaServer
from tests.app.maintenance.test_ledger import carry, close_hours
from tests.pipeline.broker import make, record_of, write
from tests.pipeline.foreign import batch, row_of
from tests.relay.harness import relay_harness

KEYS = "abcdefgh"
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "audit.md"


@pytest.fixture
def events(database_url: str, monkeypatch: pytest.MonkeyPatch) -> list[SelftestRecord]:
    """Eight events of a closed hour, accepted and carried, as they should be in the lake."""

    async def prepared() -> tuple[str, list[int]]:
        async with relay_harness(database_url) as harness:
            ids = await carry(harness, *KEYS)
            await close_hours(harness)
            return await harness.connection.fetchval("SELECT incarnation FROM hookwire.installation"), ids

    monkeypatch.setenv("HOOKWIRE_DATABASE_URL", database_url)
    incarnation, ids = asyncio.run(prepared())
    return [SelftestRecord(n, key, b"x", n, incarnation=incarnation) for n, key in zip(ids, KEYS, strict=True)]


def archived(lake_uri: str, records: Sequence[SelftestRecord]) -> None:
    """A batch of the archive, without a job of Spark's."""
    batch(bronze(LakeStorage(lake_uri)), *map(row_of, records))


def audit(lake_uri: str, *options: str) -> tuple[int, Any]:
    """Exit code and report."""
    words = ["pipeline", "audit", "--lake", lake_uri, "--json", *options]
    done = CliRunner().invoke(application("pipeline"), words, catch_exceptions=False)
    return done.exit_code, json.loads(done.stdout)


def test_a_whole_lake_is_clean(spark: SparkSession, lake_uri: str, events: list[SelftestRecord]) -> None:
    """PL-A04, PL-A09: ledger, lake and, by --contents, every payload agree."""
    archived(lake_uri, events)
    code, report = audit(lake_uri, "--contents")
    found = {name: report[name] for name in ("records", "unequal", "unjudged", "findings", "count")}
    assert (code, found) == (0, {"records": 8, "unequal": 0, "unjudged": [], "findings": [], "count": 0})
    assert [(run.job, run.state, run.counts["records"]) for run in runs(LakeStorage(lake_uri))] == [
        ("audit", "done", 8)
    ]


def test_what_leaves_the_outbox_while_kafka_is_read_is_not_lost(
    spark: SparkSession, lake_uri: str, events: list[SelftestRecord], database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GU-21: the audit saw no record of it in Kafka, where it was not yet, and then no row in the outbox."""
    archived(lake_uri, events[1:])
    owe = "INSERT INTO hookwire.outbox (id, layout, shard, sink) VALUES ($1, 1, 0, 'kafka')"
    asyncio.run(_execute(database_url, owe, events[0].number))

    def relayed_behind_our_back(*_: object) -> int:
        asyncio.run(_execute(database_url, "DELETE FROM hookwire.outbox WHERE id = $1", events[0].number))
        return 0

    monkeypatch.setattr("app.cli.pipeline.audit._add_unarchived", relayed_behind_our_back)
    _, report = audit(lake_uri)
    assert (report["unequal"], report["findings"]) == (1, [])


async def _execute(database_url: str, statement: str, *values: object) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute(statement, *values)
    finally:
        await connection.close()


def test_what_is_missing_doubled_and_out_of_order_is_named(
    spark: SparkSession, lake_uri: str, events: list[SelftestRecord]
) -> None:
    """PL-05, PL-A08, PL-A09: each by its event id, and the exit code is 1."""
    last = events[-1].number
    twice, swapped = replace(events[1], offset=last + 1), replace(events[2], key="d", offset=last + 2)
    archived(lake_uri, [events[1], *events[3:], twice, swapped])
    code, report = audit(lake_uri)
    assert code == 1
    assert {(f["fault"], tuple(f["examples"])) for f in report["findings"]} == {
        ("lost", (events[0].event_id,)),
        ("duplicated", (events[1].event_id,)),
        ("reordered", (events[2].event_id,)),
        ("altered", (events[2].event_id,)),
    }


def test_each_fault_that_is_planted_is_named_and_taken_back(
    spark: SparkSession, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PL-A11, PL-T05: one of each, and a clean lake has none; the database is as it was. The page has the command."""
    monkeypatch.setenv("HOOKWIRE_DATABASE_URL", database_url)
    [line] = re.findall(r"^```sh\nhookwire (.*)\n```$", PAGE.read_text(), re.MULTILINE)

    async def planted() -> int:
        connection = await asyncpg.connect(database_url)
        tables = ("subscriptions", "events", "deliveries")
        counts = [await connection.fetchval(f"SELECT count(*) FROM hookwire.{table}") for table in tables]
        await connection.close()
        return sum(counts)

    done = CliRunner().invoke(application("pipeline"), shlex.split(line), catch_exceptions=False)
    verdicts = dict(re.findall(r"^(.+?) +(found|NOT FOUND)$", done.stdout, re.MULTILINE))
    faults = {"lost", "phantom", "altered", "duplicated", "reordered", "stale term", "late", "unaccounted"}
    assert (done.exit_code, set(verdicts.values()), asyncio.run(planted())) == (0, {"found"}, 0), done.stdout
    assert set(verdicts) == {*faults, "clean", "nothing else"}


def test_an_empty_lake_is_no_clean_lake(spark: SparkSession, lake_uri: str, events: list[SelftestRecord]) -> None:
    code, report = audit(lake_uri, "--examples", "8")
    (found,) = report["findings"]
    assert (code, found["fault"], found["examples"]) == (1, "lost", sorted(event.event_id for event in events))


def test_what_is_not_archived_yet_is_not_lost(
    kafka: KafkaServer, topic: str, spark: SparkSession, lake_uri: str, events: list[SelftestRecord],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """PL-A06: an audit asks Kafka how far the archive has come, and reads what lies behind it."""
    monkeypatch.setenv("HOOKWIRE_KAFKA_BOOTSTRAP_SERVERS", kafka.bootstrap)
    monkeypatch.setenv("HOOKWIRE_KAFKA_TOPIC_PREFIX", f"{topic}-")
    make(kafka, f"{topic}-orders")
    write(kafka, f"{topic}-orders", [record_of(event) for event in events[1:]])
    code, report = audit(lake_uri)
    assert (code, report["unarchived"], [(f["fault"], f["examples"]) for f in report["findings"]]) == (
        1, 8, [("lost", [events[0].event_id])],
    )  # fmt: skip


OWED_TO_A_WEBHOOK = """
UPDATE hookwire.events SET sinks = '{kafka,webhooks}';
INSERT INTO hookwire.ledger
SELECT 'webhooks', tenant, topic, hour, bucket, owed_count, owed_sum, owed_min, owed_max, sent_count, dead_count,
       settled_sum, settled_min, settled_max, owed_content, content_count
FROM hookwire.ledger WHERE sink = 'kafka';
INSERT INTO hookwire.subscriptions (id, public_id, protocol, topic, callback, state, created_at, updated_at)
OVERRIDING SYSTEM VALUE
SELECT n, 'sub_' || n, protocol, 'orders', 'https://a.example/', 'active', at, at
FROM (VALUES (1, '2026-01-01'::timestamptz, 'webhook'), (2, now(), 'webhook'), (3, '2026-01-01', 'pull'),
             (4, '2026-01-01', 'pull')) AS s(n, at, protocol);
WITH q AS (
    INSERT INTO hookwire.rabbithub_resources (vhost, kind, name, source) VALUES ('/', 'q', 'q', 3) RETURNING id
)
INSERT INTO hookwire.rabbithub_subscriptions (subscription_id, resource_id, hub_topic, lease_seconds, queue_id)
SELECT 4, id, '#', 0, id FROM q;
INSERT INTO hookwire.attempts (event_id, subscription_id, started_at, number, total_seconds, tenant, outcome, decision,
                               trigger, worker)
SELECT id, 1, accepted_at + CASE place WHEN 1 THEN interval '2 hours' ELSE '1 second' END, 1, 0.1, 'default', 'x',
       CASE place WHEN 7 THEN 'retry' ELSE 'delivered' END, 'first', 'w'
FROM (SELECT id, accepted_at, row_number() OVER (ORDER BY id) AS place FROM hookwire.events) AS e WHERE place < 8;
INSERT INTO hookwire.deliveries (event_id, subscription_id, due_at, created_at, tenant)
SELECT id, 1, now(), now(), 'default' FROM hookwire.events ORDER BY id OFFSET 6 LIMIT 1;
"""


async def test_who_takes_events_at_a_pace_of_their_own_is_never_late(database_url: str) -> None:
    """PL-A08: a pull subscription and a consumer of a RabbitHub queue ask when they like; an exchange pushes."""
    async with relay_harness(database_url) as harness:
        await carry(harness, "a")
        await harness.connection.execute(TAKEN_LATER)
        hour = await harness.connection.fetchval("SELECT date_trunc('hour', accepted_at, 'UTC') FROM hookwire.events")
        rows = await harness.connection.fetch(STATEMENTS["lake.late"], hour, 0, 2**62, 10, 60.0)
        assert [row["subscription"] for row in rows] == ["sub_1", "sub_4"]


TAKEN_LATER = """
INSERT INTO hookwire.subscriptions (id, public_id, protocol, topic, callback, state) OVERRIDING SYSTEM VALUE
VALUES (1, 'sub_1', 'webhook', 't', '', 'active'), (2, 'sub_2', 'pull', 't', '', 'active'),
       (3, 'sub_3', 'rabbithub', 't', '', 'active'), (4, 'sub_4', 'rabbithub', 't', '', 'active');
WITH resources AS (
    INSERT INTO hookwire.rabbithub_resources (vhost, kind, name, source, exchange_type)
    VALUES ('/', 'q', 'q', 2, NULL), ('/', 'x', 'x', NULL, 'fanout') RETURNING id, kind
)
INSERT INTO hookwire.rabbithub_subscriptions (subscription_id, resource_id, hub_topic, lease_seconds)
SELECT CASE kind WHEN 'q' THEN 3 ELSE 4 END, id, '#', 60 FROM resources;
INSERT INTO hookwire.attempts (event_id, subscription_id, started_at, number, total_seconds, tenant, outcome, decision,
                               trigger, worker)
SELECT e.id, s.id, e.accepted_at + interval '2 hours', 1, 0.1, 'default', 'x', 'delivered', 'first', 'w'
FROM hookwire.events e, hookwire.subscriptions s;
"""


def test_each_event_is_accounted_for_at_each_webhook(
    spark: SparkSession, lake_uri: str, events: list[SelftestRecord], database_url: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """PL-A08, 11.2: neither delivered, nor open, nor dead is named, and what came late; changed since is not judged,
    nor are RabbitHub's queues and bindings (3, 4): what they get moves on."""
    monkeypatch.setenv("HOOKWIRE_RETENTION_DAYS", "0")

    async def owed() -> None:
        connection = await asyncpg.connect(database_url)
        await connection.execute(OWED_TO_A_WEBHOOK)
        await connection.close()

    asyncio.run(owed())
    archived(lake_uri, events)
    code, report = audit(lake_uri, "--metrics", str(tmp_path / "audit.prom"))
    found = [(f["fault"], f["subscription"], f["count"], f["examples"]) for f in report["findings"]]
    assert (code, report["webhook_hours"], found) == (
        1, 1, [("unaccounted", "sub_1", 1, [events[7].event_id]), ("late", "sub_1", 1, [events[0].event_id])],
    )  # fmt: skip
    told = (tmp_path / "audit.prom").read_text().splitlines()
    assert {'hookwire_audit_events{finding="unaccounted"} 1.0', 'hookwire_audit_events{finding="lost"} 0.0'} < {*told}


def noted(database_url: str) -> list[Any]:
    """What the database knows of the last audit."""

    async def asked() -> list[Any]:
        connection = await asyncpg.connect(database_url)
        columns = "exit_code, findings, not_compared, failure_code, failure"
        row = await connection.fetchrow(f"SELECT {columns} FROM hookwire.lake_audits")
        await connection.close()
        return list(row)

    return asyncio.run(asked())


def test_the_end_of_an_audit_is_noted_for_the_verdict_and_doctor(
    spark: SparkSession, lake_uri: str, events: list[SelftestRecord], database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GP-14: an audit of some hours, or by a rule of its own, is not noted; one that fails takes nothing back."""
    archived(lake_uri, events[1:])
    monkeypatch.setenv("HOOKWIRE_PIPELINE_LAKE", lake_uri)
    first = CliRunner().invoke(application(), ["pipeline", "audit", "--json"], catch_exceptions=False)
    report, notes = json.loads(first.stdout), [noted(database_url)]
    archived(lake_uri, events[:1])
    for option in ("--since", "2020-01-01"), ("--late", "1"):
        audit(lake_uri, *option)
        notes.append(noted(database_url))
    audit(lake_uri)
    notes.append(noted(database_url))
    log = Path(lake_uri.removeprefix("file://")) / "bronze" / "_delta_log" / f"{0:020d}.json"
    log.write_text("no log")
    failed = CliRunner().invoke(application(), ["pipeline", "audit", "--lake", lake_uri])
    notes.append(noted(database_url))
    told = CliRunner().invoke(application(), ["doctor", "--json"])

    assert [report[name] for name in ("lake_uri", "exit_code", "found", "count")] == [lake_uri, 1, 1, 1]
    assert [note[:4] for note in notes] == [[1, 1, 0, None]] * 3 + [[0, 0, 0, None], [0, 0, 0, 1]]
    assert (failed.exit_code, notes[4][4][:35]) == (1, "bronze/_delta_log is damaged or can")
    checks = [check for check in json.loads(told.stdout) if check["id"] == "lake"]
    assert [(check["subject"], check["level"]) for check in checks] == [(f"audit of {lake_uri}", "warn")]
