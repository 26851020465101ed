"""Checks of numbers: sequences are ahead of all used numbers, and ids have partitions."""

from __future__ import annotations

from app.checks.check import Check
from db.bound import Bound

__all__ = ["number_checks"]

_DAYS_MIN = 3


async def number_checks(connection: Bound) -> list[Check]:
    """Compare each sequence with the greatest number that the database holds, and the ids with their partitions."""
    return [await _sequences(connection), await _partitions(connection)]


async def _sequences(connection: Bound) -> Check:
    behind = await connection.fetch("sequence.behind")
    if not behind:
        return Check("GB-05", "sequences", "ok", "ahead of all numbers that were used")
    words = "; ".join(f"{row['sequence']} is at {row['last']}, and {row['used']} was used" for row in behind)
    cure = f"start hookwire serve, or run as the owner of the schema: {behind[0]['cured_by']} (docs/how-to/restore.md)"
    return Check("GB-05", "sequences", "refuse", f"behind, so numbers would come twice: {words}", cure)


async def _partitions(connection: Bound) -> Check:
    """Check partitions ahead: without one, foreign business transactions would fail."""
    row = await connection.fetchrow("check.partitions")
    assert row is not None, "a row of scalars"
    left, per_day = int(row["ids_left"]), int(row["ids_per_day"])
    days = left / per_day if per_day else float("inf")
    words = f"room for {left:,} events" + (f", {days:,.0f} days at the current rate" if per_day else "")
    if left > 0 and days >= _DAYS_MIN:
        return Check("RR-05", "partitions", "ok", words)
    cure = f"a hookwire that runs for a minute makes them; or run as the owner of the schema: {row['made_by']}"
    return Check("RR-05", "partitions", "warn" if left > 0 else "refuse", words, cure)
