"""/audit: actions of persons and API keys, with the reason, by actor, action, subject and time."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from app.web.api.dependency import In
from app.web.api.route.moment import ZonedMoment
from app.web.api.route.paging import Paged
from app.web.api.route.refusals import refusals
from app.web.api.route.strict_route import strict_router
from app.web.scopes import needs

__all__ = ["router"]

router = strict_router("/audit", "audit")
Text = Annotated[str | None, Query(max_length=500, pattern=r"^[^\x00]*$", description="Exactly this one.")]
_EXAMPLE: dict[str, Any] = {
    "at": "2026-01-15T09:40:00Z",
    "actor": "alice@127.0.0.1",
    "role": None,
    "action": "hold.give_up",
    "subject": "kafka orders.created customer-17",
    "reason": "schema fixed in ticket 4711",
    "records": 1,
}


class AuditOut(BaseModel):
    """One action."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    at: datetime
    actor: str
    role: str | None = Field(description="The database role that named the actor in SQL; null for the hub itself.")
    action: str
    subject: str
    reason: str | None
    records: int = Field(description="Number of records that it changed.")


class AuditPage(BaseModel):
    """A page of actions, newest first."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [_EXAMPLE], "next_cursor": None}]})

    items: list[AuditOut]
    next_cursor: str | None


@router.get("", summary="List audit entries", responses=refusals("invalid-cursor", "invalid-parameter"))
@needs(
    "read", instead="The trail has the acts on all topics. GET /replays, /holds and /dead-letters show those of yours."
)
async def list_audit(
    context: In,
    paging: Paged,
    actor: Text = None,
    action: Annotated[
        str | None,
        Query(max_length=60, pattern="^[a-z._-]+$", description="`hold.retry`, or `hold`: all that begin so."),
    ] = None,
    subject: Text = None,
    since: Annotated[ZonedMoment | None, Query(description="At or after this moment; RFC 3339 with a zone.")] = None,
    until: Annotated[ZonedMoment | None, Query(description="Before this moment.")] = None,
) -> AuditPage:
    """Newest first; `Link: rel="next"` and `next_cursor` lead to the next page."""
    rows = await context.database.fetch_filtered(
        "audit.page", "default", *paging.after(2**63 - 1), paging.limit + 1, actor, action, subject, since, until
    )
    return AuditPage.model_validate(paging.page(rows, "id"))
