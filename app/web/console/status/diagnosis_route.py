"""The page of a topic and a callback: it shows why no event arrives there."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from app.web.api.dependency import In
from app.web.api.route.context import Context
from app.web.api.route.known_subscription import find
from app.web.api.subscribing.foreign_topics import pair_of, standing_of
from app.web.authentication import require_topic
from app.web.console.frame import frame_of
from app.web.console.page_route import PageRoute
from app.web.console.status.diagnosis_page import Diagnosis, diagnosis_content
from app.web.pages.shell import page
from app.web.problem import Problem
from app.web.scopes import needs
from db.pool import Row

__all__ = ["router"]

router = APIRouter(prefix="/console", include_in_schema=False, route_class=PageRoute)
Text = Annotated[str, Query(max_length=2048)]

_ROWS: Final = 10


@router.get("/pair")
@needs("read", reach="route")
async def diagnosis_page(
    request: Request, context: In, subscription: Text = "", topic: Text = "", callback: Text = ""
) -> Response:
    """Return the page of ``subscription``, or that of ``topic`` and ``callback`` as in a subscribe request."""
    if subscription:
        about = await _of_subscription(request, context, subscription)
    elif topic and callback:
        about = await _of_pair(request, context, topic, callback)
    else:
        raise Problem("invalid-parameter", "Give ?subscription=, or ?topic= and &callback=.", parameter="subscription")
    frame = dataclasses.replace(frame_of(request), query="")  # which may hold a capability, as part of the callback
    return page(frame, "A topic and a callback", diagnosis_content(about), is_live=True)


async def _of_subscription(request: Request, context: Context, public_id: str) -> Diagnosis:
    if "\0" in public_id:
        raise Problem("invalid-parameter", "An id must not contain a NUL character.", parameter="subscription")
    await find(request, public_id, context)
    row = await context.database.fetchrow("diagnosis.subscription", "default", public_id)
    if row is None:
        raise Problem("not-found", "There is no subscription with this id; GET /subscriptions lists them.")
    standing = str(row["state"])
    if row["protocol"] == "websub":
        standing = await standing_of(context, row["topic"], row["identity"])
    return await _about(context, row["topic_url"] or row["topic"], row["callback"], standing, row, row["identity"])


async def _of_pair(request: Request, context: Context, topic: str, callback: str) -> Diagnosis:
    name, identity = pair_of(context, topic, callback)
    require_topic(request, name)
    row = await context.database.fetchrow("diagnosis.subscription_of_pair", "default", name, identity)
    return await _about(context, topic, callback, await standing_of(context, name, identity), row, identity)


async def _about(
    context: Context, topic: str, callback: str, standing: str, subscription: Row | None, identity: bytes | None
) -> Diagnosis:
    fetch = context.database.fetch
    number = None if subscription is None else subscription["id"]
    return Diagnosis(
        topic=topic,
        callback=callback,
        standing=standing,
        subscription=subscription,
        requests=await fetch("diagnosis.requests", "default", identity, _ROWS) if identity is not None else (),
        owed=await fetch("diagnosis.owed", number, _ROWS) if number is not None else (),
        attempts=await fetch("diagnosis.attempts", number, _ROWS) if number is not None else (),
        incarnation=context.incarnation,
        now=await context.database.fetchval("diagnosis.now"),
    )
