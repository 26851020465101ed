"""`hookwire pipeline audit` on rows whose seals cannot be proved: each is counted or named, none for ever (GP-04)."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from pathlib import Path

import asyncpg
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from typer.testing import CliRunner

from app.cli.failure import CommandFailed
from app.cli.main import application
from app.cli.pipeline.options import seal_keys_of
from app.settings.settings import load_settings
from pipeline.audit.seal import SealKeys, sealed
from pipeline.audit.selftest import SelftestRecord, bronze_of
from pipeline.delta.snapshot import Change
from pipeline.lake import bronze
from pipeline.schema import SEAL
from pipeline.storage import LakeStorage
from scripts.servers.kafka import KafkaServer
from tests.pipeline.broker import make, record_of, write
from tests.pipeline.test_audit_command import audit, events
from tests.pipeline.test_audit_omissions import done
from tests.pipeline.test_tampering import executed, found_in, put

__all__ = ["events"]

FIRST, SECOND = (base64.b64encode(bytes(range(start, start + 32))).decode() for start in (0, 32))


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOOKWIRE_SECRET_KEYS", f"k1:{FIRST}")
    monkeypatch.setenv("HOOKWIRE_DATA_DIR", str(tmp_path / "data"))


async def fetched(url: str, query: str) -> list[tuple[object, ...]]:
    connection = await asyncpg.connect(url)
    rows = [tuple(row) for row in await connection.fetch(query)]
    await connection.close()
    return rows


def archived(
    spark: SparkSession, lake_uri: str, records: Sequence[SelftestRecord], keys: SealKeys | None = None
) -> None:
    """A batch with the seals of the settings, or of these keys."""
    put(lake_uri, sealed(bronze_of(spark, records), seal_keys_of(load_settings()) if keys is None else keys))


def without_seals(spark: SparkSession, lake_uri: str) -> None:
    """Take the seals off all rows, as whoever alters a row would."""
    table = bronze(LakeStorage(lake_uri))
    basis = table.snapshot()
    rows = table.read(spark).withColumns({name: F.lit(None).cast("string") for name in SEAL})
    change = Change(
        "compact", "run", table.write(rows.coalesce(1), basis.number + 1), tuple(f.path for f in basis.files)
    )
    table.commit(basis, change)


EARLIER = "UPDATE hookwire.lake_seals SET sealed_from = '2026-01-15T09:00Z'"
ACCEPTED = "SELECT sealed_from > '2026-01-16' AND sealed_from <= now(), unproved FROM hookwire.lake_seals"


def test_rows_of_before_are_counted_and_more_of_them_are_named(
    spark: SparkSession, lake_uri: str, events: Sequence[SelftestRecord], database_url: str
) -> None:
    """An older version's rows are no finding. `accept-seals` lets the present ones count."""
    archived(spark, lake_uri, events[:4], SealKeys())
    archived(spark, lake_uri, events[4:])
    code, report = audit(lake_uri)
    assert (code, report["count"], report["unsealed"], report["sealed_from"]) == (
        0, 0, 4, "2026-01-15T09:07:00.000001+00:00",
    )  # fmt: skip
    asyncio.run(executed(database_url, EARLIER))
    done(lake_uri, "accept-seals")
    assert asyncio.run(fetched(database_url, ACCEPTED)) == [(True, 4)]

    without_seals(spark, lake_uri)
    code, report = audit(lake_uri)
    [said] = report["lake"]
    assert (code, report["findings"], report["unsealed"]) == (1, [], 8)
    assert "8 records of before" in said
    assert "the database knows of 4" in said


@pytest.mark.slow
def test_rows_of_before_are_named_until_they_are_accepted(
    spark: SparkSession, lake_uri: str, events: Sequence[SelftestRecord], database_url: str
) -> None:
    """One archive without the keys is a finding, and not for ever."""
    archived(spark, lake_uri, events[:4], SealKeys())
    report = audit(lake_uri)[1]
    assert (report["unsealed"], report["sealed_from"]) == (4, None)
    archived(spark, lake_uri, events[4:])
    assert audit(lake_uri)[0] == 0
    asyncio.run(executed(database_url, EARLIER))
    code, report = audit(lake_uri)
    unsealed = {("unsealed", event.event_id) for event in events[:4]}
    assert (code, found_in(report), report["unsealed"]) == (1, unsealed, 0)
    done(lake_uri, "accept-seals")
    code, report = audit(lake_uri)
    assert (code, report["count"], report["unsealed"]) == (0, 0, 4)


