"""A lake that is older than the ledger, which deletes its cells after 400 days: what an audit can still judge."""

from __future__ import annotations

import asyncio
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import asyncpg
import pyarrow.parquet as pq
import pytest

from pipeline.audit.proof import shrunk
from pipeline.delta.snapshot import Change, DataFile, Snapshot, State
from pipeline.lake import bronze
from pipeline.storage import LakeStorage
from tests.app.maintenance.test_ledger import carry, folded, pretend
from tests.pipeline.foreign import batch, pipeline, row
from tests.pipeline.test_audit_command import audit
from tests.relay.harness import relay_harness

AGED = datetime.combine(datetime.now(UTC).date() - timedelta(days=400), time(9, 7), UTC)
"""The ledger forgets this day today or tomorrow."""
YOUNG = AGED + timedelta(days=300)


@pytest.fixture
def aged_lake(lake_uri: str, database_url: str, monkeypatch: pytest.MonkeyPatch) -> LakeStorage:
    """Four records of a day that ledger and database have forgotten, and four of a day that they know."""
    return archived(lake_uri, database_url, monkeypatch, AGED, AGED - timedelta(days=2))


def archived(
    lake_uri: str, url: str, monkeypatch: pytest.MonkeyPatch, old_at: datetime, since_at: datetime
) -> LakeStorage:
    """A lake with four records of ``old_at``, of which the ledger knows nothing, and four of ``YOUNG``."""
    monkeypatch.setenv("HOOKWIRE_DATABASE_URL", url)
    lake = LakeStorage(lake_uri)
    name, old, new = asyncio.run(accepted(url, old_at, since_at))
    for numbers, at in ((old, old_at), (new, YOUNG)):
        rows = [of_event(number, key, at, name) for number, key in zip(numbers, "abcd", strict=True)]
        batch(bronze(lake), *rows, day=at.date())
    return lake


def of_event(number: int, key: str, at: datetime, name: str) -> dict[str, Any]:
    times = {"timestamp": at, "accepted_at": at, "archived_at": at}
    return row(number, key, value=b"x", event_id=f"evt_{name}_{number}", **times)


async def accepted(url: str, old_at: datetime, since_at: datetime) -> tuple[str, list[int], list[int]]:
    async with relay_harness(url) as harness:
        old, new = [await carry(harness, *"abcd") for _ in range(2)]
        await pretend(harness)
        run = harness.connection.execute
        await run("UPDATE hookwire.events SET accepted_at = $2 WHERE id = ANY($1)", old, old_at)
        await run("UPDATE hookwire.events SET accepted_at = $2 WHERE id = ANY($1)", new, YOUNG)
        await run("UPDATE hookwire.ledger_cursor SET since_at = $1", since_at)
        await folded(harness)
        await run("DELETE FROM hookwire.events WHERE id = ANY($1)", old)
        await run("DELETE FROM hookwire.ledger WHERE hour < $1", old_at + timedelta(minutes=1))
        return await harness.connection.fetchval("SELECT incarnation FROM hookwire.installation"), old, new


def proved(url: str, lake: LakeStorage) -> None:
    """Plant what an audit of a year ago has stored of the aged day."""

    async def stored() -> None:
        connection = await asyncpg.connect(url)
        await connection.execute(
            "INSERT INTO hookwire.lake_proofs (lake, day, topic, digest, records, unproved, unsealed)"
            " VALUES ($1, $2, 'orders', 'a', 4, 0, 0)", lake.uri, AGED.date(),
        )  # fmt: skip
        await connection.close()

    asyncio.run(stored())


def told(report: dict[str, Any]) -> tuple[int, int, int, list[Any], int]:
    return report["records"], report["remembered"], report["outside"], report["findings"], len(report["lake"])


def test_days_that_the_ledger_has_forgotten_are_left_out_and_later_ones_stay_proved(
    aged_lake: LakeStorage, database_url: str
) -> None:
    """Their records were called phantoms, and no day behind them stayed proved. If some are missing, it is told."""
    proved(database_url, aged_lake)
    audits = [audit(aged_lake.uri) for _ in range(2)]
    assert [(code, told(report)) for code, report in audits] == [(0, (4, 0, 4, [], 0)), (0, (0, 4, 4, [], 0))]

    gone = tuple(file.path for file in bronze(aged_lake).snapshot().files if file.day == AGED.date())
    bronze(aged_lake).amend(lambda _: Change("compact", "run", removed=gone))
    code, report = audit(aged_lake.uri)
    said = (
        f"bronze: 4 records of orders on {AGED.date()} were proved, and 0 are there. The ledger does not know this day "
    )
    assert (code, told(report)[:4], [each.startswith(said) for each in report["lake"]]) == (1, (0, 4, 0, []), [True])

    assert audit(aged_lake.uri, "--again")[1]["lake"] == report["lake"]
    assert pipeline(aged_lake, "accept-log", "--table", "bronze")[0] == 0
    code, report = audit(aged_lake.uri)
    assert (code, told(report)) == (0, (4, 0, 0, [], 0))


def test_a_day_on_which_the_ledger_began_is_proved_too(
    lake_uri: str, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The events of the ledger's first hour are not judged. So this day was never proved, nor any later one."""
    lake = archived(lake_uri, database_url, monkeypatch, YOUNG - timedelta(hours=1), YOUNG - timedelta(hours=1))
    audits = [audit(lake.uri) for _ in range(2)]
    assert [(code, told(report)) for code, report in audits] == [(0, (4, 0, 4, [], 0)), (0, (0, 8, 0, [], 0))]


def test_a_copy_of_an_event_in_a_folder_older_than_the_ledger_is_named(aged_lake: LakeStorage) -> None:
    """Such a folder is not read. Its files are compared, and if they changed, the audit begins anew."""
    assert audit(aged_lake.uri)[0] == 0
    table = bronze(aged_lake)
    [file] = [each for each in table.snapshot().files if each.day == YOUNG.date()]
    with aged_lake.open(f"bronze/{file.path}") as opened:
        [first, *_] = pq.read_table(opened).to_pylist()
    batch(table, {**first, "accepted_at": AGED, "archived_at": AGED, "offset": 10**6}, day=AGED.date())
    code, report = audit(aged_lake.uri)
    assert (code, report["remembered"]) == (1, 0)
    assert [(each["fault"], each["examples"]) for each in report["findings"]] == [("duplicated", [first["event_id"]])]


DAY = date(2026, 1, 15)


@pytest.mark.parametrize(
    ("present", "erased", "kept", "count"),
    [(4, 0, "", 0), (3, 0, "", 1), (0, 0, "", 1), (3, 1, "", 0), (0, 0, "2026-01-16", 0)],
    ids=["whole", "a record is missing", "all are missing", "it was erased", "retention deleted the day"],
)
def test_a_day_has_shrunk_if_a_record_is_missing_and_nothing_explains_it(
    present: int, erased: int, kept: str, count: int
) -> None:
    files, notes = ([of(rows)] if rows else [] for rows in (present, erased))
    found = shrunk(
        {(DAY, "orders"): 4}, Snapshot(files=files, state=State(kept={"orders": kept})), Snapshot(files=notes)
    )
    assert len(found) == count


def of(rows: int) -> DataFile:
    return DataFile("a.parquet", rows, 100, partition={"dt": DAY.isoformat(), "topic": "orders"})
