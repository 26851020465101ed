"""Seals: every column of a row is under a keyed hash, whatever rearranges the row later (GP-04)."""

from __future__ import annotations

import hashlib
import hmac
import shutil
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from event.identity import Incarnation
from pipeline.audit.evidence import evidence
from pipeline.audit.seal import SealKeys, Seals, sealed, sealed_since, unproved, with_seal_state
from pipeline.compaction import compact, crowded
from pipeline.delta.snapshot import Change
from pipeline.erasure import Subject, erase
from pipeline.frame import frame_of
from pipeline.lake import bronze
from pipeline.schema import BRONZE, SEAL
from pipeline.storage import LakeStorage
from tests.pipeline.foreign import batch, delta
from tests.pipeline.test_renaming import OLD

KEY, OTHER = b"k" * 32, b"o" * 32
KEYS = SealKeys((KEY,))
AT = datetime(2026, 1, 15, 9, 7, 0, 250_001, UTC)
LARGE = 1 << 30
FULL = {
    "topic": "orders", "partition": 3, "offset": 7, "timestamp": AT, "timestamp_type": 0, "key": b"ada", "value": b"{}",
    "headers": [{"key": "ce_id", "value": b"1"}, {"key": "\u00e9", "value": None}], "event_id": "evt_abcd2345_42",
    "event_number": 42, "sequence": 42, "term": 3, "accepted_at": AT, "content_type": "text/plain", "ce_id": "1",
    "ce_source": "/s", "ce_type": "t", "ce_subject": "u", "ce_time": "v", "archived_at": AT, "kafka_topic_id": "an-id",
    "quarantine": ["past", "value"], "dt": AT.date(),
}  # fmt: skip
OTHERWISE = {
    "topic": "carts", "partition": 4, "offset": 8, "timestamp": AT - timedelta(days=30), "timestamp_type": 1,
    "key": b"ad", "value": b"{ }", "headers": [{"key": "ce_id", "value": b"1"}, {"key": "\u00e9", "value": b""}],
    "event_id": "evt_abcd2345_43", "event_number": 43, "sequence": 43, "term": 4,
    "accepted_at": AT + timedelta(microseconds=1), "content_type": "text/plain ", "ce_id": "2", "ce_source": "/t",
    "ce_type": "T", "ce_subject": "w", "ce_time": "x", "archived_at": AT + timedelta(hours=1), "kafka_topic_id": "b",
    "quarantine": ["pastvalue"], "dt": date(2026, 1, 16),
}  # fmt: skip
EMPTY = {"key": b"", "value": b"", "headers": [], "content_type": "", "quarantine": []}


def rows_of(spark: SparkSession, *rows: Mapping[str, Any]) -> DataFrame:
    return frame_of(spark, [[row.get(name) for name in BRONZE.names] for row in rows], BRONZE)


def held(frame: DataFrame) -> list[dict[str, Any]]:
    """Rows as they were given to ``rows_of``, with times in UTC."""
    return [
        dict(zip(BRONZE.names, row, strict=True)) for row in zip(*frame.toArrow().to_pydict().values(), strict=True)
    ]


def states(frame: DataFrame, seals: Seals) -> list[str | None]:
    rows = with_seal_state(frame, seals).select("event_number", "seal_state").orderBy("event_number").collect()
    return [row.seal_state for row in rows]


def test_a_seal_is_an_hmac_of_every_column_that_is_not_null(spark: SparkSession) -> None:
    """GP-04: computed again without Spark, so that another version of Spark cannot change it."""
    text = (
        b"topic=6:orders" b"partition=1:3" b"offset=1:7" b"timestamp=16:1768468020250001" b"timestamp_type=1:0"
        b"key=3:ada" b"value=2:{}" b"headers=20:+63655F6964=31,+C3A9" b"event_id=15:evt_abcd2345_42"
        b"event_number=2:42" b"sequence=2:42" b"term=1:3" b"accepted_at=16:1768468020250001"
        b"content_type=10:text/plain" b"ce_id=1:1" b"ce_source=2:/s" b"ce_type=1:t" b"ce_subject=1:u" b"ce_time=1:v"
        b"archived_at=16:1768468020250001" b"kafka_topic_id=5:an-id" b"quarantine=21:+70617374,+76616C7565"
        b"dt=5:20468"
    )  # fmt: skip
    bare = {"topic": "orders", "offset": 7, "value": b""}
    found = [(row["seal"], row["seal_key"]) for row in held(sealed(rows_of(spark, FULL, bare), KEYS))]
    name = hmac.new(KEY, b"name of the key", hashlib.sha256).hexdigest()[:16]
    wanted = [
        hmac.new(KEY, each, hashlib.sha256).hexdigest()[:32] for each in (text, b"topic=6:ordersoffset=1:7value=0:")
    ]
    assert found == [(seal, name) for seal in wanted]
    assert repr(KEYS) == "SealKeys()", "a log shows no key"


