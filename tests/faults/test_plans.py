"""The plans of the hot statements with 10^6 rows, and with as many dead ones (RP-03, RR-07)."""

import asyncpg
import pytest

from tests.db.test_plans import dear_claims, read_whole, sql
from tests.faults.harness import SOAK

__all__ = ["sql"]
ROWS = 1_000_000
pytestmark = [*SOAK, pytest.mark.timeout(600)]


async def test_no_hot_statement_reads_a_whole_table_of_a_million_rows(sql: asyncpg.Connection) -> None:
    """RU-05, RP-03."""
    assert await read_whole(sql, ROWS) == {}


async def test_a_million_purged_records_that_a_snapshot_keeps_cost_a_claim_nothing(
    sql: asyncpg.Connection,
    database_url_both: str,
) -> None:
    """F17, RR-07."""
    assert await dear_claims(sql, database_url_both, ROWS) == {}
