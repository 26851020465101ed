"""Typed and rejected rows of topics: made of bronze, reached by erasure, retention and checks (GP-13)."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import asyncpg
import duckdb
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from typer.testing import CliRunner

import pipeline.erasure
import pipeline.typed.day
from app.cli.failure import CommandFailed
from app.cli.main import application
from pipeline.audit.selftest import SelftestRecord, bronze_of
from pipeline.compaction import compact, crowded
from pipeline.delta.snapshot import Change, Snapshot
from pipeline.erasure import Subject, erase, find
from pipeline.lake import LakeConflict, LakeDamaged, Table, bronze
from pipeline.retention import retain
from pipeline.storage import LakeStorage
from pipeline.typed.day import Filled, SeenBronze, TopicVersion, fill, stale_days
from pipeline.typed.shape import shape_of
from pipeline.typed.tables import TAKEN, made_tables
from tests.pipeline.test_maintenance import LARGE, written

DAY = date(2026, 1, 15)
LATER = date(2026, 1, 16)
ORDER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "order": {"type": "integer"}, "name": {"type": "string"}, "path": {"type": "string"}, "key": {"type": "string"},
        "placed_at": {"type": "string", "format": "date-time"},
        "lines": {"type": "array", "items": {"type": "object", "properties": {"sku": {"type": "string"}}}},
    },
    "required": ["order"],
}  # fmt: skip
ORDERS = TopicVersion("orders.made", 1, shape_of(ORDER, TAKEN), "orders")


@pytest.fixture
def lake(tmp_path: Path) -> LakeStorage:
    return LakeStorage(str(tmp_path))


def order(number: int, owner: str = "a", **members: Any) -> SelftestRecord:
    return SelftestRecord(number, owner, json.dumps({"order": number, **members}).encode(), number)


def stale(lake: LakeStorage, of: TopicVersion = ORDERS) -> dict[date, int]:
    return stale_days(SeenBronze(lake), of, DAY, LATER)


def filled(spark: SparkSession, lake: LakeStorage, of: TopicVersion = ORDERS) -> list[Filled]:
    """Compute the days that are to be computed."""
    archived = SeenBronze(lake)
    return [fill(spark, archived, of, day, "run") for day in stale_days(archived, of, DAY, LATER)]


def rows(lake: LakeStorage, name: str = "typed/orders.made/1") -> list[dict[str, Any]]:
    """The rows of a table as deltalake sees them, in the order of their numbers."""
    found = DeltaTable(lake.spark_path(name)).to_pyarrow_table().to_pylist()
    return sorted(found, key=lambda row: row["event_number"])


def numbers(lake: LakeStorage, name: str = "typed/orders.made/1") -> list[int]:
    return [row["event_number"] for row in rows(lake, name)]


def test_each_event_is_one_row_with_columns_or_is_rejected_with_the_reason(
    spark: SparkSession, lake: LakeStorage
) -> None:
    """The first record of an event counts, in one batch and in several. A column of ours keeps its name."""
    good = order(1, name="Ada", key="theirs", placed_at="2026-01-15T10:00:00Z", lines=[{"sku": "x"}])
    bad = [replace(order(2), value=b"no json"), replace(order(3), value=b'{"order": "3"}'), order(4, path=1)]
    second = replace(order(1, name="second"), offset=7)
    written(lake, [second, good, good, *bad], [good, bad[0]])

    assert filled(spark, lake) == [Filled(1, 3)]
    [row] = rows(lake)
    at = row.pop("accepted_at")
    assert row == {
        "event_id": "evt_selftest_1", "event_number": 1, "key": "a", "sequence": 1, "ce_type": None, "ce_subject": None,
        "order": 1, "name": "Ada", "path": None, "payload_key": "theirs", "lines": [{"sku": "x"}],
        "placed_at": datetime(2026, 1, 15, 10, tzinfo=UTC), "dt": DAY, "topic": "orders",
    }  # fmt: skip
    assert at.date() == DAY
    rejected = [(r["event_number"], r["reason"], r["path"]) for r in rows(lake, "rejected/orders.made/1")]
    assert rejected == [(2, "not_json", "$"), (3, "type", "$.order"), (4, "type", "$.path")]


def test_every_event_of_each_day_is_in_one_of_the_two_tables(spark: SparkSession, lake: LakeStorage) -> None:
    records = [order(n) if n % 3 else replace(order(n), value=b"[]") for n in (*range(1, 40), *range(1, 9))]
    table = bronze(lake)
    frame = bronze_of(spark, records).withColumn("dt", F.expr("date_add(dt, cast(event_number % 2 AS int))"))
    table.commit(table.snapshot(), Change("archive", "run", table.write(frame, 1)))
    assert [one.rows + one.rejected for one in filled(spark, lake)] == [19, 20]
    both = [(r["dt"], r["event_id"]) for name in ("typed", "rejected") for r in rows(lake, f"{name}/orders.made/1")]
    archived = {(r.dt, r.event_id) for r in table.read(spark).select("dt", "event_id").collect()}
    assert (len(both), set(both)) == (39, archived)


def test_a_day_is_computed_again_only_when_bronze_has_other_rows_of_it(
    spark: SparkSession, lake: LakeStorage, tmp_path: Path
) -> None:
    """A compaction rearranges. A file that is put into quarantine takes the count of its day along."""
    table = written(lake, [order(1)], [order(2)])
    filled(spark, lake)
    compact(spark, table, crowded(table.snapshot(), LATER, LARGE), "run", LARGE)
    assert stale(lake) == {}
    written(lake, [replace(order(3), value=b"")])
    assert stale(lake) == {DAY: 3}
    assert (filled(spark, lake), numbers(lake), numbers(lake, "rejected/orders.made/1")) == (
        [Filled(2, 1)],
        [1, 2],
        [3],
    )
    [file] = DeltaTable(lake.spark_path("rejected/orders.made/1")).file_uris()
    Path(file).write_bytes(b"no Parquet")
    code, found = hookwire("check", "--lake", lake.uri, "--quarantine")
    assert (code, [one["reason"][:3] for one in found["damaged"]], stale(lake)) == (
        1, ["it "], {DAY: 3},
    )  # fmt: skip
    filled(spark, lake)
    assert (numbers(lake), numbers(lake, "rejected/orders.made/1")) == ([1, 2], [3])
    assert hookwire("check", "--lake", lake.uri, "--deep")[0] == 0


def test_a_day_of_two_kafka_topics_has_the_rows_of_both(spark: SparkSession, lake: LakeStorage) -> None:
    """The topic's setting changed: its former Kafka topic has the events of before, and the other one a late event."""
    table = written(lake, [order(1), order(2)])
    filled(spark, lake)
    moved = replace(ORDERS, kafka_topic="orders2")
    rows_of_it = bronze_of(spark, [order(3)]).withColumn("topic", F.lit("orders2"))
    basis = table.snapshot()
    table.commit(basis, Change("archive", "run", table.write(rows_of_it, basis.number + 1)))
    assert (filled(spark, lake, moved), numbers(lake)) == ([Filled(1, 0)], [1, 2, 3])
    assert (stale(lake), stale(lake, moved)) == ({}, {})