def test_whichever_column_is_altered_the_seal_is_broken(spark: SparkSession) -> None:
    """GP-04: event_id, Kafka's timestamp and its type, partition, quarantine and `ce_*` were under no hash."""
    [whole] = held(sealed(rows_of(spark, FULL), KEYS))
    columns = [name for name in BRONZE.names if name not in SEAL]
    altered = [whole | {name: OTHERWISE[name]} for name in columns] + [whole | {name: None} for name in columns]
    assert (set(OTHERWISE), states(rows_of(spark, whole), Seals(KEYS))) == (set(columns), [None])
    assert set(states(rows_of(spark, *altered), Seals(KEYS))) == {"broken"}


def test_null_is_not_empty_and_no_column_takes_from_its_neighbour(spark: SparkSession) -> None:
    """GP-04: the encoding has one reading only."""
    absent = FULL | dict.fromkeys(EMPTY)
    pairs = [(absent, absent | {name: value}) for name, value in EMPTY.items()]
    pairs.append((FULL | {"ce_id": "12", "ce_source": "3"}, FULL | {"ce_id": "1", "ce_source": "23"}))
    pairs.append((FULL | {"ce_subject": "u", "ce_time": None}, FULL | {"ce_subject": None, "ce_time": "u"}))
    pairs.append((FULL | {"ce_id": None}, FULL | {"ce_id": None, "quarantine": ["past", "", "value"]}))
    two = [{"key": "a", "value": b"1"}, {"key": "b", "value": b"2"}]
    pairs.append((FULL | {"headers": two}, FULL | {"headers": [{"key": "a", "value": b"1,+62=32"}]}))
    seals = [row["seal"] for row in held(sealed(rows_of(spark, *(row for pair in pairs for row in pair)), KEYS))]
    assert [one == other for one, other in zip(seals[::2], seals[1::2], strict=True)] == [False] * len(pairs)


def numbered(count: int) -> list[dict[str, Any]]:
    return [FULL | {"event_number": n, "offset": n, "event_id": f"evt_abcd2345_{n}"} for n in range(1, count + 1)]


def test_a_key_that_is_not_here_is_named_and_a_former_one_proves(spark: SparkSession) -> None:
    """A row of another secret is not called altered; a rotation keeps what was sealed before."""
    first, second, third = numbered(3)
    frame = (
        sealed(rows_of(spark, first), KEYS)
        .unionByName(sealed(rows_of(spark, second), SealKeys((OTHER,))))
        .unionByName(sealed(rows_of(spark, third), SealKeys()))
    ).localCheckpoint()
    seen = [
        states(frame, Seals(keys, since))
        for keys, since in (
            (KEYS, None), (KEYS, AT), (KEYS, AT + timedelta(seconds=1)), (SealKeys((OTHER, KEY)), AT),
            (SealKeys(), None),
        )
    ]  # fmt: skip
    assert seen == [
        [None, "other key", "unproved"], [None, "other key", "unsealed"], [None, "unproved", "unproved"],
        [None, None, "unsealed"], ["other key", "other key", "unproved"],
    ]  # fmt: skip


def test_the_first_seals_begin_after_the_last_row_without_one(spark: SparkSession) -> None:
    """A row of the far future does not take the seals off for ever, and a lake without seals has no beginning."""
    plain, later = rows_of(spark, FULL), rows_of(spark, FULL | {"accepted_at": AT + timedelta(minutes=1)})
    never = datetime(2099, 1, 1, tzinfo=UTC)
    forged = rows_of(spark, FULL | {"accepted_at": never, "archived_at": never})
    both = plain.unionByName(sealed(later, KEYS))
    begin = sealed_since(both.unionByName(forged), KEYS)
    assert begin is not None
    hour = timedelta(hours=1)
    assert begin.since <= datetime.now(UTC) + hour
    ahead = datetime.now(UTC) + hour / 2
    of_another_clock = both.unionByName(rows_of(spark, FULL | {"accepted_at": ahead, "archived_at": ahead - hour / 3}))
    seen = [sealed_since(each, KEYS) for each in (plain, both, sealed(plain, KEYS), of_another_clock)]
    moment = timedelta(microseconds=1)
    assert seen == [None, (AT + moment, 1), (datetime(1970, 1, 1, tzinfo=UTC), 0), (ahead + moment, 2)]
    year_10000 = F.timestamp_micros(F.lit(300_000_000_000_000_000))
    beyond = both.unionByName(sealed(plain, SealKeys((OTHER,))).withColumn("archived_at", year_10000))
    no_seal = both.unionByName(plain.withColumns({"accepted_at": year_10000, "archived_at": year_10000}))
    assert [unproved(each, KEYS) for each in (plain, both, beyond)] == [1, 1, 2]
    assert sealed_since(no_seal, KEYS) is not None, "a time that Python does not have"


