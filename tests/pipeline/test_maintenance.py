"""Compaction, retention and erasure of a lake on disk; selections for a replay (PL-07, PL-09)."""

import json
import os
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, Field
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from typer.testing import CliRunner

from app.cli.failure import CommandFailed
from app.cli.main import application
from pipeline import compaction
from pipeline.audit.evidence import ghosts
from pipeline.audit.selftest import INCARNATION, SelftestRecord, bronze_of
from pipeline.compaction import Upkeep, compact, crowded, scattered
from pipeline.day import put_days
from pipeline.delivery import delivery_table
from pipeline.delta.snapshot import Change, DataFile
from pipeline.erasure import Erased, Subject, erase, erased_table, find, ids_of, noted_ids
from pipeline.failure import named
from pipeline.lake import LakeConflict, LakeDamaged, Table, bronze
from pipeline.metric import metric_table
from pipeline.repair.damage import Damage, inspect, put_aside
from pipeline.repair.remnant import remnants
from pipeline.retention import forgotten, retain
from pipeline.rewrite import rewrite
from pipeline.runs import runs
from pipeline.selection import Selection, archived, select
from pipeline.service import stale_days
from pipeline.slo import slo_table
from pipeline.storage import LakeStorage
from tests.pipeline import foreign

DAY = date(2026, 1, 15)
LARGE = 64 * 1024 * 1024


@pytest.fixture
def lake(tmp_path: Path) -> LakeStorage:
    return LakeStorage(str(tmp_path))


def written(lake: LakeStorage, *batches: Sequence[SelftestRecord]) -> Table:
    """Bronze with a file for each batch, written without Spark."""
    table = bronze(lake)
    for batch in batches:
        foreign.batch(table, *map(foreign.row_of, batch))
    return table


def records(*numbers: int, key: str = "a") -> list[SelftestRecord]:
    return [SelftestRecord(number, key, b"payload %d" % number, number) for number in numbers]


def numbers_of(spark: SparkSession, table: Table) -> list[int]:
    return sorted(row.event_number for row in table.read(spark).select("event_number").collect())


def files_on_disk(lake: LakeStorage) -> set[str]:
    return {path.removeprefix("bronze/") for path in lake.files("bronze/data") if path.endswith(".parquet")}


def test_small_files_of_a_closed_day_become_one(spark: SparkSession, lake: LakeStorage) -> None:
    """PL-09: the same rows; the old files stay for readers of an older snapshot."""
    table = written(lake, records(1, 2), records(3), records(4))
    before = table.snapshot()
    assert crowded(before, DAY, LARGE) == []
    fewer = compact(spark, table, crowded(before, date(2026, 1, 16), LARGE), "run", LARGE)
    assert (fewer, len(table.snapshot().files), numbers_of(spark, table)) == (2, 1, [1, 2, 3, 4])
    assert {file.path for file in before.files} < files_on_disk(lake)


