"""An audit opens each table once, and judges and confirms what it found then (pipeline/audit/held.py)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from datetime import date
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from app.cli.failure import CommandFailed
from app.cli.pipeline.auditing.memory import AuditMemory, recalled
from app.cli.pipeline.marks import LogMarks, departures, known_marks, note_bounds
from app.settings.settings import load_settings
from db.direct import connect_direct
from db.pool import PoolOptions
from pipeline.audit.held import HeldLake
from pipeline.audit.lake_audit import LakeAudit
from pipeline.audit.mark import LogMark, mark_of
from pipeline.audit.selftest import SelftestRecord
from pipeline.delta.snapshot import Change, Snapshot
from pipeline.erasure import erased_table
from pipeline.lake import LakeDamaged, Table, bronze
from pipeline.repair.damage import quarantined_table
from pipeline.retention import retain
from pipeline.storage import LakeStorage
from pipeline.tables import lake_tables
from pipeline.typed.tables import typed_table
from tests.pipeline.foreign import batch, edit, pipeline, row, row_of, table_of
from tests.pipeline.test_audit_command import archived, audit, events

__all__ = ["events"]


@pytest.fixture
def lake(lake_uri: str) -> LakeStorage:
    return LakeStorage(lake_uri)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each table was opened and its log read for our number, and how often each commit was read by us."""
    found: Counter[str] = Counter()

    class Counted(DeltaTable):
        def __init__(self, table_uri: str, **more: Any) -> None:
            super().__init__(table_uri, **more)
            self._name = table_uri.partition("/lake/")[2]
            found[f"{self._name} opened"] += 1

        def transaction_version(self, app: str) -> int | None:
            found[f"{self._name} numbered"] += 1
            return super().transaction_version(app)

    read = LakeStorage.read

    def counted(self: LakeStorage, path: str) -> bytes:
        if path.endswith(".json") and "/_delta_log/" in path:
            found[path.replace("/_delta_log/000000000000000000", " ")] += 1
        return read(self, path)

    monkeypatch.setattr("pipeline.lake.DeltaTable", Counted)
    monkeypatch.setattr(LakeStorage, "read", counted)
    return found


def typed(lake: LakeStorage) -> Table:
    return typed_table(lake, "orders", 1, StructType())


def noted(lake: LakeStorage) -> None:
    """Store the marks of all tables, as a job does behind its commits."""
    LogMarks(load_settings(), lake, lake_tables(lake)).store()


def test_each_table_is_opened_once_and_no_commit_is_read_twice(
    spark: SparkSession, lake: LakeStorage, events: Sequence[SelftestRecord], looks: Counter[str]
) -> None:
    """Bronze was opened five times in an audit, and an opening reads its log from the checkpoint on."""
    for begin, end in ((0, 2), (2, 4), (4, 8)):
        archived(lake.uri, events[begin:end])
    batch(typed(lake), {"event_id": "evt_1", "event_number": 1})
    noted(lake)
    batch(typed(lake), {"event_id": "evt_2", "event_number": 2})
    looks.clear()
    code, report = audit(lake.uri)
    assert (code, report["records"]) == (0, 8)
    assert dict(looks) == {
        "bronze opened": 1, "bronze numbered": 1, "bronze 03.json": 1,
        "typed/orders/1 opened": 1, "typed/orders/1 numbered": 1, "typed/orders/1 02.json": 1,
        "typed/orders/1 01.json": 1,  # the one that the database knows
    }  # fmt: skip


def test_a_held_table_stays_as_it_was_found(lake: LakeStorage) -> None:
    """Its mark is that of the commit that was judged, also if that is overwritten meanwhile."""
    table_of(lake, 1, 1)
    held = HeldLake(lake)
    found = [held.bronze.snapshot(), held.bronze.newest(), mark_of(held.bronze)]
    assert found[1] == (2, 2)
    batch(bronze(lake), row(3))
    edit(lake, 2, lambda action: action.get("commitInfo", {}).update(clientVersion="forged"))
    assert [held.bronze.snapshot(), held.bronze.newest(), mark_of(held.bronze)] == found


