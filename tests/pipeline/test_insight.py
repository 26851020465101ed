"""Usage, anomalies, drift and dead letters on frames with planted findings (PL-06, PL-08, PL-10, PL-11, PL-T05)."""

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from typer.testing import CliRunner

from app.cli.main import application
from event.topic_schema import ignored_keywords
from pipeline.anomaly import anomalies
from pipeline.audit.selftest import SelftestRecord, bronze_of
from pipeline.deadletter import DEAD_LETTERS, clusters
from pipeline.delta.snapshot import Change
from pipeline.frame import frame_of
from pipeline.lake import bronze
from pipeline.storage import LakeStorage
from pipeline.typed.drift import schemas
from pipeline.typed.proposal import proposed
from pipeline.volume import by_hour, usage

HOUR = datetime(2026, 1, 15, tzinfo=UTC)


def test_an_event_counts_once_however_often_its_record_is_there(spark: SparkSession) -> None:
    """PL-10, PL-X02, PL-X03: bronze has both."""
    records = [SelftestRecord(n, "a", b"12345", n) for n in (1, 2, 2, 3)]
    bronze = bronze_of(spark, records)
    assert [row.asDict() for row in usage(bronze).collect()] == [
        {"day": "2026-01-15", "topic": "orders", "events": 3, "bytes": 18, "repeats": 1, "quarantined": 0}
    ]
    assert [row.records for row in by_hour(bronze).collect()] == [4]


def test_hours_that_are_not_as_they_were_are_named(spark: SparkSession) -> None:
    """PL-08: one spike, one silence among hours that vary a little; a topic of a few events or hours is left alone."""
    volumes = {hour: 100 + hour % 7 for hour in range(24)} | {5: 900, 11: 10}
    rows = [("orders", HOUR + timedelta(hours=hour), count) for hour, count in volumes.items() if hour != 17]
    rows += [("rare", HOUR, 1), ("young", HOUR + timedelta(hours=23), 500)]
    frame = frame_of(spark, rows, "topic string, hour timestamp, records long")
    found = anomalies(frame, HOUR, HOUR + timedelta(days=1), 6.0).collect()
    assert sorted((row.topic, row.hour.astimezone(UTC).hour, row.kind) for row in found) == [
        ("orders", 5, "spike"),
        ("orders", 11, "drop"),
        ("orders", 17, "silence"),
    ]


def test_a_schema_that_changed_is_told_with_what_it_was(spark: SparkSession) -> None:
    """PL-11."""
    days = [b'{"id": 1}', b'{"id": 2}', b'{"id": "3", "note": "x"}', b"no json"]
    bronze = bronze_of(spark, [replace(SelftestRecord(n, "a", value, n)) for n, value in enumerate(days, 1)])
    dated = bronze.withColumn("dt", F.expr("date_add(DATE'2026-01-14', cast(least(event_number, 3) AS int))"))
    rows = [(row.day, row.schema, row.not_json, row.before) for row in schemas(dated).orderBy("day").collect()]
    assert rows == [
        ("2026-01-15", "OBJECT<id: BIGINT>", 0, None),
        ("2026-01-16", "OBJECT<id: BIGINT>", 0, None),
        ("2026-01-17", "OBJECT<id: STRING, note: STRING>", 1, "OBJECT<id: BIGINT>"),
    ]


def test_a_schema_is_proposed_that_all_objects_fit(spark: SparkSession) -> None:
    """GP-13: what has several types may be anything; what is no object gives no columns; nothing is required."""
    values = [
        b'{"id": 1, "price": 1.5, "paid": true, "note": "x", "lines": [{"sku": "a"}, {"count": 2}], "odd": 1, '
        b'"OBJECT<a": true}',
        b'{"id": 2, "price": 2, "b c": null, "odd": "x"}', b"[1]", b"5", b"no json",
    ]  # fmt: skip
    bronze = bronze_of(spark, [SelftestRecord(n, "a", value, n) for n, value in enumerate(values, 1)])
    line = {"type": "object", "properties": {"count": {"type": "integer"}, "sku": {"type": "string"}}}
    assert proposed(bronze) == {
        "type": "object",
        "properties": {
            "OBJECT<a": {"type": "boolean"}, "b c": {}, "id": {"type": "integer"},
            "lines": {"type": "array", "items": line}, "note": {"type": "string"}, "odd": {},
            "paid": {"type": "boolean"}, "price": {"type": "number"},
        },
    }  # fmt: skip
    assert ignored_keywords(proposed(bronze.where("event_number != 2")) or {}) == []
    assert proposed(bronze.where("event_number > 2")) is None


