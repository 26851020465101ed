"""A lake that is older than the ledger: what nobody can judge is counted, and what was proved stays watched."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from typer.testing import CliRunner

from app.cli.failure import CommandFailed
from app.cli.main import application
from pipeline.audit.digest import digests
from pipeline.audit.proof import plain
from pipeline.audit.selftest import HOUR, SelftestRecord
from pipeline.erasure import erased_table
from pipeline.lake import Table, bronze
from pipeline.repair.words import statistics
from pipeline.runs import runs
from pipeline.storage import LakeStorage
from tests.pipeline.foreign import batch, row_of
from tests.pipeline.test_audit_command import audit
from tests.pipeline.test_audit_memory import D, day_of, events, judged, put, stored, taken
from tests.pipeline.test_audit_omissions import done
from tests.pipeline.test_held import overtaken_by, read_after, retained, unbroken_audit
from tests.pipeline.test_tampering import executed, found_in

__all__ = ["events", "put"]

_KEEP = """
CREATE OR REPLACE FUNCTION hookwire.ledger_kept() RETURNS interval LANGUAGE sql IMMUTABLE RETURN '{} seconds'::interval
"""

_SECOND_TOPIC = """
INSERT INTO hookwire.lake_proofs (lake, day, topic, digest, records, unproved, files)
SELECT lake, day, 'carts', '', 0, 0, '{}' FROM hookwire.lake_proofs WHERE day = '2026-01-15'
"""
_LOG = r"""
{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}
{"metaData":{"id":"7","format":{"provider":"parquet","options":{}},"schemaString":"{\"type\":\"struct\",\"fields\":[{\"name\":\"offset\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}},{\"name\":\"accepted_at\",\"type\":\"timestamp\",\"nullable\":true,\"metadata\":{}},{\"name\":\"event_id\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}},{\"name\":\"key\",\"type\":\"binary\",\"nullable\":true,\"metadata\":{}},{\"name\":\"topic\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}},{\"name\":\"dt\",\"type\":\"date\",\"nullable\":true,\"metadata\":{}}]}","partitionColumns":["dt","topic"],"configuration":{},"createdTime":1}}
{"add":{"path":"data/a%20b.parquet","partitionValues":{"dt":"2026-01-15","topic":"orders"},"size":7,"modificationTime":1,"dataChange":true,"stats":"{\"numRecords\":3,\"minValues\":{\"offset\":1,\"accepted_at\":\"2026-01-15T09:07:00.123Z\",\"event_id\":\"evt_a\"},\"maxValues\":{\"offset\":3,\"accepted_at\":\"2026-01-15T09:08:00Z\",\"event_id\":\"evt_ü\"},\"nullCount\":{\"offset\":0,\"key\":2}}"}}
{"add":{"path":"data/bare.parquet","partitionValues":{"dt":"2026-01-15","topic":null},"size":8,"modificationTime":2,"dataChange":true}}
"""


async def _aged(url: str, first: date) -> None:
    connection = await asyncpg.connect(url)
    noon_before = datetime.combine(first - timedelta(days=2), time(12), UTC)
    await connection.execute(_KEEP.format(round((datetime.now(UTC) - noon_before).total_seconds())))
    begin = datetime.combine(first, time(), UTC)
    await connection.execute("DELETE FROM hookwire.ledger WHERE hour < $1 AND hour > 'epoch'", begin)
    await connection.close()


def aged(url: str, first: date) -> None:
    """Let the ledger be so old that the audit judges from this day on, and purge what is older."""
    asyncio.run(_aged(url, first))


@pytest.fixture
def proved(lake_uri: str, events: Sequence[SelftestRecord], put: Callable[..., None]) -> None:
    """The events of all days are in the lake, and an audit has proved them."""
    put(events, [day_of(place) for place in range(len(events))])
    assert audit(lake_uri)[0] == 0


def test_days_that_the_ledger_has_dropped_are_left_out_and_counted(
    lake_uri: str, events: Sequence[SelftestRecord], put: Callable[..., None], database_url: str
) -> None:
    """Every record of such a day was a phantom, every night. The days after it are proved as before."""
    put(events, [day_of(place) for place in range(len(events))])
    aged(database_url, D[1])
    told = []
    for options in ((), (), ("--again",), ("--contents",)):
        code, report = audit(lake_uri, *options)
        told.append((code, judged(report), report["aged"], found_in(report)))
    assert told == [(0, (5, 0, 0), 3, set()), (0, (0, 5, 0), 3, set()), *[(0, (5, 0, 0), 3, set())] * 2]
    assert asyncio.run(stored(database_url)) == D[1:3]
    done = CliRunner().invoke(
        application("pipeline"), ["pipeline", "audit", "--lake", lake_uri], catch_exceptions=False
    )
    assert "left out: 3 records of days before 2026-01-16, which the ledger does not cover" in " ".join(
        done.stdout.split()
    )


def test_days_that_retention_deletes_while_a_lake_is_hashed_are_not_missing(
    lake_uri: str, events: Sequence[SelftestRecord], put: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(events, [day_of(place) for place in range(len(events))])
    looked = overtaken_by(lambda: retained(LakeStorage(lake_uri), D[1]), monkeypatch)
    code, report = unbroken_audit(lake_uri)
    assert (code, judged(report), report["lake"], looked) == (0, (5, 0, 0), [], [1, 2])
    assert judged(audit(lake_uri)[1]) == (0, 5, 0)


def test_days_whose_files_retention_deletes_while_they_are_read_are_not_missing(
    lake_uri: str, events: Sequence[SelftestRecord], put: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had committed when the audit had hashed the lake, and had deleted nothing yet."""
    put(events, [day_of(place) for place in range(len(events))])
    lake, late = LakeStorage(lake_uri), []
    with monkeypatch.context() as patch:
        patch.setattr(Table, "discard", lambda _, files: late.extend(files))
        looked = overtaken_by(lambda: retained(lake, D[1]), monkeypatch)
        read_after(lambda: lake.delete(map(bronze(lake).place, late)), monkeypatch)
        code, report = unbroken_audit(lake_uri)
    assert (code, judged(report), report["lake"], looked) == (0, (5, 0, 0), [], [1, 2])


