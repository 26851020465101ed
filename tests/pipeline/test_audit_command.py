"""`hookwire pipeline audit` against a real ledger and a lake on disk (PL-A02..A09)."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from app.cli import application
from pipeline.audit.selftest import Record, bronze_of
from pipeline.lake import Change, bronze
from pipeline.runs import runs
from pipeline.storage import Storage
from tests.app.test_ledger import carry, close_hours
from tests.relay.stage import staged

pytestmark = pytest.mark.usefixtures("restored_logging")
KEYS = "abcdefgh"


@pytest.fixture
def events(database_url: str, monkeypatch: pytest.MonkeyPatch) -> list[Record]:
    """Eight events of a closed hour, accepted and carried, as they should be in the lake."""

    async def prepared() -> tuple[str, list[int]]:
        async with staged(database_url) as stage:
            ids = await carry(stage, *KEYS)
            await close_hours(stage)
            return await stage.connection.fetchval("SELECT incarnation FROM hookwire.installation"), ids

    monkeypatch.setenv("HOOKWIRE_DATABASE_URL", database_url)
    incarnation, ids = asyncio.run(prepared())
    return [Record(n, key, b"x", n, incarnation=incarnation) for n, key in zip(ids, KEYS, strict=True)]


def archived(spark: SparkSession, lake_uri: str, records: Sequence[Record]) -> None:
    table = bronze(Storage(lake_uri))
    basis = table.snapshot()
    table.commit(basis, Change("archive", "run", table.write(bronze_of(spark, records), basis.version + 1)))


def audit(lake_uri: str, *options: str) -> tuple[int, Any]:
    """Exit code and report."""
    words = ["pipeline", "audit", "--lake", lake_uri, "--json", *options]
    done = CliRunner().invoke(application(), words, catch_exceptions=False)
    return done.exit_code, json.loads(done.stdout)


def test_a_whole_lake_is_clean(spark: SparkSession, lake_uri: str, events: list[Record]) -> None:
    """PL-A04, PL-A09: ledger, lake and, by --contents, every payload agree."""
    archived(spark, lake_uri, events)
    code, report = audit(lake_uri, "--contents")
    found = {name: report[name] for name in ("records", "unequal", "unjudged", "findings", "count")}
    assert (code, found) == (0, {"records": 8, "unequal": 0, "unjudged": [], "findings": [], "count": 0})
    assert [(run.job, run.state, run.counts["records"]) for run in runs(Storage(lake_uri))] == [("audit", "done", 8)]


def test_what_is_missing_doubled_and_out_of_order_is_named(
    spark: SparkSession, lake_uri: str, events: list[Record]
) -> None:
    """PL-A08, PL-A09: each by its event id, and the exit code is 1."""
    last = events[-1].number
    twice, swapped = replace(events[1], offset=last + 1), replace(events[2], key="d", offset=last + 2)
    archived(spark, lake_uri, [events[1], *events[3:], twice, swapped])
    code, report = audit(lake_uri)
    assert code == 1
    assert {(f["fault"], tuple(f["examples"])) for f in report["findings"]} == {
        ("lost", (events[0].event_id,)),
        ("duplicated", (events[1].event_id,)),
        ("reordered", (events[2].event_id,)),
    }


def test_an_empty_lake_is_no_clean_lake(spark: SparkSession, lake_uri: str, events: list[Record]) -> None:
    code, report = audit(lake_uri, "--examples", "8")
    (found,) = report["findings"]
    assert (code, found["fault"], found["examples"]) == (1, "lost", sorted(event.event_id for event in events))
