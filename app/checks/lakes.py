"""Check of the lakes: how the last audit of each ended, and which backfills nobody carries on, as the verdict tells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Final

from app.checks.check import Check, Level
from app.verdict.backfills import backfill_parts
from app.verdict.facts import WORST_MAX, Row
from app.verdict.lakes import lake_parts
from app.verdict.verdict import Part, Word
from db.direct import connect_direct
from db.pool import PoolOptions

__all__ = ["audit_checks", "lake_checks"]

_LEVELS: Final[dict[Word, Level]] = {"ok": "ok", "attention": "note", "trouble": "warn"}


async def lake_checks(options: PoolOptions) -> list[Check]:
    """Return a check for each lake that is in use, and for each backfill that nobody carries on; none where there is no
    lake. Raises ``db.errors.DatabaseError``.
    """
    async with aclosing(await connect_direct(options)) as connection:
        rows = await connection.fetch("lake_mark.audits", WORST_MAX)
        runs = await connection.fetch("verdict.backfills", WORST_MAX)
        now = await connection.fetchval("diagnosis.now")
    return audit_checks(rows, now) + _checks("backfill", backfill_parts(runs))


def audit_checks(rows: Sequence[Row], now: datetime) -> list[Check]:
    """Return the checks of these rows of ``lake_mark.audits``."""
    return _checks("audit of", lake_parts(rows, now))


def _checks(what: str, parts: Iterable[Part]) -> list[Check]:
    return [Check("lake", f"{what} {part.name}", _LEVELS[part.word], part.reason) for part in parts]
