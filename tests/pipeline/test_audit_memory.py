"""An audit remembers what it has proved, and no longer than it is true (FP-10)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pipeline.audit.digest import digests, spread
from pipeline.audit.proof import Proof, Proofs
from pipeline.audit.selftest import HOUR, SelftestRecord
from pipeline.delta.snapshot import Change, Snapshot
from pipeline.lake import bronze
from pipeline.storage import LakeStorage
from tests.app.maintenance.test_ledger import carry, folded, pretend
from tests.pipeline.foreign import AT, batch, row, row_of
from tests.pipeline.test_audit_command import audit
from tests.pipeline.test_tampering import executed, found_in
from tests.relay.harness import Harness, relay_harness

KEYS = "abcabcab"
DAYS = (3, 3, 2)
"""How many of these events are of each day, from HOUR on."""
D = [date(2026, 1, 15) + timedelta(days=n) for n in range(4)]

Row = dict[str, Any]


def day_of(place: int) -> int:
    return place // DAYS[0]


@pytest.fixture
def events(database_url: str, monkeypatch: pytest.MonkeyPatch) -> list[SelftestRecord]:
    """Events of three days, accepted and carried."""

    async def spread(harness: Harness, ids: Sequence[int]) -> None:
        await pretend(harness)
        for place, number in enumerate(ids):
            later = "UPDATE hookwire.events SET accepted_at = accepted_at + $2 WHERE id = $1"
            await harness.connection.execute(later, number, timedelta(days=day_of(place)))
        await folded(harness)

    async def prepared() -> tuple[str, list[int]]:
        async with relay_harness(database_url) as harness:
            ids = await carry(harness, *KEYS)
            await spread(harness, ids)
            return await harness.connection.fetchval("SELECT incarnation FROM hookwire.installation"), ids

    monkeypatch.setenv("HOOKWIRE_DATABASE_URL", database_url)
    incarnation, ids = asyncio.run(prepared())
    return [SelftestRecord(n, key, b"x", n, incarnation=incarnation) for n, key in zip(ids, KEYS, strict=True)]


@pytest.fixture
def put(spark: SparkSession, lake_uri: str) -> Callable[..., None]:
    """Archive records on their days, or all on one; ``moved`` raises their offsets, ``folder`` is another day's.

    No job of Spark's writes them. The session is for the audit.
    """

    def archived(
        records: Sequence[SelftestRecord], days: Sequence[float], moved: int = 0, folder: int | None = None
    ) -> None:
        table = bronze(LakeStorage(lake_uri))
        for record, day in zip(records, days, strict=True):
            columns = row_of(record)
            times = {name: columns[name] + timedelta(days=day) for name in ("timestamp", "accepted_at", "archived_at")}
            at = D[0] + timedelta(days=day if folder is None else folder)
            batch(table, columns | times | {"offset": record.offset + moved}, day=at)

    return archived


def judged(report: Row) -> tuple[int, int, int]:
    return report["records"], report["remembered"], report["outside"]


def test_a_proved_day_is_read_again_only_when_a_byte_of_it_has_changed(
    lake_uri: str, events: Sequence[SelftestRecord], put: Callable[..., None], tmp_path: Path, database_url: str
) -> None:
    """FP-10: and a swapped file, a copy under another day and an altered ledger are named as before."""
    put(events, [day_of(place) for place in range(len(events))])
    assert [(code, judged(report)) for code, report in (audit(lake_uri), audit(lake_uri))] == [
        (0, (8, 0, 0)), (0, (0, 8, 0)),
    ]  # fmt: skip
    assert audit(lake_uri)[1]["unsealed"] == len(events), "those of proved days are counted, too"
    assert [judged(audit(lake_uri, option)[1]) for option in ("--again", "--contents")] == [(8, 0, 0)] * 2

    file = next(each for each in bronze(LakeStorage(lake_uri)).snapshot().files if f"dt={D[0]}" in each.path)
    path = tmp_path / "lake" / "bronze" / file.path
    whole = path.read_bytes()
    rows = pq.ParquetFile(path).read()
    place = rows.schema.get_field_index("value")
    pq.write_table(rows.set_column(place, rows.schema.field(place), pa.array([b"y"], pa.binary())), path)
    code, report = audit(lake_uri)
    assert (code, judged(report), {fault for fault, _ in found_in(report)}) == (1, (8, 0, 0), {"altered"})
    path.write_bytes(whole)
    assert judged(audit(lake_uri)[1]) == (0, 8, 0)

    put(events[:1], [1], moved=1000)
    code, report = audit(lake_uri)
    assert (code, report["remembered"]) == (1, 3)
    assert found_in(report) == {(fault, events[0].event_id) for fault in ("duplicated", "misplaced")}

    asyncio.run(
        executed(database_url, "UPDATE hookwire.ledger SET owed_content = owed_content + 1 WHERE hour = $1", HOUR)
    )
    code, report = audit(lake_uri)
    assert (code, report["remembered"]) == (1, 0)


def test_executors_hash_as_threads_do(spark: SparkSession, lake_uri: str) -> None:
    """GP-09: on a cluster no machine hashes the whole lake alone."""
    lake, table = LakeStorage(lake_uri), bronze(LakeStorage(lake_uri))
    for number in range(1, 6):
        batch(table, row(number))
    paths = [*(table.place(file) for file in table.snapshot().files), "bronze/gone.parquet"]
    found = spread(spark, lake, paths)
    assert (found, found[-1]) == (digests(spark, lake, paths), "missing")
    assert found[:-1] == [lake.sha256(path) for path in paths[:-1]]


def test_what_was_found_wrong_is_not_remembered_as_proved(
    lake_uri: str, events: Sequence[SelftestRecord], put: Callable[..., None], database_url: str
) -> None:
    """FP-10: nor is a day that was judged only in part."""
    put(events[1:], [day_of(place) for place in range(1, len(events))])
    codes = [audit(lake_uri)[0] for _ in range(2)]
    assert (codes, asyncio.run(stored(database_url))) == ([1, 1], [])
    put(events[:1], [0])
    assert audit(lake_uri, "--until", f"{D[2]:%Y-%m-%d}T10:00Z")[0] == 0
    assert asyncio.run(stored(database_url)) == []
    assert (audit(lake_uri)[0], asyncio.run(stored(database_url))) == (0, D[:3])


def test_keys_are_compared_across_the_last_proved_midnight(
    lake_uri: str, events: Sequence[SelftestRecord], put: Callable[..., None]
) -> None:
    """GP-09: of the proved day only the order is read. Nothing else shows that a former leader sent this."""
    put(events, [day_of(place) for place in range(len(events))])
    assert audit(lake_uri)[0] == 0
    taken(lake_uri, D[2])
    put([replace(events[6], term=6), events[7]], [2, 2])
    code, report = audit(lake_uri)
    assert (code, judged(report), found_in(report)) == (1, (2, 6, 0), {("stale term", events[6].event_id)})


def test_a_record_of_a_proved_day_in_a_later_folder_is_named(
    lake_uri: str, events: Sequence[SelftestRecord], put: Callable[..., None]
) -> None:
    """GP-09: no later audit would read it. It was silent if its day was not the last proved one."""
    put(events, [day_of(place) for place in range(len(events))])
    assert audit(lake_uri)[0] == 0
    put(events[:1], [0], moved=1000, folder=2)
    code, report = audit(lake_uri)
    assert (code, found_in(report)) == (1, {("misplaced", events[0].event_id)})


def test_a_day_with_a_record_that_nobody_has_judged_yet_is_not_proved(
    lake_uri: str, events: Sequence[SelftestRecord], put: Callable[..., None], database_url: str
) -> None:
    """GP-09: its hour is still open, and a later audit would not look into this folder again."""
    put(events, [day_of(place) for place in range(len(events))])
    until_now = (datetime.now(UTC) - AT) / timedelta(days=1)
    put([replace(events[0], number=events[-1].number + 9, key="z")], [until_now], folder=2)
    code, report = audit(lake_uri)
    assert (code, judged(report), asyncio.run(stored(database_url))) == (0, (8, 0, 1), D[:2])


def test_a_day_with_an_event_that_kafka_has_yet_to_get_is_not_proved(
    lake_uri: str, events: Sequence[SelftestRecord], put: Callable[..., None], database_url: str
) -> None:
    """GP-09: neither its files nor its cells in the ledger would change, if the record were lost on the way."""

    async def waits() -> None:
        async with relay_harness(database_url) as harness:
            [number] = await harness.publish("z")
            later = "UPDATE hookwire.events SET accepted_at = $2 WHERE id = $1"
            await harness.connection.execute(later, number, HOUR + timedelta(days=1, minutes=8))
            await folded(harness)

    asyncio.run(waits())
    put(events, [day_of(place) for place in range(len(events))])
    code, report = audit(lake_uri)
    assert (code, report["unequal"], asyncio.run(stored(database_url))) == (0, 1, [D[0], D[2]])


def taken(lake_uri: str, day: date) -> None:
    """Remove the files of a day."""
    table = bronze(LakeStorage(lake_uri))
    gone = tuple(file.path for file in table.snapshot().files if file.day == day)
    table.amend(lambda _: Change("compact", "run", removed=gone))


async def stored(url: str) -> list[date]:
    connection = await asyncpg.connect(url)
    rows = await connection.fetch("SELECT day FROM hookwire.lake_proofs ORDER BY day")
    await connection.close()
    return [row["day"] for row in rows]


@pytest.mark.parametrize(
    ("proved", "last"),
    [
        ([], None),
        ([0], 0),
        ([0, 1, 2], 2),
        ([0, 2], 0),
        ([1, 2], None),
    ],
)
def test_an_audit_begins_after_the_last_day_that_stands(proved: list[int], last: int | None) -> None:
    """FP-10: a proved day behind one that changed is read again."""
    days = {(D[n], topic): Proof(f"{n} {topic}", 1) for n in range(3) for topic in ("orders", "carts")}
    before = {place: proof for place, proof in days.items() if D.index(place[0]) in proved}
    present = Proofs(Snapshot(), days)
    found = present.last_proved_day(before)
    assert found == (None if last is None else D[last])
    one_changed = before | {(D[0], "carts"): Proof("other", 1)}
    assert present.last_proved_day(one_changed) is None
