"""Sessions that end while attempts are folded: each attempt is counted once (CN-11)."""

import asyncio
import random
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from app.maintenance.rollups import Rollups
from db.bound import Bound
from db.pool import Database
from db.statements import STATEMENTS
from tests.app.maintenance.test_rollups import AT, counts, entry
from tests.faults.harness import CLEAN, open_harness
from tests.relay.harness import Harness, relay_harness
from tests.waiting import lasts


@pytest.fixture
async def harness(database_url: str) -> AsyncIterator[Harness]:
    async with relay_harness(database_url) as harness:
        yield harness


class SplitFold:
    """A broken twin: entries go in one transaction, and are counted in another one."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def fold(self) -> None:
        async with self._database.lend() as connection:
            taken = await connection.fetch("DELETE FROM hookwire.attempt_entries RETURNING *")
            async with connection.transaction():
                for row in taken:
                    await connection.execute("INSERT INTO hookwire.attempt_entries VALUES ($1, $2, $3, $4)", *row)
                await Bound(connection, STATEMENTS).fetchrow("rollup.fold", 1_000, AT - timedelta(days=9))


@pytest.mark.parametrize(("kind", "is_exact"), [(Rollups, True), (SplitFold, False)])
@pytest.mark.slow
async def test_kills_while_it_folds_lose_nothing_and_count_nothing_twice(
    harness: Harness, seed: int, kind: type[Rollups] | type[SplitFold], is_exact: bool
) -> None:
    """50 sessions are ended at random moments of a fold; one that folds in two transactions loses attempts."""
    chance, written = random.Random(seed), 0
    for _ in range(50):
        for number in range(100):
            await entry(harness.connection, *[(number % 7, 0.01, 0.02)] * 20)
            written += 20
        folding = asyncio.ensure_future(kind(harness.database).fold())
        await lasts(chance.random() / 30)
        await harness.connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle'"
        )
        await asyncio.wait([folding])
    await Rollups(harness.database).fold()
    days = [row for number in range(7) for row in await counts(harness.connection, number) if row[0] == "day"]
    assert (sum(row[2] for row in days) == written, sum(row[3] for row in days) == written) == (is_exact, is_exact)


@pytest.mark.slow
async def test_after_fifty_kills_of_processes_the_numbers_are_those_of_all_attempts(
    database_url: str, tmp_path: Path, seed: int
) -> None:
    """One of two services dies under load; then each grain's counts equal SQL, and its quantiles are within a tenth."""
    chance = random.Random(seed)
    async with open_harness(database_url, tmp_path, seed) as harness:
        async with harness.scenario.load():
            for _ in range(50):
                child = chance.choice(harness.scenario.children)
                await child.kill()
                await harness.accepts(20)
                await child.start()
        assert await harness.concluded(duplicates_max=50 * 600, quiet_seconds_max=180) == CLEAN