@pytest.mark.usefixtures("proved")
def test_an_aged_day_that_retention_deletes_while_it_is_hashed_is_not_changed(
    lake_uri: str, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hashes of an audit lacked its files, and it had to be restored from a backup."""
    aged(database_url, D[1])

    def late_digests(*of: Any) -> list[str]:
        retained(LakeStorage(lake_uri), D[1])
        return digests(*of)

    monkeypatch.setattr("pipeline.audit.proof.digests", late_digests)
    code, report = audit(lake_uri)
    assert (code, judged(report), report["lake"]) == (0, (0, 5, 0), [])
    assert asyncio.run(stored(database_url)) == D[1:3]


@pytest.mark.usefixtures("proved")
def test_a_day_that_was_proved_in_time_stays_proved_as_long_as_its_files_do(
    lake_uri: str, events: Sequence[SelftestRecord], put: Callable[..., None], database_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Its ledger goes, the version is another, seals are accepted. A changed file is named until it is confirmed."""
    aged(database_url, D[1])
    told = [audit(lake_uri)]
    monkeypatch.setattr("app.cli.pipeline.auditing.memory.version", lambda _: "99.0")
    told += [audit(lake_uri), audit(lake_uri, "--again")]
    assert done(lake_uri, "accept-seals")["done"] == "accepted"
    told.append(audit(lake_uri))
    assert [(code, judged(report), report["aged"]) for code, report in told] == [
        (0, (0, 8, 0), 0), *[(0, (5, 3, 0), 0)] * 3,
    ]  # fmt: skip

    put(events[:1], [0], moved=1000)
    for options in ((), ("--again",), ("--contents",)):
        code, report = audit(lake_uri, *options)
        [said] = report["lake"]
        assert (code, "2026-01-15 of orders is older than the ledger, and other than it was proved: " in said) == (
            1,
            True,
        )
        assert "/dt=2026-01-15/topic=orders/part-0.parquet is new" in said
    assert [(code, judged(report)) for code, report in (audit(lake_uri, "--confirm", f"{D[0]}"), audit(lake_uri))] == [
        (0, (0, 9, 0)), (0, (0, 9, 0)),
    ]  # fmt: skip


@pytest.mark.usefixtures("proved")
def test_a_file_of_an_aged_day_that_is_altered_or_gone_is_named(
    lake_uri: str, database_url: str, tmp_path: Path
) -> None:
    """Also if its whole day is gone, and although the log agrees. What retention deletes is not."""
    aged(database_url, D[2])
    path = next((tmp_path / "lake" / "bronze").glob(f"data/*/dt={D[0]}/topic=orders/*"))
    path.write_bytes(path.read_bytes() + b" ")
    taken(lake_uri, D[1])
    code, report = audit(lake_uri)
    altered, gone = report["lake"]
    assert (code, judged(report), f"/{path.name} was altered" in altered, gone.count(" is gone")) == (
        1,
        (0, 2, 3),
        True,
        3,
    )
    done(lake_uri, "retain", "--days", str((datetime.now(UTC).date() - D[2]).days))
    assert (audit(lake_uri)[0], asyncio.run(stored(database_url))) == (0, [D[2]])


@pytest.mark.usefixtures("proved")
def test_a_proof_of_an_older_version_counts_only_while_the_ledger_covers_its_day(
    lake_uri: str, database_url: str
) -> None:
    """It has no hashes of files: it must not raise an alarm, and must not be called proved."""
    asyncio.run(executed(database_url, "UPDATE hookwire.lake_proofs SET files = NULL"))
    assert judged(audit(lake_uri)[1]) == (0, 8, 0)
    aged(database_url, D[1])
    code, report = audit(lake_uri)
    assert (code, judged(report), report["aged"]) == (0, (0, 5, 0), 3)


def test_the_words_of_the_log_are_hashed_as_by_every_version(tmp_path: Path) -> None:
    """Another form would call every day that is older than the ledger altered, after an upgrade."""
    log = tmp_path / "bronze" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020d}.json").write_text(_LOG.lstrip(), "utf-8")
    table = bronze(LakeStorage(tmp_path.as_uri()))
    words = statistics(table)
    assert [plain(words[file.path], file.values) for file in table.snapshot().files] == [
        '{"deleted_rows": false, "max.accepted_at": "2026-01-15T09:08:00+00:00", "max.event_id": "evt_\\u00fc", '
        '"max.offset": 3, "min.accepted_at": "2026-01-15T09:07:00.123000+00:00", "min.event_id": "evt_a", '
        '"min.offset": 1, "null_count.key": 2, "null_count.offset": 0, "num_records": 3, "size_bytes": 7, '
        '"values": {"dt": "2026-01-15", "topic": "orders"}}',
        '{"deleted_rows": false, "num_records": null, "size_bytes": 8, "values": {"dt": "2026-01-15", "topic": ""}}',
    ]
    assert plain({"tags": 1, "num_records": 3}, {}) == '{"num_records": 3, "values": {}}'


