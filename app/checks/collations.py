"""Check of collations: the library that orders texts has the version that our indexes were built with."""

from __future__ import annotations

from app.checks.check import Check
from db.bound import Bound

__all__ = ["collation_checks"]


async def collation_checks(connection: Bound) -> list[Check]:
    """After an upgrade of the operating system an index may have another order than its library, and miss rows."""
    stale = await connection.fetch("check.collations")
    if not stale:
        return [Check("GB-11", "collations", "ok", "of the versions that indexes were built with")]
    names = ", ".join(dict.fromkeys(row["index"] for row in stale))
    versions = ", ".join(dict.fromkeys(f"{row['noted']}, now {row['now']}" for row in stale))
    builds = dict.fromkeys(f"REINDEX INDEX CONCURRENTLY {row['index']}" for row in stale)
    cure = "; ".join([*builds, *dict.fromkeys(row["refresh"] for row in stale)])
    return [Check("GB-11", "collations", "warn", f"built with version {versions}: {names}", cure)]
