"""Each seeded bug of a take-over is found by a check that holds without it."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path

import pytest

import db.bound
from app.bridges import claim_record
from app.bridges.claim_record import ClaimRecord, dead_claims
from app.bridges.members import _Gone
from app.bridges.membership import DeliveryMembership
from app.chaos.seeded_bugs import SEEDED_BUGS
from db.direct import connect_direct
from db.pool import PoolOptions
from db.statements import STATEMENTS
from relay.election.port import boot_seconds
from tests.waiting import until
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
def test_a_member_whose_lock_is_free_is_waited_for(seeded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """TO-01, OR-03: it trusts its membership for a second more, and aborts its requests then."""
    monkeypatch.setattr(_Gone, "has_waited", _Gone.has_waited)  # restored afterwards
    if seeded:
        SEEDED_BUGS["free-lock-as-death"]()
    gone = _Gone(since=10.0, trust_seconds=1.0)
    assert [gone.has_waited(now) for now in (10.0, 11.9, 12.0)] == [seeded, seeded, True]


@SEEDED
async def test_a_membership_is_not_trusted_past_its_limit(seeded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """TO-01, TO-04, OR-03"""
    monkeypatch.setattr(DeliveryMembership, "holds", DeliveryMembership.holds)  # restored afterwards
    if seeded:
        SEEDED_BUGS["trust-past-limit"]()
    membership = DeliveryMembership(1)
    membership.limit(boot_seconds())
    assert membership.holds() is seeded


@SEEDED
async def test_a_lock_that_a_restart_of_the_database_freed_is_no_death(
    seeded: bool, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TO-01, TO-05, HA-03, OR-03: the server has had another run since the member came."""
    monkeypatch.setattr(db.bound, "STATEMENTS", STATEMENTS)  # restored afterwards
    if seeded:
        SEEDED_BUGS["restart-as-death"]()
    async with delivery_harness(database_url) as harness:
        member = await gone_member(harness, database_url)
        await claimed(harness, member)
        await harness.sql.execute("UPDATE hookwire.delivery_members SET server_run = 'the run before'")
        rows = await harness.database.fetch("delivery.inherit", [member], [1.0])
        assert len(rows) == seeded


@SEEDED
async def test_one_process_takes_over_from_a_dead_member(
    seeded: bool, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TO-01, OR-03: two have seen its lock free for long."""
    monkeypatch.setattr(db.bound, "STATEMENTS", STATEMENTS)  # restored afterwards
    if seeded:
        SEEDED_BUGS["double-take-over"]()
    async with delivery_harness(database_url) as harness:
        member = await gone_member(harness, database_url)
        await claimed(harness, member)
        both = await asyncio.gather(*(harness.database.fetch("delivery.inherit", [member], [1.0]) for _ in range(2)))
        assert sorted(map(len, both)) == [int(seeded), 1]


@SEEDED
@pytest.mark.parametrize("way", ["record", "member"])
async def test_the_settlement_of_a_former_owner_changes_nothing(
    way: str, seeded: bool, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TO-02, TO-04, OR-03: it was on its way when its worker died."""
    monkeypatch.setattr(db.bound, "STATEMENTS", STATEMENTS)  # restored afterwards
    if seeded:
        SEEDED_BUGS["take-over-keeps-fence"]()
    async with delivery_harness(database_url) as harness:
        member = await gone_member(harness, database_url)
        claim = await claimed(harness, member)
        if way == "record":
            await harness.database.fetch("delivery.take_over", [claim.fence])
        else:
            await harness.database.fetch("delivery.inherit", [member], [1.0])
        await write_results(harness.database, [claim], "dead")
        assert len(await harness.deliveries()) == (0 if seeded else 1)


async def gone_member(harness: Harness, database_url: str) -> int:
    """Return a member that trusted its membership for a second, and whose session has ended."""
    async with aclosing(await connect_direct(PoolOptions(database_url))) as session:
        member: int = await session.fetchval("delivery.enter", "gone", None)
        await session.fetch("delivery.beat", member, 1.0)

    async def is_free() -> bool:
        [row] = await harness.database.fetch("delivery.beat", member, 1.0)
        return not row["is_present"]

    await until(is_free)
    return member


async def claimed(harness: Harness, member: int) -> Result:
    """Return what the worker that holds the only delivery would settle."""
    subscription = await harness.subscribe("http://127.0.0.1:9/")
    [event] = await harness.deliver(b"{}")
    [row] = await harness.database.fetch("delivery.claim", [subscription], [1], 600.0, 0.0, member)
    return Result(
        event, subscription, row["fence"], row["version"], datetime.now(UTC), Outcome("delivered", 204), DELIVERED
    )
