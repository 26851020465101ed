"""The subscription that a request names, if its key may see it."""

from __future__ import annotations

from fastapi import Request

from app.web.api.route.context import Context
from app.web.authentication import grant_of, may_reach_kind, may_reach_service, require_topic
from app.web.problem import Problem
from db.pool import Row

__all__ = ["find", "is_listed", "is_reached"]

_MISSING = "There is no such subscription."


async def find(request: Request, identity: str, context: Context) -> Row:
    """Return the subscription of this id, if the request's key may see it; else ``Problem``."""
    named = identity.isascii() and identity.isprintable() and len(identity) <= 60
    row = await context.subscriptions.get(identity) if named else None
    if row is None:
        raise Problem("not-found", _MISSING)
    if row["service"] is None and row["kind"] is None:
        require_topic(request, row["topic"], hidden=_MISSING)
    elif not is_reached(request, row):
        raise Problem("not-found", _MISSING)
    return row


def is_reached(request: Request, row: Row) -> bool:
    """Return whether the key of this request includes the service or kind of a subscription; True for any other."""
    if row["service"] is not None:
        return may_reach_service(request, row["service"])
    return row["kind"] is None or may_reach_kind(request, row["kind"])


def is_listed(request: Request, row: Row) -> bool:
    """Return whether the key of this request may see a subscription in a list, by its topic, service or kind."""
    if row["service"] is None and row["kind"] is None and (grant := grant_of(request)) is not None:
        return grant.reaches(row["topic"])
    return is_reached(request, row)