def test_dead_letters_are_clustered_with_what_to_do(spark: SparkSession) -> None:
    """PL-06."""
    died = [HOUR + timedelta(minutes=n) for n in range(4)]
    letters = [
        ("sub_a", "orders", "exhausted", 503, "server_error", "first", died[0]),
        ("sub_a", "carts", "exhausted", 503, "server_error", "latest", died[1]),
        ("sub_a", "orders", "exhausted", 401, "client_error", "who?", died[2]),
        ("sub_b", "orders", "exhausted", None, "timeout", None, died[3]),
    ]
    found = clusters(frame_of(spark, letters, DEAD_LETTERS)).collect()
    assert [(row["receiver"], row["status"], row["count"], row["topics"], row["detail"]) for row in found] == [
        ("sub_a", 503, 2, ["carts", "orders"], "latest"),
        ("sub_a", 401, 1, ["orders"], "who?"),
        ("sub_b", None, 1, ["orders"], None),
    ]
    assert [row["action"].split(":")[0].partition(",")[0] for row in found] == [
        "the endpoint was failing", "the endpoint wants other credentials", "the endpoint was not reached",
    ]  # fmt: skip


ATTEMPT = """
INSERT INTO hookwire.attempts (event_id, subscription_id, started_at, number, total_seconds, tenant, outcome, decision,
                               trigger, worker)
SELECT n, 1, $1, CASE n WHEN 3 THEN 2 ELSE 1 END, n / 100.0, 'default', 'x',
       CASE n WHEN 2 THEN 'retry' ELSE 'delivered' END, 'first', 'w'
FROM generate_series(1, 3) AS n
"""


def test_the_commands_read_lake_and_database(
    spark: SparkSession, lake_uri: str, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PL-06..PL-11 by their verbs; the report is one file with every part."""

    async def attempted() -> None:
        connection = await asyncpg.connect(database_url)
        await connection.execute(ATTEMPT, HOUR + timedelta(hours=9))
        await connection.close()

    def hookwire(*words: str) -> tuple[int, str]:
        days = ("--since", "2026-01-15", "--until", "2026-01-15", "--lake", lake_uri)
        done = CliRunner().invoke(application("pipeline"), ["pipeline", *words, *days], catch_exceptions=False)
        return done.exit_code, done.stdout

    asyncio.run(attempted())
    monkeypatch.setenv("HOOKWIRE_DATABASE_URL", database_url)
    table = bronze(LakeStorage(lake_uri))
    rows = bronze_of(spark, [SelftestRecord(n, "a", b'{"id": 1}', n) for n in range(1, 4)])
    table.commit(table.snapshot(), Change("archive", "run", table.write(rows, 1)))
    assert [(row["events"], row["bytes"]) for row in json.loads(hookwire("usage", "--json")[1])] == [(3, 30)]
    proposed = json.loads(hookwire("schema", "--topic", "orders", "--propose")[1])
    assert proposed == {"type": "object", "properties": {"id": {"type": "integer"}}}
    code, schemas_found = hookwire("schema", "--json")
    assert (code, json.loads(schemas_found)[0]["schema"]) == (0, "OBJECT<id: BIGINT>")
    assert hookwire("anomaly", "--json") == (0, "[]\n")
    pages = []
    for copied in (False, True):
        if copied:
            assert hookwire("deliveries")[0] == 0
        code, said = hookwire("report", "--output", str(tmp_path / "report.html"))
        html = (tmp_path / "report.html").read_text()
        pages.append((code, said.partition(": ")[2], "3 attempts of these days are not in the lake yet" in html))
    assert pages == [
        (0, "0 attempts; open it in a browser\n", True), (0, "3 attempts; open it in a browser\n", False),
    ]  # fmt: skip
    assert (html.count("<svg"), "66.66%" in html) == (2, True)
