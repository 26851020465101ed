"""The audit's transforms on lakes of a few records (PL-A02..A12)."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from event.identity import Incarnation
from pipeline.audit.evidence import evidence
from pipeline.audit.inquiry import Finding, compare_cells, count_suspects, in_question, inquire
from pipeline.audit.lane import faults, lanes, suspects
from pipeline.audit.selftest import HOUR, INCARNATION, SelftestRecord, bronze_of, ledger_of
from pipeline.audit.verdict import ACCEPTED
from pipeline.frame import frame_of


def lane(key: str | None, *numbers: int, terms: Sequence[int] | None = None) -> list[SelftestRecord]:
    """Records of one key, in this order."""
    reigns = terms or [7] * len(numbers)
    start = 1000 * (ord(key[0]) if key else 0)
    return [
        SelftestRecord(number, key, b"x", start + place, term)
        for place, (number, term) in enumerate(zip(numbers, reigns, strict=True))
    ]


def evidence_of(spark: SparkSession, records: Sequence[SelftestRecord]) -> DataFrame:
    return evidence(bronze_of(spark, records), INCARNATION)


def accepted_of(spark: SparkSession, *events: tuple[int, str]) -> DataFrame:
    """Events with their states, as `lane` writes them."""
    records = [(SelftestRecord(n, "a", b"x", 0), state) for n, state in events]
    rows = [(r.number, r.event_id, "orders", HOUR, state, r.digest) for r, state in records]
    return frame_of(spark, rows, ACCEPTED)


def found_in(lake: DataFrame, accepted: DataFrame, owed: DataFrame, *, repeats_are_legal: bool) -> list[Finding]:
    """What the audit says about a lake, after comparing its cells with the ledger."""
    cells = compare_cells(lake, owed)
    return inquire(
        lake, accepted, cells, in_question(cells),
        suspects_found=count_suspects(lake), repeats_are_legal=repeats_are_legal,
    )  # fmt: skip


@pytest.mark.parametrize("knows_contents", [True, False])
def test_only_cells_that_differ_are_looked_at_id_by_id(spark: SparkSession, knows_contents: bool) -> None:
    """PL-A03, PL-A04: count, least and greatest id, contents; the ids' checksum where the ledger has no contents."""
    kept = lane("a", *range(1, 17))
    one_for_another = [*kept[:9], replace(kept[9], number=6), *kept[10:]]
    ledger = ledger_of(spark, kept)
    owed = ledger if knows_contents else ledger.withColumn("owed_content", F.lit(None).cast("decimal(20,0)"))
    cells = compare_cells(evidence_of(spark, one_for_another), owed)
    assert [(cell.bucket, cell.owed, cell.records) for cell in in_question(cells)] == [(2, 4, 4)]
    assert {(cell.topic, cell.hour) for cell in cells} == {("orders", datetime(2026, 1, 15, 9, tzinfo=UTC))}


def test_hours_are_those_of_utc_in_any_zone_of_the_session(spark: SparkSession) -> None:
    """FP-12: a user may set the session's zone, and the ledger's hours stay what they are."""
    zone = spark.conf.get("spark.sql.session.timeZone")
    assert zone is not None
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    try:
        [cell] = compare_cells(evidence_of(spark, lane("a", 4)), ledger_of(spark, lane("a", 4)))
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert (cell.hour, cell.differs) == (HOUR, False)


def test_a_time_that_python_does_not_have_is_one_at_the_edge(spark: SparkSession) -> None:
    """The audit ended with a traceback."""
    never = F.timestamp_micros(F.lit(300_000_000_000_000_000))
    lake = bronze_of(spark, lane("a", 4)).withColumns({"accepted_at": never, "archived_at": never})
    [row] = evidence(lake, INCARNATION).select("hour").collect()
    assert row.hour.astimezone(UTC).year == 9999