def test_small_files_of_today_become_one_as_soon_as_there_are_many(
    spark: SparkSession, lake: LakeStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GP-12: `archive --follow 60` left 1,440 files for each topic until the next day. A large file stays as it is."""
    monkeypatch.setattr(compaction, "_SCATTERED_FILES", 4)
    table = bronze(lake)
    upkeep = Upkeep(lambda: spark, table, "run")
    for number in range(1, 4):
        foreign.batch(table, foreign.row(number))
        foreign.batch(table, foreign.row(100 + number), topic="carts")
    foreign.batch(table, *(foreign.row(200, value=os.urandom(9_000_000)),))
    assert (scattered(table.snapshot(), DAY), upkeep.done(DAY)) == ([], None)
    foreign.batch(table, foreign.row(4))
    large = next(file for file in table.snapshot().files if file.rows and file.bytes > 8_000_000)
    assert upkeep.done(DAY) is None
    folders = Counter(file.values["topic"] for file in table.snapshot().files)
    assert (folders, large in table.snapshot().files) == ({"orders": 2, "carts": 3}, True)
    assert numbers_of(spark, table) == [1, 2, 3, 4, 101, 102, 103, 200]


def test_small_files_that_cannot_be_merged_do_not_end_the_archive(
    spark: SparkSession, lake: LakeStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GP-12: Kafka's retention does not wait until somebody has mended a file."""
    monkeypatch.setattr(compaction, "_SCATTERED_FILES", 3)
    table = bronze(lake)
    for number in range(1, 4):
        foreign.batch(table, foreign.row(number))
    broken = table.snapshot().files[1]
    lake.replace(table.place(broken), b"PAR1")
    said = Upkeep(lambda: spark, table, "run").done(DAY)
    assert said is not None
    assert broken.path.rpartition("/")[2] in said
    assert len(table.snapshot().files) == 3


def noted(lake: LakeStorage) -> dict[int, str | None]:
    """The column that deltalake added, by the number of the event."""
    columns = foreign.delta(lake).to_pyarrow_table(columns=["event_number", "note"]).to_pydict()
    return dict(zip(columns["event_number"], columns["note"], strict=True))


def test_columns_of_a_newer_version_or_another_tool_survive_a_rewrite(spark: SparkSession, lake: LakeStorage) -> None:
    """GP-04: an older process that rewrote a day took the seals off its rows."""
    table = bronze(lake)
    foreign.batch(table, foreign.row(1), foreign.row(2, key="b"))
    foreign.delta(lake).alter.add_columns([Field("note", "string", nullable=True)])
    foreign.append(lake, foreign.row(3, note="theirs"), foreign.row(4, key="b", note="gone"))
    compact(spark, table, crowded(table.snapshot(), date(2026, 1, 16), LARGE), "run", LARGE)
    notes = [noted(lake)]
    erase(spark, lake, table, Subject(("b",)), "run")
    notes.append(noted(lake))
    assert notes == [{1: None, 2: None, 3: "theirs", 4: "gone"}, {1: None, 3: "theirs"}]


def test_two_that_rewrite_the_same_files_do_not_both_win(spark: SparkSession, lake: LakeStorage) -> None:
    table = written(lake, records(1, 2), records(3))
    old, rows = table.snapshot().files, table.read(spark).coalesce(1)
    rewrite(table, old, rows, "compact", "first")
    with pytest.raises(LakeConflict):
        rewrite(table, old, rows, "compact", "second")
    present = {file.path for file in table.snapshot().files}
    assert (numbers_of(spark, table), files_on_disk(lake) - present) == ([1, 2, 3], {file.path for file in old})


def test_a_rewrite_that_would_lose_rows_changes_nothing(spark: SparkSession, lake: LakeStorage) -> None:
    table = written(lake, records(1, 2, 3))
    with pytest.raises(LakeDamaged):
        rewrite(table, table.snapshot().files, table.read(spark).where("event_number > 1"), "compact", "run")
    assert (table.snapshot().version, numbers_of(spark, table)) == (1, [1, 2, 3])


def test_a_subject_is_erased_everywhere_and_nobody_else_is(spark: SparkSession, lake: LakeStorage) -> None:
    """PL-09: also from files that compaction had replaced; the audit still knows that the events had been there."""
    table = written(lake, [*records(1, 2), *records(3, key="b")], records(4, key="b"), records(5))
    compact(spark, table, crowded(table.snapshot(), date(2026, 1, 16), LARGE), "run", LARGE)
    subject = Subject(("a",))
    assert erase(spark, lake, table, subject, "run") == Erased(3, files=1, replaced=4, remnants=0, remaining=0)
    assert (numbers_of(spark, table), find(spark, table, subject)) == ([3, 4], {})
    assert files_on_disk(lake) == {file.path for file in table.snapshot().files}
    known = ghosts(erased_table(lake).read(spark), INCARNATION).collect()
    assert sorted((row.id, row.key, row.digest) for row in known) == [(1, None, None), (2, None, None), (5, None, None)]


def test_a_subject_is_also_named_by_events_and_by_subjects_of_cloudevents(
    spark: SparkSession, lake: LakeStorage, tmp_path: Path
) -> None:
    """In the table and in quarantine; an audit reads their numbers before they are gone."""
    table = bronze(lake)
    for rows in (records(1, 2, 3), records(4, 5)):
        named = F.when(F.col("event_number") == 2, "ada")
        frame = bronze_of(spark, rows).withColumn("ce_subject", named).coalesce(1)
        basis = table.snapshot()
        table.commit(basis, Change("archive", "run", table.write(frame, basis.version + 1)))
    put_aside(lake, table, [Damage(table.snapshot().files[1], "it has too few rows")], "run")
    [aside] = lake.files("quarantine")
    subject = Subject(event_ids=(f"evt_{INCARNATION}_3", f"evt_{INCARNATION}_4"), subjects=("ada",))
    ids = ids_of(spark, lake, table, subject)
    erased = erase(spark, lake, table, subject, "run")
    left = [row.event_number for row in spark.read.parquet(str(tmp_path / aside)).collect()]

    assert (numbers_of(spark, table), left, erased.remaining) == ([1], [5], 0)
    assert ids == noted_ids(spark, lake) == [f"evt_{INCARNATION}_{number}" for number in (2, 3, 4)]


def test_a_subject_is_erased_from_quarantine_and_from_what_killed_batches_left(
    spark: SparkSession, lake: LakeStorage, tmp_path: Path
) -> None:
    """PL-09: what cannot be read goes whole, others' records stay, and a batch that held theirs becomes no entry."""
    table = written(lake, records(1), [*records(2), *records(3, key="b")])
    put_aside(lake, table, [Damage(table.snapshot().files[1], "it has too few rows")], "run")
    [aside] = lake.files("quarantine")
    basis = table.snapshot()
    killed, others = (table.write(bronze_of(spark, r).coalesce(1), 4) for r in (records(5), records(6, key="b")))
    half = f"bronze/data/batch=000004-dead/_temporary/0/dt={DAY}/topic=orders/part-0.parquet"
    (tmp_path / half).parent.mkdir(parents=True)
    (tmp_path / half).write_bytes(b"PAR1 payload 7")
    assert erase(spark, lake, table, Subject(("a",)), "run") == Erased(1, files=1, replaced=1, remnants=3, remaining=0)
    left = {path for path in lake.files("bronze/data") if path.endswith(".parquet")}
    assert left == {f"bronze/{file.path}" for file in (*table.snapshot().files, *others)}
    assert [row.event_number for row in spark.read.parquet(str(tmp_path / aside)).collect()] == [3]
    assert sorted(row.id for row in ghosts(erased_table(lake).read(spark), INCARNATION).collect()) == [1, 2]
    with pytest.raises(LakeConflict):
        table.commit(basis, Change("archive", "killed", killed))


def test_days_beyond_retention_are_gone(spark: SparkSession, lake: LakeStorage) -> None:
    table = written(lake, records(1, 2))
    assert retain(lake, table, DAY, "run") == ()
    assert [file.rows for file in retain(lake, table, date(2026, 1, 16), "run")] == [2]
    assert (table.snapshot().rows, files_on_disk(lake)) == (0, set())
    is_forgotten = forgotten(table.snapshot())
    assert [is_forgotten("orders", datetime(2026, 1, day, tzinfo=UTC)) for day in (15, 16)] == [True, False]


def test_a_replay_takes_each_event_once_and_in_order(spark: SparkSession) -> None:
    """PL-07: by key, time and number; a record that is there twice is one event."""
    lake = bronze_of(spark, [*records(3, 1, 2), *records(2), *records(4, key="b")])
    wanted = Selection(topics=("orders",), keys=("a",), since=datetime(2026, 1, 15, tzinfo=UTC), above=1)
    assert [(e.event_id, e.key, e.payload) for e in archived(select(lake, wanted))] == [
        (f"evt_{INCARNATION}_2", "a", b"payload 2"),
        (f"evt_{INCARNATION}_3", "a", b"payload 3"),
    ]


def test_the_commands_say_what_they_would_do_then_do_it(
    spark: SparkSession, lake: LakeStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PL-09: --dry-run changes nothing; each is a row of the table of runs."""
    table = written(lake, records(1, 2), records(3, key="b"))
    monkeypatch.setenv("HOOKWIRE_DATA_DIR", f"{lake.uri}/no-hub")

    def hookwire(*words: str) -> dict[str, object]:
        done = CliRunner().invoke(application("pipeline"), ["pipeline", *words, "--lake", lake.uri, "--json"])
        assert done.exit_code == 0, done.output
        said: dict[str, object] = json.loads(done.stdout)
        return said

    assert hookwire("compact", "--dry-run")["files"] == hookwire("compact")["files"] == 2
    assert (hookwire("erase", "--key", "a", "--dry-run")["records"], table.snapshot().rows) == (2, 3)
    erased = {"records": 2, "files": 1, "replaced": 3, "remnants": 0, "remaining": 0, "typed": 0, "confirmed": 0}
    assert hookwire("erase", "--key", "a") == erased
    assert [hookwire("retain", "--days", "1", *dry)["records"] for dry in (["--dry-run"], [], [])] == [1, 1, 0]
    assert {run.job for run in runs(lake)} == {"compact", "erase", "retain"}


def test_files_of_killed_batches_go_after_a_day_and_young_ones_stay(
    spark: SparkSession, lake: LakeStorage, tmp_path: Path
) -> None:
    """Also those that Spark had not finished; those of the table stay, whatever their age."""
    table = written(lake, records(1, 2))
    young = table.write(bronze_of(spark, records(3)), 2)
    half = tmp_path / "bronze/data/batch=000002-dead/_temporary/0/part-0.parquet"
    half.parent.mkdir(parents=True)
    half.write_bytes(b"PAR1")
    for path in (half, *(tmp_path / "bronze" / file.path for file in table.snapshot().files)):
        os.utime(path, (0, 0))
    deleted = table.vacuum(24, unnamed=True)
    kept = {file.path for file in (*young, *table.snapshot().files)}
    assert (deleted, numbers_of(spark, table), files_on_disk(lake)) == (1, [1, 2], kept)


def test_a_file_that_no_batch_has_written_is_nobody_s_remnant(lake: LakeStorage) -> None:
    lake.replace("bronze/data/notes.parquet", b"somebody else's")
    assert remnants(lake, bronze(lake), Subject(("a",)), ("event_id",)) == []


def test_half_written_files_are_named_put_aside_with_the_reason_and_counted(
    spark: SparkSession, lake: LakeStorage, tmp_path: Path
) -> None:
    """Never dropped in silence, never a dead job."""

    def check(*options: str) -> tuple[int, dict[str, object]]:
        words = ["pipeline", "check", "--lake", str(tmp_path), "--json", *options]
        done = CliRunner().invoke(application("pipeline"), words, catch_exceptions=False)
        return done.exit_code, json.loads(done.stdout)

    table = written(lake, records(1, 2), records(3), records(4))
    short, gone, whole = (file.path for file in table.snapshot().files)
    file = tmp_path / "bronze" / short
    file.write_bytes(file.read_bytes()[:100])
    (tmp_path / "bronze" / gone).unlink()
    with pytest.raises(LakeDamaged, match="pipeline check"), named():
        table.read(spark).select("event_number").collect()
    (code, found), again = check(), check("--quarantine")
    assert (code, found["records"], again[0], check()[0]) == (1, 3, 1, 0)
    assert [row["reason"][:15] for row in found["damaged"]] == ["it has 100 byte", "it is missing"]  # type: ignore[attr-defined]
    assert (numbers_of(spark, table), (tmp_path / "quarantine" / "bronze" / short).exists()) == ([4], True)
    entry = next(table.history())
    assert ([row[0] for row in entry["notes"]["quarantined"]], whole) == ([short, gone], table.snapshot().files[0].path)
    assert [run.counts for run in runs(lake)] == [{"files": 2, "records": 3}]
    noted = DeltaTable(lake.spark_path("quarantined")).to_pyarrow_table().to_pylist()
    assert {(row["table"], row["path"], row["rows"], row["reason"][:15]) for row in noted} == {
        ("bronze", short, 2, "it has 100 byte"), ("bronze", gone, 1, "it is missing"),
    }  # fmt: skip


def put_day(lake: LakeStorage, table: Table, rows: int, contents: bytes) -> str:
    """A file that says it has so many rows of the day, made from as many, in the place of the day's other files."""
    path = f"data/{table.snapshot().number + 1:06d}-0/dt={DAY}/part.parquet"
    put_days(table, (DataFile(path, rows, len(contents)),), {DAY: rows}, table.name, "run")
    lake.replace(f"{table.name}/{path}", contents)
    return f"{table.name}/{path}"


def test_every_table_of_the_lake_is_checked_and_a_day_that_was_put_aside_is_made_again(lake: LakeStorage) -> None:
    """And never from fewer rows than there were."""

    def check(*options: str) -> list[str]:
        done = CliRunner().invoke(
            application("pipeline"), ["pipeline", "check", "--lake", lake.uri, "--json", *options]
        )
        return [row["path"] for row in json.loads(done.stdout)["damaged"]]

    silver, gold = delivery_table(lake), metric_table(lake)
    assert check() == []
    paths = [put_day(lake, table, 5, b"no Parquet") for table in (silver, gold, slo_table(lake))]
    assert (check(), stale_days(lake, DAY, DAY)) == (paths, {})
    put_aside(lake, gold, inspect(lake, gold).damages, "run")
    assert (check(), stale_days(lake, DAY, DAY)) == ([paths[0], paths[2]], {DAY: 5})
    put_day(lake, gold, 5, b"no Parquet either")
    assert stale_days(lake, DAY, DAY) == {}
    check("--quarantine")
    put_day(lake, silver, 4, b"less of it")
    put_day(lake, gold, 5, b"made from five")
    assert stale_days(lake, DAY, DAY) == {}
    assert {path.removeprefix("quarantine/") for path in lake.files("quarantine")} >= set(paths)


def test_files_that_were_replaced_are_deleted_from_every_table_and_days_go_from_the_one_that_is_named(
    lake: LakeStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PL-09: days of deliveries, metrics and service levels are made anew, each time in new files."""
    monkeypatch.setattr("app.cli.pipeline.upkeep._REPLACED_KEPT_HOURS", 0)

    def hookwire(*words: str) -> Any:
        words = ("pipeline", *words, "--lake", lake.uri, "--json")
        return json.loads(CliRunner().invoke(application("pipeline"), words, catch_exceptions=False).stdout)

    tables = [delivery_table(lake), metric_table(lake), slo_table(lake)]
    old = [put_day(lake, table, 5, b"old") for table in tables]
    new = [put_day(lake, table, 6, b"new") for table in tables]
    done = hookwire("compact")
    left = {path for table in tables for path in lake.files(f"{table.name}/data")}
    assert (done["deleted_files"], left) == (len(old), set(new))

    records = hookwire("retain", "--days", "1", "--table", "metrics")["records"]
    left = {path for table in tables for path in lake.files(f"{table.name}/data")}
    assert (records, left) == (6, {new[0], new[2]})
    with pytest.raises(CommandFailed, match="--topic is for bronze and typed"):
        hookwire("retain", "--days", "1", "--table", "slo", "--topic", "orders")