@pytest.mark.usefixtures("proved")
def test_one_topic_of_a_day_is_named_and_the_other_stays_proved(
    lake_uri: str, events: Sequence[SelftestRecord], database_url: str
) -> None:
    """Also where no whole day stands. A day is confirmed alone, and only a day that differs can be confirmed."""
    asyncio.run(executed(database_url, _SECOND_TOPIC))
    aged(database_url, D[2])
    table = bronze(LakeStorage(lake_uri))
    batch(table, row_of(replace(events[0], number=1)), topic="carts", day=D[0])
    batch(table, row_of(replace(events[3], number=2)), topic="orders", day=D[1])
    for options in ((), ("--again",)):
        code, report = audit(lake_uri, *options)
        assert (code, report["remembered"], report["aged"]) == (1, 3 + 2 * (options == ()), 0)
        assert [said.partition(" is older")[0] for said in report["lake"]] == [f"{D[0]} of carts", f"{D[1]} of orders"]

    for day, why in ((D[2], "is not older than the ledger"), (D[0] - timedelta(days=1), "no audit has proved it")):
        with pytest.raises(CommandFailed, match=why) as refused:
            audit(lake_uri, "--confirm", f"{D[0]}", "--confirm", f"{day}")
        assert refused.value.code == 2
    code, report = audit(lake_uri, "--confirm", f"{D[0]}")
    assert (code, report["confirmed"]) == (1, [f"{D[0]} of carts counts as proved as it is: 1 record"])
    [said] = report["lake"]
    assert said.startswith(f"{D[1]} of orders is older than the ledger")
    assert sum(run.counts.get("confirmed", 0) for run in runs(LakeStorage(lake_uri))) == 1
    assert audit(lake_uri, "--confirm", f"{D[1]}")[0] == 0
    assert (audit(lake_uri)[0], audit(lake_uri)[1]["remembered"]) == (0, 10)


