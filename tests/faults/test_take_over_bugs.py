"""Each seeded bug of a take-over is found by a check that holds without it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

import db.bound
from app.bridges import claim_record
from app.bridges.claim_record import ClaimRecord, dead_claims
from app.chaos.seeded_bugs import SEEDED_BUGS
from db.statements import STATEMENTS
from tests.webhooks.harness import Harness, delivery_harness
from webhooks.outcome import Outcome
from webhooks.result import Result
from webhooks.retry import DELIVERED
from webhooks.settlement import write_results

SEEDED = pytest.mark.parametrize("seeded", [True, False], ids=["seeded", "without"])


@SEEDED
def test_a_process_that_lives_keeps_its_claims(seeded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TO-02, OR-03"""
    monkeypatch.setattr(claim_record, "_lock", claim_record._lock)  # restored afterwards
    record = ClaimRecord.create(tmp_path, "aaaaaaaa")
    assert record is not None
    record.note([3])
    if seeded:
        SEEDED_BUGS["death-by-pid"]()
    try:
        assert [dead.fences for dead in dead_claims(tmp_path, "aaaaaaaa")] == ([[3]] if seeded else [])
    finally:
        record.remove()


@SEEDED
async def test_the_settlement_of_a_former_owner_changes_nothing(
    seeded: bool, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TO-02, OR-03: it was on its way when its worker died."""
    monkeypatch.setattr(db.bound, "STATEMENTS", STATEMENTS)  # restored afterwards
    if seeded:
        SEEDED_BUGS["take-over-keeps-fence"]()
    async with delivery_harness(database_url) as harness:
        claim = await claimed(harness)
        await harness.database.fetch("delivery.take_over", [claim.fence])
        await write_results(harness.database, [claim], "dead")
        assert len(await harness.deliveries()) == (0 if seeded else 1)


async def claimed(harness: Harness) -> Result:
    """Return what the worker that holds the only delivery would settle."""
    subscription = await harness.subscribe("http://127.0.0.1:9/")
    [event] = await harness.deliver(b"{}")
    [row] = await harness.database.fetch("delivery.claim", [subscription], [1], 600.0, 0.0, None)
    return Result(
        event, subscription, row["fence"], row["version"], datetime.now(UTC), Outcome("delivered", 204), DELIVERED
    )