def test_a_day_is_one_file_of_each_table(spark: SparkSession, lake: LakeStorage) -> None:
    """However many tasks a job has."""
    table = bronze(lake)
    frame = bronze_of(spark, [order(n) if n % 3 else replace(order(n), value=b"") for n in range(1, 60)])
    table.commit(table.snapshot(), Change("archive", "run", table.write(frame.repartition(4), 1)))
    ours = spark.conf.get("spark.sql.shuffle.partitions")
    assert ours is not None
    spark.conf.set("spark.sql.shuffle.partitions", "4")
    try:
        filled(spark, lake)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", ours)
    assert [len(table.snapshot().files) for table in ORDERS.tables(lake)] == [1, 1]


def test_bronze_is_read_once_for_all_days(
    spark: SparkSession, lake: LakeStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look at a lake of years costs a second."""
    table = bronze(lake)
    frame = bronze_of(spark, [order(1), order(2)]).withColumn(
        "dt", F.expr("date_add(dt, cast(event_number % 2 AS int))")
    )
    table.commit(table.snapshot(), Change("archive", "run", table.write(frame, 1)))
    looks: list[str] = []
    snapshot = Table.snapshot

    def counted(self: Table) -> Snapshot:
        looks.append(self.name)
        return snapshot(self)

    monkeypatch.setattr(Table, "snapshot", counted)
    assert (len(filled(spark, lake)), looks.count("bronze")) == (2, 1)


def test_a_kill_between_the_two_commits_of_a_day_is_healed(
    spark: SparkSession, lake: LakeStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(lake, [order(1), replace(order(2), value=b"")])
    step = pipeline.typed.day._commit

    def killed(draft: Any, *arguments: Any) -> None:
        if draft.table.name.startswith("typed/"):
            raise KeyboardInterrupt
        step(draft, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(pipeline.typed.day, "_commit", killed)
        with pytest.raises(KeyboardInterrupt):
            filled(spark, lake)
    assert (stale(lake), filled(spark, lake)) == ({DAY: 2}, [Filled(1, 1)])
    assert (numbers(lake), numbers(lake, "rejected/orders.made/1"), stale(lake)) == ([1], [2], {})


def test_tables_of_another_schema_with_the_same_number_are_refused(spark: SparkSession, lake: LakeStorage) -> None:
    """The hub's database was restored to a moment before the schema was stored."""
    written(lake, [order(1)])
    filled(spark, lake, replace(ORDERS, digest="a"))
    assert stale(lake, replace(ORDERS, digest="a")) == {}
    with pytest.raises(LakeDamaged, match=r"orders\.made/1 was made by another schema than version 1"):
        stale(lake, replace(ORDERS, digest="b"))


def test_a_version_has_tables_of_its_own(spark: SparkSession, lake: LakeStorage) -> None:
    """So a reader of the one before keeps its columns."""
    written(lake, [order(1, name="Ada")])
    second = replace(ORDERS, version=2, shape=shape_of({"type": "object", "properties": {"order": True}}, TAKEN))
    filled(spark, lake)
    filled(spark, lake, second)
    assert ([row["order"] for row in rows(lake)], [row["order"] for row in rows(lake, "typed/orders.made/2")]) == (
        [1], ["1"],
    )  # fmt: skip
    assert sorted(table.name for table in made_tables(lake)) == [
        f"{kind}/orders.made/{version}" for kind in ("rejected", "typed") for version in (1, 2)
    ]


def test_retention_deletes_days_that_are_not_made_again(spark: SparkSession, lake: LakeStorage) -> None:
    """And what bronze does not have any more stays."""
    table = written(lake, [order(1)])
    filled(spark, lake)
    retain(lake, table, LATER, "run")
    assert (stale(lake), numbers(lake)) == ({}, [1])
    words = ("retain", "--days", "1", "--table", "typed", "--topic", "orders", "--lake", lake.uri)
    assert [hookwire(*words, *dry)[1]["records"] for dry in (["--dry-run"], [], [])] == [1, 1, 0]
    written(lake, [order(2)])
    assert (stale(lake), numbers(lake)) == ({}, [])


# --- erasure ----------------------------------------------------------------------------------------------------------


def holding(lake: LakeStorage, mark: str) -> set[str]:
    """The files of the lake that hold a text: in any column of a Parquet file, else in their bytes."""
    files = [path for path in folder_of(lake).rglob("*") if path.is_file()]
    return {path.name for path in files if mark in text_of(path)}


def text_of(file: Path) -> str:
    """The columns of a Parquet file, or the text of another one."""
    if file.suffix == ".parquet":
        return str(pq.ParquetFile(file).read().to_pylist())
    return file.read_text(encoding="utf-8", errors="replace")


def folder_of(lake: LakeStorage) -> Path:
    return Path(lake.uri.removeprefix("file://"))


def test_a_subject_is_erased_from_every_table_that_was_made_of_bronze(spark: SparkSession, lake: LakeStorage) -> None:
    """Of old versions too, from replaced and killed files, by key, by id and by the subject of a CloudEvent."""
    records = [order(1, "ada", name="MARK"), order(2, "b", name="MARK"), order(3, "b"), order(4, "c", name="MARK")]
    odd = [replace(order(5, "ada"), value=b'{"order": "MARK"}'), replace(order(6, "b"), value=b"[]")]
    frame = bronze_of(spark, [*records, *odd])
    table = bronze(lake)
    of_ada = F.when(F.col("event_number") == 4, "ada").otherwise(F.col("ce_subject"))
    table.commit(table.snapshot(), Change("archive", "run", table.write(frame.withColumn("ce_subject", of_ada), 1)))
    second = replace(ORDERS, version=2)
    for of in (ORDERS, second):
        filled(spark, lake, of)
    written(lake, [order(7, "b")])
    filled(spark, lake, second)
    typed = second.tables(lake)[1]
    killed = typed.write(typed.read(spark).where("event_number = 1"), typed.snapshot().number + 1)

    subject = Subject(("ada",), event_ids=("evt_selftest_2",), subjects=("ada",))
    done = erase(spark, lake, table, subject, "run")

    assert (holding(lake, "MARK"), holding(lake, "'ada'")) == (set(), set())
    assert (done.records, done.typed, done.remaining) == (4, 8, 0)
    assert [numbers(lake, f"typed/orders.made/{n}") for n in (1, 2)] == [[3], [3, 7]]
    assert [numbers(lake, f"rejected/orders.made/{n}") for n in (1, 2)] == [[6], [6]]
    assert not any((folder_of(lake) / typed.place(file)).exists() for file in killed)
    assert (filled(spark, lake, second), numbers(lake, "typed/orders.made/2")) == ([Filled(2, 1)], [3, 7])
    assert find(spark, table, subject) == {}


def test_a_day_of_which_rows_were_erased_is_computed_again(spark: SparkSession, lake: LakeStorage) -> None:
    """Although as many came in the meantime."""
    table = written(lake, [order(1, "ada"), order(2, "b")])
    filled(spark, lake)
    erase(spark, lake, table, Subject(("ada",)), "run")
    written(lake, [order(3, "b")])
    assert stale(lake) == {DAY: 2}
    assert (filled(spark, lake), numbers(lake)) == ([Filled(2, 0)], [2, 3])


def test_a_day_of_which_bronze_lost_rows_is_computed_again_although_as_many_came(
    spark: SparkSession, lake: LakeStorage
) -> None:
    """By an erasure of a record that is in no typed table, by quarantine, or by another tool's commit."""
    foreign = F.when(F.col("event_number") != 2, F.col("event_number"))
    table = bronze(lake)
    frame = bronze_of(spark, [order(1), order(2, "ada")]).withColumn("event_number", foreign)
    table.commit(table.snapshot(), Change("archive", "run", table.write(frame.coalesce(1), 1)))
    filled(spark, lake)
    erase(spark, lake, table, Subject(("ada",)), "run")
    written(lake, [order(3)])
    assert (stale(lake), filled(spark, lake), numbers(lake)) == ({DAY: 2}, [Filled(2, 0)], [1, 3])

    newest = table.snapshot().files[-1]
    (folder_of(lake) / table.place(newest)).write_bytes(b"no Parquet")
    assert hookwire("check", "--lake", lake.uri, "--quarantine")[0] == 1
    written(lake, [order(4)])
    assert (stale(lake), filled(spark, lake), numbers(lake)) == ({DAY: 2}, [Filled(2, 0)], [1, 4])

    DeltaTable(lake.spark_path("bronze")).delete("event_number = 1")
    version = table.snapshot().version
    written(lake, [order(5)])
    assert hookwire("accept-commit", str(version), "--lake", lake.uri)[0] == 0
    assert (stale(lake), filled(spark, lake), numbers(lake)) == ({DAY: 2}, [Filled(2, 0)], [4, 5])


def test_a_commit_between_the_two_searches_of_an_erasure_fails(
    spark: SparkSession, lake: LakeStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store answered late, or the process was stopped: bronze was as the job had read it when it looked."""
    table = written(lake, [order(1, "ada", name="MARK")])
    commit, search = Table.commit, pipeline.erasure.find
    searched: list[str] = []
    outcome: list[Snapshot | LakeConflict] = []

    def held(self: Table, basis: Snapshot, change: Change) -> Snapshot:
        if not (self.name.startswith("typed/") and change.job == "typed"):
            return commit(self, basis, change)

        def committing(spark: SparkSession, of: Table, subject: Subject) -> dict[Any, int]:
            found = search(spark, of, subject)
            searched.append(of.name)
            if searched.count(self.name) == 2 and not outcome:
                try:
                    outcome.append(commit(self, basis, change))
                except LakeConflict as conflict:
                    outcome.append(conflict)
            return found

        with monkeypatch.context() as patched:
            patched.setattr(pipeline.erasure, "find", committing)
            erase(spark, lake, table, Subject(("ada",)), "run")
        [made] = outcome
        if isinstance(made, LakeConflict):
            raise made
        return made

    monkeypatch.setattr(Table, "commit", held)
    with pytest.raises(LakeConflict):
        filled(spark, lake)
    assert holding(lake, "MARK") == set()


def test_typed_files_in_quarantine_are_erased_after_their_table(spark: SparkSession, lake: LakeStorage) -> None:
    """A version that nobody reads any more was deleted."""
    table = written(lake, [order(1, "ada", name="MARK")])
    filled(spark, lake)
    shutil.copytree(
        folder_of(lake) / "typed/orders.made/1/data", folder_of(lake) / "quarantine/typed/orders.made/1/data"
    )
    shutil.rmtree(folder_of(lake) / "typed")
    assert erase(spark, lake, table, Subject(("ada",)), "run").remaining == 0
    assert (holding(lake, "MARK"), hookwire("views", "--lake", lake.uri)[1].keys()) == (set(), {"orders_made_rejected"})


@pytest.mark.parametrize("is_written", [False, True], ids=["before the files are written", "before the commit"])
def test_an_erasure_while_a_day_is_computed_wins(
    spark: SparkSession, lake: LakeStorage, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    """The job has read the records of the subject, and must not bring them back. The tables are not there before."""
    table = written(lake, [order(1, "ada", name="MARK"), order(2, "b")])
    name = "_commit" if is_written else "_rejected"
    step: Callable[..., Any] = getattr(pipeline.typed.day, name)

    def erased_first(*arguments: Any) -> Any:
        monkeypatch.setattr(pipeline.typed.day, name, step)
        if not is_written:
            arguments[0].count()  # the rows are read
        erase(spark, lake, table, Subject(("ada",)), "run")
        return step(*arguments)

    monkeypatch.setattr(pipeline.typed.day, name, erased_first)
    with pytest.raises(LakeConflict, match="run this command again"):
        filled(spark, lake)
    assert (holding(lake, "MARK"), numbers(lake)) == (set(), [])
    assert (filled(spark, lake), numbers(lake)) == ([Filled(1, 0)], [2])


def test_of_two_that_compute_a_day_one_commits(
    spark: SparkSession, lake: LakeStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(lake, [order(1)])
    step = pipeline.typed.day._commit

    def other_first(*arguments: Any) -> None:
        monkeypatch.setattr(pipeline.typed.day, "_commit", step)
        filled(spark, lake)
        step(*arguments)

    monkeypatch.setattr(pipeline.typed.day, "_commit", other_first)
    with pytest.raises(LakeConflict):
        filled(spark, lake)
    assert (numbers(lake), unlisted(lake)) == ([1], [])


def unlisted(lake: LakeStorage) -> list[str]:
    """Data files that no table names."""
    tables: Sequence[Table] = made_tables(lake)
    return [path for table in tables for path in table.unlisted(table.snapshot()) if path.endswith(".parquet")]


# --- commands and readers ---------------------------------------------------------------------------------------------


def hookwire(*words: str) -> tuple[int, Any]:
    done = CliRunner().invoke(application("pipeline"), ["pipeline", *words, "--json"], catch_exceptions=False)
    return done.exit_code, json.loads(done.stdout)


@pytest.fixture
def hub(database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The hub's database, with the schema of a topic that has another name in Kafka."""

    async def stored() -> None:
        connection = await asyncpg.connect(database_url)
        await connection.execute(
            "INSERT INTO hookwire.topics (tenant, name, kafka_topic) VALUES ('default', 'orders.made', 'orders')"
        )
        await connection.execute(
            "INSERT INTO hookwire.topic_schemas (tenant, topic, version, schema) VALUES "
            "('default', 'orders.made', 1, '{\"type\": \"array\"}'), ('default', 'orders.made', 2, $1)",
            json.dumps(ORDER),
        )
        await connection.close()

    asyncio.run(stored())
    monkeypatch.setenv("HOOKWIRE_DATABASE_URL", database_url)
    return database_url


def test_the_command_computes_what_the_hub_has_a_schema_for(spark: SparkSession, lake: LakeStorage, hub: str) -> None:
    """The newest version counts; a second run has nothing to do."""
    written(lake, [order(1), replace(order(2), value=b"")])

    def typed(*options: str) -> tuple[int, list[tuple[int, ...]]]:
        code, done = hookwire("typed", "--lake", lake.uri, *options)
        return code, [tuple(one[name] for name in ("version", "days", "rows", "rejected")) for one in done["topics"]]

    assert typed("--dry-run") == (0, [(2, 1, 0, 0)])
    assert typed("--topic", "orders.made") == (1, [(2, 1, 1, 1)])
    assert typed() == (0, [(2, 0, 0, 0)])
    assert numbers(lake, "typed/orders.made/2") == [1]
    with pytest.raises(CommandFailed, match="carts has no schema"):
        typed("--topic", "carts")


def test_a_topic_that_cannot_be_computed_does_not_stop_the_others(
    spark: SparkSession, lake: LakeStorage, hub: str
) -> None:
    """One shares its Kafka topic, one has a damaged log. A topic that never goes to Kafka shares nothing."""
    for statement in (
        "INSERT INTO hookwire.topics (tenant, name, sinks, kafka_topic) VALUES "
        "('default', 'carts', '{kafka}', 'orders9'), ('default', 'baskets', '{kafka}', 'orders9'), "
        "('default', 'orders', '{webhooks}', NULL), ('default', 'broken', NULL, NULL)",
        "INSERT INTO hookwire.topic_schemas (tenant, topic, version, schema) "
        "SELECT 'default', t.name, 1, s.schema FROM hookwire.topic_schemas s, hookwire.topics t "
        "WHERE s.version = 2 AND t.name IN ('carts', 'broken')",
    ):
        asyncio.run(execute(hub, statement))
    written(lake, [order(1)])
    log = folder_of(lake) / "typed/broken/1/_delta_log/00000000000000000000.json"
    log.parent.mkdir(parents=True)
    log.write_text("torn")

    code, done = hookwire("typed", "--lake", lake.uri)
    assert (code, [(one["topic"], one["reason"][:20]) for one in done["failed"]]) == (
        1, [("broken", "typed/broken/1/_delt"), ("carts", "it shares the Kafka ")],
    )  # fmt: skip
    assert ([one["topic"] for one in done["topics"]], numbers(lake, "typed/orders.made/2")) == (["orders.made"], [1])


def test_a_merge_of_bronze_meanwhile_costs_a_repeat(
    spark: SparkSession, lake: LakeStorage, hub: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It leaves the same rows, so the command goes on."""
    table = written(lake, [order(1)], [order(2)])
    step = pipeline.typed.day._rejected

    def merged_first(*arguments: Any) -> Any:
        monkeypatch.setattr(pipeline.typed.day, "_rejected", step)
        arguments[0].count()  # the rows are read
        compact(spark, table, crowded(table.snapshot(), LATER, LARGE), "run", LARGE)
        return step(*arguments)

    monkeypatch.setattr(pipeline.typed.day, "_rejected", merged_first)
    assert (hookwire("typed", "--lake", lake.uri)[0], numbers(lake, "typed/orders.made/2")) == (0, [1, 2])


def test_a_log_of_bronze_that_was_cut_takes_no_typed_row(spark: SparkSession, lake: LakeStorage, hub: str) -> None:
    """An old backup was restored. `accept-log` is also for a version of typed rows that somebody deleted."""
    written(lake, [order(1)], [order(2)])
    assert hookwire("typed", "--lake", lake.uri)[0] == 0
    newest = max((folder_of(lake) / "bronze/_delta_log").glob("*.json"))
    kept = newest.read_bytes()
    newest.unlink()
    code, done = hookwire("typed", "--lake", lake.uri)
    assert (code, "bronze" in done["failed"][0]["reason"], numbers(lake, "typed/orders.made/2")) == (1, True, [1, 2])
    newest.write_bytes(kept)
    for kind in ("typed", "rejected"):
        shutil.rmtree(folder_of(lake) / kind)
    assert (
        "accept-log --table rejected/orders.made/2" in hookwire("typed", "--lake", lake.uri)[1]["failed"][0]["reason"]
    )
    for kind in ("typed", "rejected"):
        assert hookwire("accept-log", "--table", f"{kind}/orders.made/2", "--lake", lake.uri)[0] == 0
    assert (hookwire("typed", "--lake", lake.uri)[0], numbers(lake, "typed/orders.made/2")) == (0, [1, 2])


async def execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(statement)
    await connection.close()


def test_an_erasure_by_command_counts_typed_rows(
    spark: SparkSession, lake: LakeStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOKWIRE_DATA_DIR", f"{lake.uri}/no-hub")
    written(lake, [order(1), order(2, "b")])
    filled(spark, lake)
    planned = hookwire("erase", "--key", "a", "--lake", lake.uri, "--dry-run")[1]
    code, done = hookwire("erase", "--key", "a", "--lake", lake.uri)
    assert [(one["records"], one["typed"], one["files"]) for one in (planned, done)] == [(1, 1, 2), (1, 1, 2)]
    assert (code, done["remaining"], numbers(lake)) == (0, 0, [2])


def test_readers_agree_on_the_columns(spark: SparkSession, lake: LakeStorage) -> None:
    """Our own, and DuckDB through deltalake."""
    written(lake, [order(1, name="Ada", lines=[{"sku": "x"}]), order(2, lines=[])])
    filled(spark, lake)
    delta = DeltaTable(lake.spark_path("typed/orders.made/1"))
    with duckdb.connect() as connection:
        connection.register("orders_made", delta.to_pyarrow_dataset())
        of_duckdb = connection.sql('SELECT "order", name, lines[1].sku FROM orders_made ORDER BY 1').fetchall()
    own = made_tables(lake)[0].read(spark).orderBy("order")
    of_spark = [tuple(r) for r in own.select("order", "name", F.try_element_at("lines", F.lit(1))["sku"]).collect()]
    assert of_duckdb == of_spark == [(1, "Ada", "x"), (2, None, None)]


def test_views_name_the_newest_tables(lake: LakeStorage) -> None:
    """In SQL of both; it needs no Java and no row."""
    for topic, version in (("orders.made", 2), ("orders.made", 10), ("carts", 1)):
        for table in replace(ORDERS, topic=topic, version=version).tables(lake):
            table.commit(table.snapshot(), Change("typed", "run"))
    names = {
        "carts": "typed/carts/1", "carts_rejected": "rejected/carts/1", "orders_made": "typed/orders.made/10",
        "orders_made_rejected": "rejected/orders.made/10",
    }  # fmt: skip
    assert hookwire("views", "--lake", lake.uri)[1] == {
        name: f"CREATE OR REPLACE VIEW \"{name}\" AS SELECT * FROM delta_scan('{lake.spark_path(table)}');"
        for name, table in names.items()
    }
    assert hookwire("views", "--engine", "spark", "--lake", lake.uri)[1]["carts"] == (
        f"CREATE OR REPLACE VIEW `carts` AS SELECT * FROM delta.`{lake.spark_path('typed/carts/1')}`;"
    )
    for topic in ("orders_made", "Carts"):
        for table in replace(ORDERS, topic=topic, version=1).tables(lake):
            table.commit(table.snapshot(), Change("typed", "run"))
    for table in replace(ORDERS, topic="begun", version=1).tables(lake):
        table.write_rows([], {"dt": "2026-01-15", "topic": "orders"}, 1)  # no commit names it
    for table in replace(ORDERS, topic="c", version=1).tables(lake):
        table.commit(table.snapshot(), Change("typed", "run"))
    done = CliRunner().invoke(application("pipeline"), ["pipeline", "views", "--lake", lake.uri, "--json"])
    assert (done.exit_code, json.loads(done.stdout).keys()) == (1, {"c", "c_rejected"})
    assert "typed/Carts/1 and typed/carts/1 would be one view, carts" in done.stderr
    assert "typed/orders.made/10 and typed/orders_made/1 would be one view, orders_made" in done.stderr


def test_a_typed_table_with_a_damaged_log_is_named(lake: LakeStorage, tmp_path: Path) -> None:
    for table in ORDERS.tables(lake):
        table.commit(table.snapshot(), Change("typed", "run"))
    log = tmp_path / "typed/orders.made/1/_delta_log/00000000000000000000.json"
    log.write_text("torn")
    with pytest.raises(CommandFailed, match=r"typed/orders\.made/1.* is damaged"):
        hookwire("check", "--lake", lake.uri)
