"""`hookwire pipeline audit` on rows whose seals cannot be proved: each is counted or named, none for ever (GP-04)."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from app.cli.main import application
from app.cli.pipeline.options import seal_keys_of
from app.settings.settings import load_settings
from pipeline.audit.seal import SealKeys, sealed
from pipeline.audit.selftest import SelftestRecord, bronze_of
from pipeline.lake import bronze
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


def archived(
    spark: SparkSession, lake_uri: str, records: Sequence[SelftestRecord], keys: SealKeys | None = None
) -> None:
    """A batch with the seals of the settings, or of these keys."""
    put(lake_uri, sealed(bronze_of(spark, records), seal_keys_of(load_settings()) if keys is None else keys))


def test_rows_of_before_are_counted_and_later_ones_are_named_until_they_are_accepted(
    spark: SparkSession, lake_uri: str, events: Sequence[SelftestRecord], database_url: str
) -> None:
    """An older version's rows are no finding. One archive without the keys is one, and not for ever."""
    archived(spark, lake_uri, events[:4], SealKeys())
    seen = [audit(lake_uri)[1]]
    archived(spark, lake_uri, events[4:])
    code, report = audit(lake_uri)
    assert [(each["unsealed"], each["sealed_from"]) for each in (*seen, report)] == [
        (4, None), (4, "2026-01-15T09:07:00.000001+00:00"),
    ]  # fmt: skip
    assert (code, report["count"]) == (0, 0)

    earlier = "UPDATE hookwire.lake_seals SET sealed_from = '2026-01-15T09:00Z'"
    asyncio.run(executed(database_url, earlier))
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


def test_the_archive_seals_with_the_hubs_keys_and_says_if_they_are_not_here(
    kafka: KafkaServer, topic: str, spark: SparkSession, lake_uri: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It makes no key file, which would be another installation's."""
    monkeypatch.setenv("HOOKWIRE_KAFKA_BOOTSTRAP_SERVERS", kafka.bootstrap)
    make(kafka, topic)
    said = []
    for number, keys in ((1, None), (2, f"k1:{FIRST}")):
        monkeypatch.delenv("HOOKWIRE_SECRET_KEYS", raising=False)
        if keys is not None:
            monkeypatch.setenv("HOOKWIRE_SECRET_KEYS", keys)
        write(kafka, topic, [record_of(SelftestRecord(number, "a", b"x", number))])
        words = ["pipeline", "archive", "--topic", topic, "--lake", lake_uri]
        ended = CliRunner().invoke(application("pipeline"), words, catch_exceptions=False)
        said.append((ended.exit_code, "the records get no seals" in ended.stderr))
    rows = bronze(LakeStorage(lake_uri)).read(spark).orderBy("event_number").select("seal", "seal_key").collect()
    assert said == [(0, True), (0, False)]
    assert [(row.seal is None, row.seal_key is None) for row in rows] == [(True, True), (False, False)]
    assert not (tmp_path / "data" / "secret.keys").exists()
