"""The lake's erasures are confirmed by the database: the notes in the lake can be forged by whoever writes to it."""

import asyncio
import json
from typing import Any

from pyspark.sql import SparkSession
from typer.testing import CliRunner

from app.cli.main import application
from app.maintenance.retention import Removed
from pipeline.audit.selftest import SelftestRecord
from tests.app.conftest import opened
from tests.app.maintenance.test_retention import retention
from tests.pipeline.test_audit_command import archived, audit, events
from tests.pipeline.test_tampering import executed

__all__ = ["events"]


def erased_from(lake_uri: str, *words: str) -> Any:
    done = CliRunner().invoke(application("pipeline"), ["pipeline", "erase", "--lake", lake_uri, "--json", *words])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_an_erasure_counts_as_one_only_if_the_database_knows_it(
    spark: SparkSession, lake_uri: str, events: list[SelftestRecord], database_url: str
) -> None:
    """GP-02: a row deleted and a row forged in `erased` was a clean lake.

    A note that the database does not know is a finding as long as it has the contents, else unconfirmed. A record that
    it calls erased is a finding.
    """
    first, second = (event.number for event in events[:2])

    def change(statement: str, *values: object) -> None:
        asyncio.run(executed(database_url, statement, *values))

    archived(lake_uri, events)
    done = erased_from(lake_uri, "--event", events[0].event_id)
    verdicts = [audit(lake_uri)]
    change("UPDATE hookwire.erased_events SET event_id = $2 WHERE event_id = $1", first, second)
    verdicts.append(audit(lake_uri))
    change("DELETE FROM hookwire.erased_events")
    change("UPDATE hookwire.topics SET retention_days = 1")
    change("DELETE FROM hookwire.events WHERE id = $1", first)
    verdicts.append(audit(lake_uri))
    confirmed = erased_from(lake_uri, "--confirm")

    told = [(code, report["erased"], [*report["unconfirmed"]], len(report["lake"])) for code, report in verdicts]
    assert told == [(0, 1, [], 0), (1, 1, [], 2), (2, 1, [events[0].event_id], 0)]
    assert [event.event_id in text for event, text in zip(events, verdicts[1][1]["lake"], strict=False)] == [True, True]
    assert (done["confirmed"], confirmed) == (1, {"noted": 1, "confirmed": 1})


async def test_the_note_of_a_lakes_erasure_stays_as_long_as_the_ledger(database_url: str) -> None:
    """Its event may be gone long before; the audit still compares the hour."""
    async with opened(database_url) as (database, sql):
        await database.execute("erasure.confirm_lake", "default", [1, 2])
        await sql.execute("UPDATE hookwire.erased_events SET lake_at = now() - interval '401 days' WHERE event_id = 1")
        removed = await retention(database).once()
        left = [row["event_id"] for row in await sql.fetch("SELECT event_id FROM hookwire.erased_events")]

    assert (removed, left) == (Removed(erased=1), [2])