def test_what_is_wrong_with_the_order_of_a_key(spark: SparkSession) -> None:
    """RR-01, PL-A07: a re-run goes back and on in steps of one; anything else is out of order."""
    records = [
        *lane("a", 1, 2, 3),
        *lane("b", 11, 12, 13, 11, 12, 13, 14),
        *lane("c", 21, 22, 23, 21, 23),
        *lane("d", 31, 33, 32),
        *lane("e", 41, 42, 43, terms=[7, 8, 7]),
        *lane(None, 52, 51, 52),
    ]
    judged = faults(suspects(lanes(evidence_of(spark, records)))).collect()
    found = sorted((row.event_id.rpartition("_")[2], row.fault, row.is_legal) for row in judged)
    repeats = [(number, "duplicated", True) for number in ("11", "12", "13", "21", "52")]
    assert [row for row in found if row[1] == "duplicated"] == sorted([*repeats, ("23", "duplicated", False)])
    assert [row[:2] for row in found if row[1] != "duplicated"] == [("32", "reordered"), ("43", "stale term")]


def test_the_same_record_twice_in_the_lake_is_no_legal_repeat(spark: SparkSession) -> None:
    """PL-X09: one offset, two rows."""
    records = [*lane("a", 1, 2, 3), *lane("a", 1)]
    lake = evidence_of(spark, records)
    accepted = accepted_of(spark, (1, "sent"))
    found = found_in(lake, accepted, ledger_of(spark, records[:3]), repeats_are_legal=True)
    assert [(f.fault, f.count, f.examples) for f in found] == [("duplicated", 1, [f"evt_{INCARNATION}_1"])]


def test_what_waits_or_was_given_up_is_not_lost(spark: SparkSession) -> None:
    """PL-A06: and an allowed repeat is counted apart."""
    owed = lane("a", 1, 2, 3, 4, 5)
    lake = evidence_of(spark, lane("a", 1, 2, 2))
    accepted = accepted_of(spark, (1, "sent"), (2, "sent"), (3, "waiting"), (4, "dead"), (5, "sent"))
    found = found_in(lake, accepted, ledger_of(spark, owed), repeats_are_legal=True)
    assert [(f.fault, f.examples, f.is_finding) for f in found] == [
        ("lost", [f"evt_{INCARNATION}_5"], True),
        ("repeated", [f"evt_{INCARNATION}_2"], False),
    ]


def test_records_that_nobody_here_accepted_are_phantoms(spark: SparkSession) -> None:
    """Of another installation, or without any id: named by their place."""
    records = [*lane("a", 1), replace(lane("b", 1)[0], incarnation="elsewhere")]
    lake = evidence_of(spark, records)
    accepted = accepted_of(spark, (1, "sent"))
    found = found_in(lake, accepted, ledger_of(spark, records[:1]), repeats_are_legal=False)
    assert [(f.fault, f.examples) for f in found] == [("phantom", ["evt_elsewhere_1"])]


def test_a_record_of_the_name_before_is_judged_up_to_the_last_number_of_that_name(spark: SparkSession) -> None:
    """HA-23: a database that was restored and renamed has the first event, and not the second."""
    records = [replace(one, incarnation="bbbbbbbb") for one in lane("a", 1, 2)] + lane("a", 3)
    lake = evidence(bronze_of(spark, records), Incarnation(INCARNATION, [(1, "bbbbbbbb")]))
    assert sorted((row["event_id"], row["id"]) for row in lake.select("event_id", "id").collect()) == [
        ("evt_bbbbbbbb_1", 1), ("evt_bbbbbbbb_2", None), (f"evt_{INCARNATION}_3", 3),
    ]  # fmt: skip


def test_a_topic_that_was_made_anew_has_its_offsets_again_and_is_in_order(spark: SparkSession) -> None:
    """What was archived before came before; see `tests/pipeline/test_archive.py` for how it gets there."""
    before, after = (bronze_of(spark, lane("a", *numbers)) for numbers in ((1, 2, 3), (4, 5)))
    anew = before.unionByName(after.withColumn("archived_at", F.expr("archived_at + INTERVAL 1 HOUR")))
    assert (
        count_suspects(evidence(anew, INCARNATION)),
        count_suspects(evidence(before.unionByName(after), INCARNATION)),
    ) == (0, 2)
