"""Actor: the caller of an audited action, and the reason."""

from __future__ import annotations

from typing import Annotated

from fastapi import Body, Request
from pydantic import BaseModel, ConfigDict, Field

from app.web.api.route.context import context_of
from app.web.authentication import grant_of

__all__ = ["Reason", "Reasoned", "actor_of", "named_actor"]

_ACTOR_MAX = 100


class Reason(BaseModel):
    """The reason, for the audit trail."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"reason": "schema fixed in ticket 4711"}]}
    )

    reason: str | None = Field(None, max_length=500)


Reasoned = Annotated[Reason, Body(default_factory=Reason)]
"""An optional body with one optional member."""


def actor_of(request: Request) -> str:
    """Return the caller: the API key, or else the header of ``HOOKWIRE_ACTOR_HEADER`` with the caller's address."""
    grant = grant_of(request)
    if grant is not None:
        return str(grant.key_id)
    host = request.client.host if request.client is not None else "unknown"
    named = named_actor(request)
    return f"{named}@{host}" if named else host


def named_actor(request: Request) -> str:
    """Return the value of the header of ``HOOKWIRE_ACTOR_HEADER``; empty unless it is printable ASCII."""
    named = request.headers.get(context_of(request).settings.actor_header, "").strip()[:_ACTOR_MAX]
    return named if named.isascii() and named.isprintable() else ""
