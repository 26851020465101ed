"""The note on an audit in the database: how it ended, for the hub's verdict and ``hookwire doctor``."""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from app.cli.failure import CommandFailed
from app.cli.pipeline.auditing.report import AuditReport
from app.cli.pipeline.lake import told_failures
from db.errors import DatabaseError

if TYPE_CHECKING:
    from db.pool import Session
    from pipeline.storage import LakeStorage

__all__ = ["audit_noted"]

_REASON_MAX: Final = 300


async def audit_noted(session: Session, lake: LakeStorage, judged: Awaitable[AuditReport]) -> AuditReport:
    """Return the report of an audit of all hours, and note how it ended. Raises ``CommandFailed``, ``DatabaseError``.

    An audit that fails is noted with its reason. One that is killed is not noted.
    """
    try:
        with told_failures():
            report = await judged
    except CommandFailed as failure:
        reason = str(failure)[:_REASON_MAX]
        with suppress(DatabaseError):  # the failure of the audit is what the operator needs to know
            await session.execute("lake_mark.note_audit", lake.uri, None, failure.code, 0, 0, reason)
        raise
    counts = report.exit_code, report.found, report.count - report.found
    await session.execute("lake_mark.note_audit", lake.uri, report.until, *counts, None)
    return report
