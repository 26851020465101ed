"""The note on an audit in the database: its begin and its end, for the hub's verdict and ``hookwire doctor``."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from app.cli.failure import explained
from app.cli.pipeline.auditing.report import AuditReport
from app.cli.pipeline.lake import tell, told_failures
from app.settings.settings import Settings
from db.errors import DatabaseError

if TYPE_CHECKING:
    from db.pool import Session
    from pipeline.storage import LakeStorage

__all__ = ["audit_noted", "forgotten"]

_REASON_MAX: Final = 300


async def audit_noted(
    session: Session, lake: LakeStorage, judged: Awaitable[AuditReport], *, is_own: bool, has_contents: bool
) -> AuditReport:
    """Return the report of an audit of all hours, and note its begin and how it ended. Raise what the audit raises.

    A lake that the database does not know is noted only if it ``is_own``: that of the settings. An audit that fails is
    noted with its reason, and one that is killed by its begin. A database that takes no note is told; the report stays.
    """
    if not await _begun(session, lake, is_own=is_own):
        return await judged
    try:
        with told_failures():
            report = await judged
    except Exception as error:
        if (failure := explained(error)) is not None:
            reason = str(failure).partition("\n")[0][:_REASON_MAX]
            await _noted(session, "lake_mark.fail_audit", lake.uri, failure.code, reason)
        raise
    counts = report.exit_code, report.found, report.count - report.found
    await _noted(session, "lake_mark.end_audit", lake.uri, report.until, *counts, has_contents)
    return report


async def _begun(session: Session, lake: LakeStorage, *, is_own: bool) -> bool:
    rows = await _noted(session, "lake_mark.begin_audit", lake.uri, is_own)
    if rows == 0:
        tell(f"this audit is not noted: the database knows nothing of {lake.uri}, and no setting names this lake")
    return bool(rows)


async def _noted(session: Session, statement: str, *values: object) -> int | None:
    """Return the number of rows that have changed; None, and tell why, if the database does not run the statement."""
    try:
        return await session.execute(statement, *values)
    except DatabaseError as error:
        tell(f"the database does not note this audit: {error}")
        return None


async def forgotten(settings: Settings, uri: str) -> int:
    """Forget what the database knows of a lake; return the number of rows. Raises ``DatabaseError``."""
    from app.cli.database import opened_connection

    async with opened_connection(settings, application_name="hookwire forget") as connection:
        rows: int = await connection.fetchval("lake_mark.forget", uri)
    return rows
