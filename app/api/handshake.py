"""/subscriptions/{id}/handshake: the callback's consent, asked for as CloudEvents says (WH-C12..C15)."""

from __future__ import annotations

from typing import Annotated, Final
from urllib.parse import urlsplit

from fastapi import APIRouter, Depends, Request

from app.api.context import Context, context_of
from app.api.refusals import refusals
from app.api.subscriptions import SubscriptionOut, find, subscription_out
from app.problem import Problem
from webhooks.failure import OutboundError
from webhooks.handshake import NoConsent, ask_consent
from webhooks.url import Target, UrlRefused, parse_target

__all__ = ["router"]

router = APIRouter(
    prefix="/subscriptions/{subscription_id}/handshake", tags=["subscriptions"],
    responses=refusals("database-unavailable", "busy", "not-found", "no-consent"),
)  # fmt: skip
In = Annotated[Context, Depends(context_of)]
_DEADLINE_SECONDS: Final = 10.0


@router.post("", name="handshake", summary="Ask the callback for its consent (CloudEvents)")
async def handshake(request: Request, subscription_id: str, context: In) -> SubscriptionOut:
    """An `OPTIONS` to the callback. With its consent the subscription is active, at the rate that it allows.

    Make the subscription with `"state": "disabled"`, so that nothing is sent before.
    """
    row = await find(request, subscription_id, context)
    target = _target(row["callback"], context)
    rate = row["rate_per_second"]
    origin = urlsplit(context.public_url).hostname or "localhost"
    try:
        consent = await ask_consent(
            context.outbound, target, origin, None if rate is None else max(int(rate * 60), 1), _DEADLINE_SECONDS
        )
    except (NoConsent, OutboundError) as error:
        raise Problem("no-consent", str(error)) from None
    allowed = consent.rate_per_minute
    return subscription_out(
        await context.subscriptions.consented(row["public_id"], origin, None if allowed is None else allowed / 60)
    )


def _target(callback: str, context: Context) -> Target:
    try:
        target = parse_target(callback, context.policy)
    except UrlRefused as error:
        raise Problem("no-consent", str(error)) from None
    if not target.is_tls and context.settings.profile == "production":
        raise Problem("no-consent", "In production the handshake needs a callback by https.")
    return target
