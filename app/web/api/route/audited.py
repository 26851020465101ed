"""Audit entries of routes that act themselves: keys, subscriptions, settings (FT-09)."""

from __future__ import annotations

import structlog
from fastapi import Request

from app.web.api.route.actor import actor_of
from app.web.api.route.context import Context
from db.errors import DatabaseError

__all__ = ["audited"]

_log = structlog.get_logger(__name__)


async def audited(request: Request, context: Context, action: str, subject: str) -> None:
    """Record the actor. If the database fails now, the action stays done and the log has the entry."""
    actor = actor_of(request)
    try:
        await context.database.execute("audit.add", "default", actor, action, subject)
    except DatabaseError as error:
        _log.error("audit_not_written", actor=actor, action=action, subject=subject, error=str(error))
