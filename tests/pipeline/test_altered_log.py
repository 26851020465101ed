"""The log of a lake, altered by hand: what other readers see is checked too, and what we do not know is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from app.cli.failure import CommandFailed
from pipeline.audit.seen import differences_seen
from pipeline.delta.snapshot import Change
from pipeline.lake import LakeDamaged, bronze
from pipeline.storage import LakeStorage
from tests.pipeline.foreign import append, edit, pipeline, row, table_of

VECTOR = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 1, "sizeInBytes": 36,
          "cardinality": 1}  # fmt: skip
Edit = Callable[[dict[str, Any]], object]


@pytest.fixture
def lake(tmp_path: Path) -> LakeStorage:
    return LakeStorage(str(tmp_path / "lake"))


def put(name: str, value: object) -> Edit:
    """Alter a member of each added file."""
    return lambda action: action["add"].update({name: value}) if "add" in action else None


def partition(name: str, value: str | None) -> Edit:
    return lambda action: action["add"]["partitionValues"].update({name: value}) if "add" in action else None


def statistic(member: str, **values: object) -> Edit:
    """Alter one member of the statistics of each added file."""

    def change(action: dict[str, Any]) -> None:
        if "add" in action:
            stats = json.loads(action["add"]["stats"])
            action["add"]["stats"] = json.dumps({**stats, member: {**stats.get(member, {}), **values}})

    return change


def number_of_records(action: dict[str, Any]) -> None:
    if "add" in action:
        stats = json.loads(action["add"]["stats"])
        action["add"]["stats"] = json.dumps({**stats, "numRecords": 7})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (partition("topic", "carts"), "the log says topic carts, and its folder orders"),
        (partition("dt", "2026-01-16"), "the log says dt 2026-01-16, and its folder 2026-01-15"),
        (partition("topic", None), "the log says topic , and its folder orders"),
        (number_of_records, "it has 2 rows and should have 7"),
        (put("size", 17), "bytes and should have 17"),
        (statistic("minValues", event_number=3), "the log says min 3 of event_number, and it is 2"),
        (statistic("maxValues", event_number=2), "the log says max 2 of event_number, and it is 3"),
        (statistic("maxValues", event_number=9), "the log says max 9 of event_number, and it is 3"),
        (statistic("minValues", offset=3), "the log says min 3 of offset, and it is 2"),
        (statistic("maxValues", accepted_at="2026-01-14T00:00:00.000Z"), "of accepted_at, and it is"),
        (statistic("maxValues", event_id="evt_aaa"), "the log says max evt_aaa of event_id"),
        (statistic("nullCount", value=2), "the log says 2 nulls in value, and it has 0"),
    ],
)
def test_a_wrong_word_of_the_log_is_named_and_the_records_stay(lake: LakeStorage, change: Edit, reason: str) -> None:
    """GP-03: every other reader counted wrong, and check exited 0; GP-01: a readable file is never taken out."""
    table = table_of(lake, 1, 2)
    edit(lake, 2, change)
    code, found = pipeline(lake, "check", "--deep", "--quarantine")
    assert (code, len(found["damaged"])) == (1, 1), found
    [damage] = found["damaged"]
    assert (code, damage["lost"], reason in damage["reason"]) == (1, False, True), damage
    assert (len(table.snapshot().files), lake.files("quarantine")) == (2, {})


def test_a_column_of_another_type_is_named_with_its_file(lake: LakeStorage) -> None:
    """GP-04: Spark's own words named neither."""
    table = table_of(lake, 2)
    [file] = table.snapshot().files
    path = Path(lake.uri.removeprefix("file://")) / "bronze" / file.path
    rows = pq.ParquetFile(path).read()
    place = rows.schema.get_field_index("sequence")
    pq.write_table(rows.set_column(place, "sequence", rows["sequence"].cast(pa.string())), path)
    edit(lake, 1, put("size", path.stat().st_size))
    code, found = pipeline(lake, "check")
    reason = "the column sequence has the type BYTE_ARRAY, and should have INT64"
    assert (code, [(one["reason"], one["lost"]) for one in found["damaged"]]) == (1, [(reason, False)])
    with pytest.raises(LakeDamaged, match=f"bronze/{file.path}: {reason}"):
        differences_seen(lake, table, table.snapshot(), 10)


def test_a_deletion_vector_without_its_feature_is_refused(lake: LakeStorage) -> None:
    """GP-03: rows that it deletes were counted by us alone."""
    table = table_of(lake, 1, 2)
    edit(lake, 2, put("deletionVector", VECTOR))
    with pytest.raises(CommandFailed, match="bronze has a deletion vector, which hookwire does not read"):
        pipeline(lake, "check")
    assert table.snapshot().rows == 3


def test_what_other_tools_say_of_their_files_is_true(lake: LakeStorage) -> None:
    """GP-03: no false alarm: statistics that are shortened, missing, or of columns of nulls."""
    table_of(lake, 1)
    long = "x" * 200
    append(lake, row(5, content_type=long), row(6, content_type="\U0010ffff" * 90), row(7, sequence=None))
    append(lake, row(8, content_type=None, sequence=None))
    found = pipeline(lake, "check", "--deep")[1]
    assert (found["damaged"], found["files"]) == ([], 3)


@pytest.mark.parametrize(
    ("feature", "reader"),
    [
        ("deletionVectors", True), ("v2Checkpoint", True), ("columnMapping", True), ("fancyThing", True),
        ("inCommitTimestamp", False), ("rowTracking", False), ("fancyRule", False),
    ],
)  # fmt: skip
def test_a_feature_that_we_do_not_know_is_refused_by_its_name(lake: LakeStorage, feature: str, reader: bool) -> None:
    """GP-03: a reader's feature before each read, a writer's before our commit."""
    table = table_of(lake, 1)
    read = [feature] if reader else []
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": read, "writerFeatures": [feature]}
    log = Path(lake.uri.removeprefix("file://")) / "bronze" / "_delta_log"
    (log / f"{2:020d}.json").write_text(json.dumps({"protocol": protocol}) + "\n")
    with pytest.raises(LakeDamaged, match=f"bronze .*{feature}"):
        table.commit(table.snapshot(), Change("archive", "run"))
    if reader:
        with pytest.raises(LakeDamaged, match=f"bronze .*{feature}"):
            table.snapshot()


def test_a_rule_of_another_tool_is_refused_by_its_name(lake: LakeStorage) -> None:
    """GP-03: our commit must not break what others rely on."""
    table = table_of(lake, 1)
    folder = f"{lake.uri.removeprefix('file://')}/bronze"
    DeltaTable(folder).alter.add_constraint({"positive": "offset >= 0"})
    with pytest.raises(LakeDamaged, match=r"bronze has the rule delta\.constraints\.positive"):
        table.commit(table.snapshot(), Change("archive", "run"))
    assert bronze(lake).snapshot().rows == 1