def test_rows_of_another_secret_are_named_so_and_a_rotation_keeps_the_former_ones(
    spark: SparkSession, lake_uri: str, events: Sequence[SelftestRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are not altered. The audit cannot judge them, and says so by its exit code."""
    archived(spark, lake_uri, events[:4])
    monkeypatch.setenv("HOOKWIRE_SECRET_KEYS", f"k1:{SECOND}")
    archived(spark, lake_uri, events[4:])
    code, report = audit(lake_uri)
    other = {("sealed with another key", event.event_id) for event in events[:4]}
    assert (code, found_in(report), report["count"]) == (2, other, 1)
    monkeypatch.setenv("HOOKWIRE_SECRET_KEYS", f"k2:{SECOND},k1:{FIRST}")
    code, report = audit(lake_uri)
    assert (code, report["findings"], report["unsealed"]) == (0, [], 0)


@pytest.mark.parametrize("rounds", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_the_archive_seals_with_the_hubs_keys_and_says_if_they_are_not_here(
    kafka: KafkaServer, topic: str, spark: SparkSession, lake_uri: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    database_url: str, rounds: int,
) -> None:  # fmt: skip
    """It makes no key file, which would be another installation's. The database knows the first seals at once, and the
    name of their key: somebody could take them off until an audit, and a stray key file sealed with no word.
    """
    monkeypatch.setenv("HOOKWIRE_DATABASE_URL", database_url)
    monkeypatch.setenv("HOOKWIRE_KAFKA_BOOTSTRAP_SERVERS", kafka.bootstrap)
    make(kafka, topic)
    said = []
    known = []
    keys_of_rounds = (None, f"k1:{FIRST}", f"k2:{SECOND},k1:{FIRST}", f"k1:{FIRST}")
    for number, keys in enumerate(keys_of_rounds[:rounds], 1):
        monkeypatch.delenv("HOOKWIRE_SECRET_KEYS", raising=False)
        if keys is not None:
            monkeypatch.setenv("HOOKWIRE_SECRET_KEYS", keys)
        write(kafka, topic, [record_of(SelftestRecord(number, "a", b"x", number))])
        words = ["pipeline", "archive", "--topic", topic, "--lake", lake_uri]
        ended = CliRunner().invoke(application("pipeline"), words, catch_exceptions=False)
        signs = ("the records get no seals", "seals the records", "which is not here")
        said.append((ended.exit_code, [sign in ended.stderr for sign in signs]))
        known.append(asyncio.run(fetched(database_url, "SELECT unproved, seal_key FROM hookwire.lake_seals")))
    rows = bronze(LakeStorage(lake_uri)).read(spark).orderBy("event_number").select("seal", "seal_key").collect()
    assert said == [
        (0, [True, False, False]), (0, [False, True, False]), (0, [False, True, False]), (0, [False, True, True]),
    ][:rounds]  # fmt: skip
    names = [row.seal_key for row in rows]
    assert (
        [row.seal is None for row in rows] == [name is None for name in names] == [True, False, False, False][:rounds]
    )
    assert [names.index(name) for name in names] == [0, 1, 2, 1][:rounds]
    assert known == [[], *([(1, names[place])] for place in (1, 2, 2)[: rounds - 1])]
    assert not (tmp_path / "data" / "secret.keys").exists()


def test_accept_seals_refuses_a_lake_without_records(tmp_path: Path) -> None:
    """A mistyped URI was accepted, and nothing told it."""
    words = ["pipeline", "accept-seals", "--lake", str(tmp_path / "typo")]
    with pytest.raises(CommandFailed, match="no archived record") as refused:
        CliRunner().invoke(application("pipeline"), words, catch_exceptions=False)
    assert refused.value.code == 2
