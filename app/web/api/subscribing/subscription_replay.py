"""/subscriptions/{id}/replay: a subscriber replays missed events, within the topics of its key."""

from __future__ import annotations

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field

from app.web.api.dependency import In
from app.web.api.operating.replay_start import START_MEANING, Start, start_of
from app.web.api.route.actor import actor_of
from app.web.api.route.event_ids import no_such_event
from app.web.api.route.known_subscription import find
from app.web.api.route.refusals import BODY, refusals
from app.web.api.route.strict_route import strict_router
from app.web.problem import Problem
from app.web.scopes import needs
from hub.subscriptions import NoSuchStart

__all__ = ["router"]

router = strict_router("/subscriptions", "subscriptions")


class OwnReplayIn(BaseModel):
    """The start of the replay."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"start": "2026-01-15T00:00:00Z"}]})

    start: Start = Field(description=START_MEANING)


class OwnReplayOut(BaseModel):
    """The replay that was begun."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"id": "replay_3"}]})

    id: str


@router.post(
    "/{subscription_id}/replay",
    status_code=202,
    summary="Replay missed events",
    responses=refusals(*BODY, "not-found"),
)
@needs("subscribe", reach="route")
async def replay(request: Request, subscription_id: str, body: OwnReplayIn, context: In) -> OwnReplayOut:
    """Delivers all matching events since then again. They are marked `hookwire-replay: true`."""
    row = await find(request, subscription_id, context)
    if row["state"] != "active":
        raise Problem("invalid-parameter", f"The subscription is {row['state']}.", parameter="subscription_id")
    start = start_of(body.start, context.incarnation)
    try:
        number = await context.subscriptions.replay(row["id"], start, actor_of(request))
    except NoSuchStart:
        raise no_such_event() from None
    return OwnReplayOut(id=f"replay_{number}")
