"""Ways to alter files and log of a lake so that they fit each other: each is named with its file or its events.

None of them is in the list of kinds that the audit was built by. One lake is made, and each kind alters a copy of it.
"""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from pipeline.audit import bounds
from pipeline.audit.held import HeldLake
from pipeline.audit.inquiry import in_question
from pipeline.audit.lake_audit import Accepted, LakeAudit
from pipeline.audit.mark import departure, mark_of
from pipeline.audit.seal import Seals, sealed
from pipeline.audit.selftest import HOUR, INCARNATION, SelftestRecord, bronze_of, ledger_of
from pipeline.delta.snapshot import Change
from pipeline.lake import LakeDamaged, bronze
from pipeline.repair.words import statistics
from pipeline.storage import LakeStorage
from tests.pipeline.foreign import delta, edit, pipeline
from tests.pipeline.test_altered_log import statistic
from tests.pipeline.test_seals import KEYS

PER_FILE: Final = 3
EVENTS: Final = [SelftestRecord(1_000_001 + n, f"key {n}", b"x", 2_000_001 + n) for n in range(2 * PER_FILE)]
FIRST, SECOND = EVENTS[:PER_FILE], EVENTS[PER_FILE:]
Act = Callable[[LakeStorage], object]


@pytest.fixture(scope="module")
def whole(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of two batches with seals."""
    folder = tmp_path_factory.mktemp("files") / "lake"
    table = bronze(LakeStorage(str(folder)))
    for records in (FIRST, SECOND):
        basis = table.snapshot()
        rows = sealed(bronze_of(spark, records).withColumn("ce_type", F.lit("made")).coalesce(1), KEYS)
        table.commit(basis, Change("archive", "run", table.write(rows, basis.number + 1)))
    return folder


@cache
def owed(spark: SparkSession) -> list[dict[str, Any]]:
    """The ledger's rows of all events."""
    return [row.asDict() | {"hour": HOUR} for row in ledger_of(spark, EVENTS).collect()]


@pytest.fixture
def lake(whole: Path, tmp_path: Path) -> LakeStorage:
    shutil.copytree(whole, tmp_path / "lake")
    return LakeStorage(str(tmp_path / "lake"))


def audit_of(spark: SparkSession, lake: LakeStorage, seals: Seals | None = None) -> LakeAudit:
    return LakeAudit(spark, HeldLake(lake), INCARNATION, HOUR, HOUR + timedelta(hours=1), seals=seals)


def judged(spark: SparkSession, lake: LakeStorage) -> tuple[list[str], set[tuple[str, str]]]:
    """What an audit finds: sentences about the lake, and faults with their events."""
    audit = audit_of(spark, lake, Seals(KEYS, HOUR))
    seen = audit.differences_seen(10)
    cells = audit.compare(owed(spark))
    accepted = [Accepted(one.number, one.event_id, "orders", HOUR, "sent", one.digest) for one in EVENTS]
    findings = audit.inquire(accepted, in_question(cells), repeats_are_legal=False, examples_max=10)
    return seen, {(found.fault, name) for found in findings for name in found.examples}


def folder_of(lake: LakeStorage) -> Path:
    return Path(lake.uri.removeprefix("file://")) / "bronze"


def second_file(lake: LakeStorage) -> str:
    return max(file.path for file in bronze(lake).snapshot().files)


def rewritten(lake: LakeStorage, change: Callable[[pa.Table], pa.Table], **options: Any) -> None:
    """Alter the rows of the second file, and let the log's size of it fit."""
    path = folder_of(lake) / second_file(lake)
    rows = change(pq.ParquetFile(path).read())
    pq.write_table(rows, path, **options)
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    fit_size(lake, path)


def fit_size(lake: LakeStorage, path: Path) -> None:
    edit(lake, 2, lambda action: action["add"].update({"size": path.stat().st_size}) if "add" in action else None)


def cast(name: str, kind: pa.DataType) -> Callable[[pa.Table], pa.Table]:
    def change(rows: pa.Table) -> pa.Table:
        return rows.set_column(rows.schema.get_field_index(name), name, rows[name].cast(kind))

    return change


def named_again(lake: LakeStorage, path: str) -> None:
    """Let the newest commit name one more file, and count it."""
    log = folder_of(lake) / "_delta_log" / f"{2:020d}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    [added] = [action["add"] for action in actions if "add" in action]
    for action in actions:
        if "commitInfo" in action:
            action["commitInfo"]["hookwire"]["files"] += 1
    actions.append({"add": added | {"path": path}})
    log.write_text("\n".join(json.dumps(action, separators=(",", ":")) for action in actions) + "\n")


def rename_column(lake: LakeStorage) -> None:
    rewritten(lake, lambda rows: rows.rename_columns(["ce_typ" if n == "ce_type" else n for n in rows.column_names]))


def copy_file(lake: LakeStorage) -> None:
    path = second_file(lake)
    copy = path.replace(".parquet", "-copy.parquet")
    shutil.copy(folder_of(lake) / path, folder_of(lake) / copy)
    named_again(lake, copy)


def spell_again(lake: LakeStorage) -> None:
    named_again(lake, second_file(lake).replace("data/", "data/./", 1))


def shorten_maximum(lake: LakeStorage) -> None:
    edit(lake, 2, statistic("maxValues", event_id="evt_"))


def forge_footer(lake: LakeStorage) -> None:
    """Let footer and log say that the file begins later than it does."""
    low, other = SECOND[0].number, SECOND[-1].number
    path = folder_of(lake) / second_file(lake)
    content = path.read_bytes()
    size = struct.unpack("<I", content[-8:-4])[0] + 8
    footer = content[-size:].replace(struct.pack("<q", low), struct.pack("<q", other))
    path.write_bytes(content[:-size] + footer)
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    edit(lake, 2, statistic("minValues", event_number=other))


def strip_footer(lake: LakeStorage) -> None:
    """Let the footer say nothing, and the log something wrong."""
    rewritten(lake, lambda rows: rows, write_statistics=False)
    edit(lake, 2, statistic("minValues", offset=SECOND[-1].offset))


def bound_nulls(lake: LakeStorage) -> None:
    edit(lake, 2, statistic("minValues", ce_subject="a"))


def widen(lake: LakeStorage) -> None:
    rewritten(lake, cast("partition", pa.int64()))


def same_times(lake: LakeStorage) -> None:
    """Write times without a zone, and in milliseconds: every reader reads the same ones."""
    rewritten(lake, cast("timestamp", pa.timestamp("us")))
    rewritten(lake, cast("archived_at", pa.timestamp("ms", "UTC")))


def forge_times(lake: LakeStorage) -> None:
    """Let the records be of the year 11476, which Python does not have."""

    def change(rows: pa.Table) -> pa.Table:
        never = pa.array([300_000_000_000_000_000] * rows.num_rows, pa.timestamp("us", "UTC"))
        for name in ("accepted_at", "archived_at"):
            rows = rows.set_column(rows.schema.get_field_index(name), name, never)
        return rows

    rewritten(lake, change)


def hide_column(lake: LakeStorage) -> None:
    def change(action: dict[str, Any]) -> None:
        if "metaData" in action:
            schema = json.loads(action["metaData"]["schemaString"])
            schema["fields"] = [field for field in schema["fields"] if field["name"] != "ce_type"]
            action["metaData"]["schemaString"] = json.dumps(schema)

    edit(lake, 0, change)


def forge_checkpoint(lake: LakeStorage) -> None:
    """A checkpoint without the second file, beside commits that add it; the count of files fits."""
    delta(lake).create_checkpoint()
    path = folder_of(lake) / "_delta_log" / f"{2:020d}.checkpoint.parquet"
    rows, gone = pq.read_table(path), second_file(lake)
    kept = [not (add is not None and add["path"] == gone) for add in rows["add"].to_pylist()]
    pq.write_table(rows.filter(pa.array(kept)), path)
    edit(lake, 2, lambda action: action["commitInfo"]["hookwire"].update(files=1) if "commitInfo" in action else None)


def ids(fault: str, events: Sequence[SelftestRecord]) -> set[tuple[str, str]]:
    return {(fault, event.event_id) for event in events}


BY_SENTENCE: Final[dict[str, tuple[Act, str]]] = {
    "a maximum cut to its beginning": (shorten_maximum, "the log says max evt_ of event_id"),
    "footer and log forged alike": (forge_footer, f"its footer says min {SECOND[-1].number} of event_number"),
    "a footer without statistics, the log forged": (strip_footer, f"its log says min {SECOND[-1].offset} of offset"),
    "bounds of a column of nulls": (bound_nulls, "its log says min a of ce_subject, and it is None"),
    "a time that Python does not have": (forge_times, "it has a time of accepted_at outside the years 1 to 9999"),
    "a column taken out of the log's schema": (hide_column, "the log's schema lacks the column ce_type"),
}
BY_EVENT: Final[dict[str, tuple[Act, set[tuple[str, str]]]]] = {
    "nothing but another unit of time": (same_times, set()),
    "a column renamed in a file": (rename_column, ids("altered", SECOND)),
    "a file under a second path": (copy_file, ids("duplicated", SECOND)),
    "a checkpoint that differs from the commits": (forge_checkpoint, ids("lost", SECOND)),
}


@pytest.mark.parametrize("kind", BY_SENTENCE)
def test_a_word_that_fits_no_value_is_named_with_its_file(spark: SparkSession, lake: LakeStorage, kind: str) -> None:
    """GP-03: no row was altered, and other readers would leave rows or columns out."""
    act, reason = BY_SENTENCE[kind]
    act(lake)
    seen = audit_of(spark, lake).differences_seen(10)
    assert [said for said in seen if second_file(lake) in said and reason in said], seen


@pytest.mark.parametrize("kind", BY_EVENT)
def test_files_that_fit_the_log_are_named_by_their_events(spark: SparkSession, lake: LakeStorage, kind: str) -> None:
    """GP-03, GP-04: size, count and path fit; the rows are not those that were archived."""
    act, wanted = BY_EVENT[kind]
    act(lake)
    assert judged(spark, lake) == ([], wanted)


def test_a_time_that_python_does_not_have_hides_no_record(spark: SparkSession, lake: LakeStorage) -> None:
    """The audit ended with a traceback."""
    forge_times(lake)
    _, found = judged(spark, lake)
    assert ids("altered", SECOND) <= found


def test_a_file_under_a_second_spelling_of_its_path_is_named_and_stays(spark: SparkSession, lake: LakeStorage) -> None:
    """GP-03: its rows count twice, and `check --quarantine` does not take the file away."""
    spell_again(lake)
    [said] = audit_of(spark, lake).differences_seen(10)
    assert "/data/./" in said
    pipeline(lake, "check", "--quarantine")
    assert (folder_of(lake) / second_file(lake)).is_file()


def test_the_log_is_read_once_for_the_bounds_of_all_files(
    spark: SparkSession, lake: LakeStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GP-11: it was read again for each thousand files."""
    reads: list[int] = []

    def counted(*of: Any) -> Any:
        reads.append(len(of[1]))
        return statistics(*of)

    monkeypatch.setattr(bounds, "statistics", counted)
    monkeypatch.setattr(bounds, "_FILES_AT_ONCE", 1)
    bound_nulls(lake)
    table = bronze(lake)
    [said] = bounds.wrong_files(spark, lake, table, table.snapshot())
    assert ("its log says min a of ce_subject" in said, reads) == (True, [2])


def test_a_number_of_a_wider_type_is_named_with_its_file(spark: SparkSession, lake: LakeStorage) -> None:
    """GP-04: no job can read such a table."""
    widen(lake)
    reason = f"{second_file(lake)}: the column partition has the type INT64, and should have INT32"
    with pytest.raises(LakeDamaged, match=reason):
        audit_of(spark, lake).differences_seen(10)


def test_a_checkpoint_ahead_of_the_commits_is_named(lake: LakeStorage) -> None:
    """GP-05: every reader believes it; for ours the archive would begin anew."""
    table = bronze(lake)
    known = mark_of(table)
    assert known is not None
    delta(lake).create_checkpoint()
    log = folder_of(lake) / "_delta_log"
    rows = pq.read_table(log / f"{2:020d}.checkpoint.parquet")
    kept = [each is None for each in rows["txn"].to_pylist()]
    pq.write_table(rows.filter(pa.array(kept)), log / f"{900:020d}.checkpoint.parquet")
    (log / "_last_checkpoint").write_text('{"version":900,"size":3}')
    said = departure(table, known)
    assert said is not None
    assert "the log knows fewer commits of hookwire than the database" in said
