"""/subscriptions/{id}/denial: the hub ends a WebSub subscription and notifies its callback."""

from __future__ import annotations

from fastapi import Request

from app.web.api.dependency import In
from app.web.api.route.actor import Reasoned
from app.web.api.route.known_subscription import find
from app.web.api.route.refusals import refusals
from app.web.api.route.strict_route import strict_router
from app.web.problem import Problem
from app.web.scopes import needs
from hub.revocation import revoke

__all__ = ["router"]

router = strict_router("/subscriptions", "subscriptions", "invalid-parameter")


@router.post(
    "/{subscription_id}/denial",
    status_code=204,
    summary="Deny an active WebSub subscription",
    responses=refusals("not-found", "malformed-json", "unsupported-media-type", "body-too-large", "outcome-unknown"),
)
@needs("subscribe", reach="route")
async def deny(request: Request, subscription_id: str, body: Reasoned, context: In) -> None:
    """Ends it at once and drops its open deliveries. Its callback gets a GET with `hub.mode=denied`."""
    row = await find(request, subscription_id, context)
    if not await revoke(context.hub, row["public_id"], body.reason or ""):
        raise Problem("not-found", "There is no active WebSub subscription of this id.")