def test_a_table_that_is_made_meanwhile_is_for_the_next_audit(lake: LakeStorage) -> None:
    """It has files before this audit looks for a log that was lost."""
    held = HeldLake(lake)
    assert held.erased.newest() is None
    batch(erased_table(lake), {"event_id": "evt_1"})
    assert (held.erased.snapshot(), held.erased.newest(), mark_of(held.erased)) == (Snapshot(), None, None)


def removed(path: Path) -> None:
    path.unlink()


def garbled(path: Path) -> None:
    path.write_bytes(b"not JSON")


@pytest.mark.parametrize("harmed", [removed, garbled])
def test_what_happens_to_a_typed_table_behind_the_first_look_is_for_the_next_audit(
    lake: LakeStorage, harmed: Callable[[Path], None]
) -> None:
    """Its number was read only after the hashing, and the command ended with a traceback."""
    newest, known = two_commits(lake)
    held = HeldLake(lake)
    harmed(newest)
    assert departed(known, held.tables) == []


def test_a_commit_that_is_removed_during_the_first_look_is_named(
    lake: LakeStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest, known = two_commits(lake)
    numbered = DeltaTable.transaction_version

    def numbered_after_a_cut(self: DeltaTable, app: str) -> int | None:
        newest.unlink(missing_ok=True)
        return numbered(self, app)

    monkeypatch.setattr(DeltaTable, "transaction_version", numbered_after_a_cut)
    [sentence] = departed(known, HeldLake(lake).tables)
    assert "typed/orders/1: the log ends with commit 1, and the database knows commit 2 " in sentence
    assert "its newest commits were removed" in sentence


@pytest.mark.parametrize("part", ["DeltaTable.transaction_version", "refused_for_reading"])
def test_damage_that_is_met_behind_the_opening_is_named(
    lake: LakeStorage, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    table = table_of(lake, 1)

    def fail(*_: object) -> None:
        raise DeltaError("a commit is gone")

    monkeypatch.setattr(f"pipeline.lake.{part}", fail)
    assert refusal(bronze(lake).newest) == (
        f"{LakeDamaged.__name__}: {table.name}/_delta_log is damaged or cannot be read (a commit is gone): "
        "restore it from a backup"
    )


def two_commits(lake: LakeStorage) -> tuple[Path, dict[str, LogMark]]:
    """Two commits of a typed table: the file of the newest one, and its mark by the name of the table."""
    table = typed(lake)
    for number in (1, 2):
        batch(table, {"event_id": f"evt_{number}", "event_number": number})
    mark = mark_of(table)
    assert mark is not None
    return newest_file(lake, table), {table.name: mark}


def newest_file(lake: LakeStorage, table: Table) -> Path:
    """The file of the second commit behind the one that made the table."""
    return Path(lake.uri.removeprefix("file://")) / table.name / "_delta_log" / f"{2:020d}.json"


def departed(known: Mapping[str, LogMark], tables: Sequence[Table]) -> list[str]:
    """What departs from these marks, or the error that this question ends with."""
    try:
        return asyncio.run(departures(known, tables))
    except DeltaError as error:
        return [repr(error)]


def refusal(question: Callable[[], object]) -> str:
    """The error that a question ends with."""
    try:
        return repr(question())
    except (DeltaError, LakeDamaged) as error:
        return f"{type(error).__name__}: {error}"


def test_a_typed_table_of_which_nothing_is_left_is_named_until_its_log_is_accepted(
    spark: SparkSession, lake: LakeStorage, events: Sequence[SelftestRecord]
) -> None:
    """Only tables that lie in the lake were compared with what the database knows."""
    archived(lake.uri, events)
    _, known = two_commits(lake)
    noted(lake)
    rmtree(Path(lake.uri.removeprefix("file://")) / "typed")
    said = [audit(lake.uri)[1]["lake"], pipeline(lake, "check")[1]["logs"]]
    said.append(departed(known, HeldLake(lake, known).tables))
    gone = "typed/orders/1: the log is gone, and the database knows commit 2 "
    assert [[gone in sentence for sentence in sentences] for sentences in said] == [[True]] * 3
    assert pipeline(lake, "accept-log", "--table", "typed/orders/1")[0] == 0
    assert (audit(lake.uri)[0], pipeline(lake, "check")[0]) == (0, 0)


@pytest.mark.parametrize("is_noted", [True, False])
def test_a_commit_during_an_audit_raises_no_alarm_and_is_not_confirmed(
    spark: SparkSession, lake: LakeStorage, events: Sequence[SelftestRecord], database_url: str,
    monkeypatch: pytest.MonkeyPatch, is_noted: bool,
) -> None:  # fmt: skip
    """The database knows a commit that this audit has not seen, or does not know one that it has not judged."""
    archived(lake.uri, events)

    def commit() -> None:
        bronze(lake).amend(lambda _: Change("archive", "run"))
        if is_noted:
            noted(lake)

    looked = overtaken_by(commit, monkeypatch)
    code, report = audit(lake.uri)
    assert (code, report["lake"], looked) == (0, [], [1])
    assert asyncio.run(known(database_url, lake)) == {"bronze": 2 if is_noted else 1}


@pytest.mark.parametrize("made", [typed, quarantined_table])
def test_a_log_that_a_person_restores_and_accepts_during_an_audit_stays_accepted(
    spark: SparkSession, lake: LakeStorage, events: Sequence[SelftestRecord], database_url: str,
    monkeypatch: pytest.MonkeyPatch, made: Callable[[LakeStorage], Table],
) -> None:  # fmt: skip
    """The audit opens one of these tables before its log is restored, and the other one after that."""
    archived(lake.uri, events)
    table = made(lake)
    for _ in range(2):
        table.amend(lambda _: Change("archive", "run"))
    noted(lake)

    def restored() -> None:
        newest_file(lake, table).unlink()
        LogMarks(load_settings(), lake, [made(lake)]).accept()

    overtaken_by(restored, monkeypatch)
    code, report = audit(lake.uri)
    assert (code, report["lake"]) == (0, [])
    assert asyncio.run(known(database_url, lake)) == {"bronze": 1, table.name: 1}


def overtaken_by(job: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let a job run when an audit has recalled its proofs for the first time; the numbers of these looks."""
    looks: list[int] = []

    async def recalled_before_a_job(*of: Any, **more: Any) -> AuditMemory:
        memory = await recalled(*of, **more)
        looks.append(len(looks) + 1)
        if looks == [1]:
            await asyncio.to_thread(job)
        return memory

    monkeypatch.setattr("app.cli.pipeline.audit.recalled", recalled_before_a_job)
    return looks


def retained(lake: LakeStorage, before: date) -> None:
    """Delete the days before this one, as `hookwire pipeline retain` does."""
    retain(lake, bronze(lake), before, "run")
    note_bounds(load_settings(), lake, {"": before.isoformat()})


def written_again(lake: LakeStorage, events: Sequence[SelftestRecord], hours_kept: int = 0) -> None:
    """Replace all files and delete the replaced ones, at once as an erasure does."""
    table = bronze(lake)
    basis = table.snapshot()
    whole = table.write_rows([row_of(event) for event in events], basis.files[0].values, basis.number + 1)
    table.commit(basis, Change("erase", "run", (whole,), tuple(file.path for file in basis.files)))
    table.vacuum(hours_kept, unnamed=False)


def test_only_files_that_a_later_commit_deletes_are_lost(lake: LakeStorage, events: Sequence[SelftestRecord]) -> None:
    """A commit that adds files, and one whose replaced files are still there, leave what was found as it was."""
    archived(lake.uri, events[:4])
    held = HeldLake(lake)
    found = held.bronze.snapshot()
    archived(lake.uri, events[4:])
    lost = [held.has_lost_files()]
    written_again(lake, events, hours_kept=1)
    lost.append(held.has_lost_files())
    bronze(lake).vacuum(0, unnamed=False)
    assert ([*lost, held.has_lost_files()], held.bronze.snapshot()) == ([False, False, True], found)


def test_files_that_are_deleted_while_a_lake_is_hashed_are_not_missing(
    spark: SparkSession, lake: LakeStorage, events: Sequence[SelftestRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The audit looks at the lake again, and proves the state that it finds."""
    archived(lake.uri, events)
    looked = overtaken_by(lambda: written_again(lake, events), monkeypatch)
    code, report = unbroken_audit(lake.uri)
    assert (code, report["lake"], report["records"], looked) == (0, [], 8, [1, 2])
    assert [audit(lake.uri)[1][name] for name in ("records", "remembered")] == [0, 8]


def read_after(job: Callable[[], object], monkeypatch: pytest.MonkeyPatch, times: int = 1) -> None:
    """Let a job run directly before an audit reads the files of its state, so many times."""
    left = [job] * times
    seen = LakeAudit.differences_seen

    def seen_after_a_job(self: LakeAudit, examples_max: int) -> list[str]:
        if left:
            left.pop()()
        return seen(self, examples_max)

    monkeypatch.setattr(LakeAudit, "differences_seen", seen_after_a_job)


def test_files_that_are_deleted_long_after_their_commit_are_not_missing(
    spark: SparkSession, lake: LakeStorage, events: Sequence[SelftestRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were still there when the audit had hashed them. It called them missing, and ended as of a damaged lake."""
    archived(lake.uri, events)
    looked = overtaken_by(lambda: written_again(lake, events, hours_kept=1), monkeypatch)
    read_after(lambda: bronze(lake).vacuum(0, unnamed=False), monkeypatch)
    code, report = unbroken_audit(lake.uri)
    assert (code, report["lake"], report["records"], looked) == (0, [], 8, [1, 2])


def test_an_audit_that_jobs_overtake_twice_judges_nothing(
    spark: SparkSession, lake: LakeStorage, events: Sequence[SelftestRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a lake is not damaged, so exit code 1 would be a false alarm."""
    archived(lake.uri, events)
    read_after(lambda: written_again(lake, events), monkeypatch, times=2)
    with pytest.raises(CommandFailed, match="run the audit again when they have ended") as failed:
        audit(lake.uri)
    assert failed.value.code == 2
    assert audit(lake.uri)[0] == 0


def test_a_file_that_is_really_missing_is_named_although_a_job_deletes_others(
    spark: SparkSession, lake: LakeStorage, events: Sequence[SelftestRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    archived(lake.uri, events)

    def written_again_and_damaged() -> None:
        written_again(lake, events)
        [file] = bronze(lake).snapshot().files
        lake.delete([bronze(lake).place(file)])

    read_after(written_again_and_damaged, monkeypatch)
    with pytest.raises(CommandFailed, match=r"part-0\.parquet cannot be read") as failed:
        audit(lake.uri)
    assert failed.value.code == 1


def unbroken_audit(lake_uri: str) -> tuple[int, Any]:
    """Exit code and report of an audit that has to come to its end."""
    try:
        return audit(lake_uri)
    except CommandFailed as error:
        pytest.fail(str(error))


async def known(database_url: str, lake: LakeStorage) -> dict[str, int]:
    """The newest commit of each table that the database knows."""
    async with aclosing(await connect_direct(PoolOptions(database_url))) as session:
        return {name: mark.version for name, mark in (await known_marks(session, lake)).items()}