def test_rows_of_a_former_name_are_ours_and_their_seals_prove(spark: SparkSession) -> None:
    """HA-23: `hookwire reincarnate` changes the name and keeps the secret."""
    former, present = numbered(2)
    former = former | {"event_id": "evt_zzzzzzzz_1"}
    frame = sealed(rows_of(spark, former, present), KEYS)
    rows = evidence(frame, Incarnation("abcd2345", [(1, "zzzzzzzz")]), seals=Seals(KEYS, AT)).orderBy("offset")
    assert [(row.id, row.seal_state) for row in rows.select("id", "seal_state").collect()] == [(1, None), (2, None)]


def test_an_id_that_is_not_that_of_its_number_is_a_strangers(spark: SparkSession) -> None:
    """GP-04: also in a row without a seal, whose hash of contents has the number alone."""
    row = FULL | {"event_id": "evt_abcd2345_43"}
    found = evidence(rows_of(spark, FULL, row), "abcd2345").select("event_id", "id").collect()
    assert {each.event_id: each.id for each in found} == {"evt_abcd2345_42": 42, "evt_abcd2345_43": None}


def put(lake: LakeStorage, frame: DataFrame) -> None:
    table = bronze(lake)
    table.upgrade()
    basis = table.snapshot()
    table.commit(basis, Change("archive", "run", table.write(frame.coalesce(1), basis.number + 1)))


def states_of(spark: SparkSession, lake: LakeStorage) -> list[str | None]:
    return states(bronze(lake).read(spark), Seals(KEYS, AT))


def archived(spark: SparkSession, lake: LakeStorage, rows: Sequence[Mapping[str, Any]]) -> None:
    """Four batches, one of them of an older version, without seals. No job of Spark's writes them."""
    of_batches = [[row] for row in held(sealed(rows_of(spark, *rows[:3]), KEYS))]
    for of_batch in [*of_batches, rows[3:]]:
        plain = [{name: value for name, value in row.items() if name not in ("topic", "dt")} for row in of_batch]
        batch(bronze(lake), *plain, day=AT.date())


def test_seals_survive_whatever_rearranges_and_nothing_makes_one(spark: SparkSession, tmp_path: Path) -> None:
    """Compaction, another tool's OPTIMIZE and an erasure; rows without a seal stay without one."""
    lake = LakeStorage(str(tmp_path))
    rows = [each | dict.fromkeys(EMPTY) | {"topic": "orders"} for each in numbered(4)]
    rows[0], rows[1] = numbered(1)[0], rows[1] | EMPTY
    rows[3] = rows[3] | {"key": b"gone"}
    archived(spark, lake, [*rows, rows[3] | {"event_number": 5, "offset": 5, "key": b"kept"}])
    table, seen = bronze(lake), [states_of(spark, lake)]
    compact(spark, table, crowded(table.snapshot(), date(2026, 1, 16), LARGE), "run", LARGE)
    seen.append(states_of(spark, lake))
    put(lake, sealed(rows_of(spark, FULL | {"event_number": 6}), KEYS))
    delta(lake).optimize.compact()
    seen.append(states_of(spark, lake))
    delta(lake).optimize.z_order(["offset"])
    erase(spark, lake, table, Subject(("gone",)), "run")
    seen.append(states_of(spark, lake))
    before = [None, None, None, "unsealed", "unsealed"]
    assert seen == [before, before, [*before, None], [None, None, None, "unsealed", None]]


@pytest.mark.parametrize("old", ["of 0.1", "of the version before"])
def test_a_lake_of_today_gets_the_columns_in_place(spark: SparkSession, tmp_path: Path, old: str) -> None:
    """Its rows are unproved, and those of the next batch are sealed; a seal is also a word of other readers."""
    lake = LakeStorage(str(tmp_path / "lake"))
    if old == "of 0.1":
        shutil.copytree(OLD, tmp_path / "lake")
    else:
        before = bronze(lake)
        before.schema = type(BRONZE)([field for field in BRONZE.fields if field.name not in SEAL])
        rows = rows_of(spark, *numbered(3)).drop(*SEAL)
        before.commit(before.snapshot(), Change("archive", "run", before.write(rows.coalesce(1), 1)))
    put(lake, sealed(rows_of(spark, FULL), KEYS))
    assert states(bronze(lake).read(spark), Seals(KEYS)) == ["unproved", "unproved", "unproved", None]
    assert delta(lake).to_pyarrow_table(columns=["seal"])["seal"].null_count == 3
