"""The subscription that a request names, if its key may see it."""

from __future__ import annotations

from fastapi import Request

from app.web.api.route.context import Context
from app.web.authentication import may_reach_kind, may_reach_service, may_reach_topic
from app.web.problem import Problem
from db.pool import Row

__all__ = ["find", "is_reached", "no_such_subscription"]


def no_such_subscription(parameter: str | None = None) -> Problem:
    """Return the problem of an id that names no subscription, or none that the key may see."""
    detail = (
        "There is no such subscription; ids look like sub_3f1c0a9be2d45c7780aa, and `hookwire subscriptions list` and "
        "GET /subscriptions have them."
    )
    return Problem("not-found", detail, parameter=parameter) if parameter else Problem("not-found", detail)


async def find(request: Request, identity: str, context: Context) -> Row:
    """Return the subscription of this id, if the request's key may see it; else ``Problem``."""
    named = identity.isascii() and identity.isprintable() and len(identity) <= 60
    row = await context.subscriptions.get(identity) if named else None
    if row is None:
        raise no_such_subscription()
    if not is_reached(request, row):
        raise no_such_subscription()
    return row


def is_reached(request: Request, row: Row) -> bool:
    """Return whether the key of this request includes the topic, the service or the kind of a subscription."""
    if row["service"] is not None:
        return may_reach_service(request, row["service"])
    return may_reach_kind(request, row["kind"]) if row["kind"] is not None else may_reach_topic(request, row["topic"])