def test_unsealed_records_of_aged_days_are_counted_by_every_audit(
    lake_uri: str, events: Sequence[SelftestRecord], put: Callable[..., None], database_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """A number that was too low became known, and the next audit called the same records new ones."""
    monkeypatch.setattr("app.cli.pipeline.auditing.memory._FILES_MAX", 1)
    put(events, [day_of(place) for place in range(len(events))])
    assert audit(lake_uri)[0] == 0
    aged(database_url, D[1])
    batch(bronze(LakeStorage(lake_uri)), row_of(replace(events[0], number=1)), topic="carts", day=D[0])
    done(lake_uri, "accept-seals")
    asyncio.run(
        executed(database_url, "UPDATE hookwire.lake_seals SET unproved = 8, sealed_from = '2026-01-17T09:30Z'")
    )
    for options in ((), ("--again",), ("--contents",)):
        code, report = audit(lake_uri, *options)
        assert (code, report["unsealed"], report["aged"]) == (0, 8, 1)
    assert [audit(lake_uri, *options)[0] for options in (("--until", f"{D[2]}T10:00Z"), ())] == [0, 0]


@pytest.mark.usefixtures("proved")
def test_an_erasure_note_of_an_aged_day_is_named_wherever_its_file_is(
    lake_uri: str, events: Sequence[SelftestRecord], database_url: str, tmp_path: Path
) -> None:
    """The log may name its file by a URI, which tells nothing of the table."""
    aged(database_url, D[1])
    batch(erased_table(LakeStorage(lake_uri)), {"event_id": events[0].event_id}, day=D[0])
    log = max((tmp_path / "lake" / "erased" / "_delta_log").glob("*.json"))
    log.write_text(log.read_text().replace('"path":"data/', f'"path":"{lake_uri}/erased/data/'))
    code, report = audit(lake_uri)
    [said] = report["lake"]
    assert (code, f": erased {lake_uri}/erased/data/" in said, said.count(" is new")) == (1, True, 1)


@pytest.mark.usefixtures("proved")
def test_a_compaction_of_an_aged_day_is_named(lake_uri: str, database_url: str) -> None:
    """Without the ledger nobody can show that the rows are the same. The sentence says what to do."""
    aged(database_url, D[1])
    done(lake_uri, "compact")
    code, report = audit(lake_uri)
    [said] = report["lake"]
    assert (code, said.count(" is gone"), said.count(" is new")) == (1, 3, 1)
    assert said.endswith(f"let it count as it is by `hookwire pipeline audit --confirm {D[0]}`")


def test_a_day_within_which_the_ledger_began_is_proved(
    lake_uri: str, events: Sequence[SelftestRecord], put: Callable[..., None], database_url: str
) -> None:
    """Records of its first hour are never judged, so the day was never proved, and each audit read all later days.

    A record that names such an hour in the folder of a later day kept that day from being proved, without a word.
    """
    put(events, [day_of(place) for place in range(len(events))])
    begun = "UPDATE hookwire.ledger_cursor SET since_at = $1"
    asyncio.run(executed(database_url, begun, HOUR + timedelta(minutes=5)))
    assert [judged(audit(lake_uri)[1]) for _ in range(2)] == [(5, 0, 3), (0, 5, 3)]
    put([replace(events[0], number=events[0].number + 900, key="z")], [0], folder=2)
    code, report = audit(lake_uri)
    assert (code, {fault for fault, _ in found_in(report)}) == (1, {"misplaced"})


def test_a_ledger_whose_beginning_was_moved_is_named_beside_aged_days(
    lake_uri: str, events: Sequence[SelftestRecord], put: Callable[..., None], database_url: str
) -> None:
    """Else who can write the database could let any day look aged."""
    put(events, [day_of(place) for place in range(len(events))])
    aged(database_url, D[1])
    asyncio.run(executed(database_url, "UPDATE hookwire.ledger_cursor SET since_at = $1", HOUR + timedelta(days=2)))
    code, report = audit(lake_uri)
    assert (code, "somebody moved it" in report["lake"][0]) == (1, True)
