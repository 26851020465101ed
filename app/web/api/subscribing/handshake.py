"""/subscriptions/{id}/handshake and /handshakes: a callback's consent, as CloudEvents says."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from app.web.api.dependency import In
from app.web.api.route.context import Context
from app.web.api.route.strict_route import strict_router
from app.web.api.subscribing.subscription_contract import SubscriptionOut
from app.web.api.subscribing.subscriptions import find_to_change, subscription_out
from app.web.problem import Problem
from app.web.scopes import needs, open_to_all
from db.pool import Row
from egress.failure import OutboundError
from egress.url import Target, UrlRefused, parse_target
from webhooks.handshake import NoConsent, allowed_rate, ask_consent

__all__ = ["invitations", "router"]

_SUMMARY: Final = "Ask the callback for its consent (CloudEvents)"

router = strict_router("", "subscriptions", "not-found", "no-consent")
invitations = APIRouter(tags=["subscriptions"], responses=router.responses)
"""For callbacks: their extra parameters are ignored."""
_DEADLINE_SECONDS: Final = 10.0


class Agreed(BaseModel):
    """The consent of a callback."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"origin": "hub.example", "requests_per_minute": 120}]})

    origin: str = Field(description="The origin that may deliver there: this hub.")
    requests_per_minute: int | None = Field(description="Allowed requests per minute; null: without a limit.")


@router.post(
    "/subscriptions/{subscription_id}/handshake",
    name="handshake",
    summary="Ask the callback for its consent (CloudEvents)",
)
@needs("subscribe", reach="route")
async def handshake(request: Request, subscription_id: str, context: In) -> SubscriptionOut:
    """Sends an `OPTIONS` to the callback. With its consent the subscription becomes active, at the rate that it allows.
    Create the subscription with `"state": "disabled"`, so that nothing is sent before. Where this hub has an https URL,
    the callback may also agree within a week, by a GET or POST to its `WebHook-Request-Callback`.
    """
    row = await find_to_change(request, subscription_id, context)
    target = _target(row["callback"], context)
    rate = row["rate_per_second"]
    per_minute = None if rate is None else max(int(rate * 60), 1)
    origin, later = _origin(context), _invitation(row, context)
    try:
        consent = await ask_consent(context.outbound, target, origin, per_minute, later, _DEADLINE_SECONDS)
    except (NoConsent, OutboundError) as error:
        raise Problem("no-consent", str(error)) from None
    allowed = consent.rate_per_minute
    agreed = await context.subscriptions.consented(
        row["public_id"], origin, None if allowed is None else allowed / 60, row["version"]
    )
    if agreed is None:
        raise Problem("no-consent", "The subscription was changed meanwhile; ask again.")
    return subscription_out(agreed)


@invitations.get("/handshakes/{token}", name="agree", summary="Agree to deliveries, by the URL that the callback got")
@invitations.post("/handshakes/{token}", name="agree_by_post", summary="Agree to deliveries, as by GET")
@open_to_all
async def agree(request: Request, token: str, context: In) -> Agreed:
    """For callbacks, without an API key: the URL is the secret. It works once, for a week, and until the subscription
    is changed. `WebHook-Allowed-Rate` in the request limits the rate.
    """
    try:
        allowed = allowed_rate(request.headers.getlist("webhook-allowed-rate"))
    except NoConsent as error:
        raise Problem("no-consent", str(error)) from None
    origin = _origin(context)
    if await context.subscriptions.accepted(token, origin, None if allowed is None else allowed / 60) is None:
        raise Problem("not-found", "This invitation was used, is too old, or the subscription has changed meanwhile.")
    return Agreed(origin=origin, requests_per_minute=allowed)


def _origin(context: Context) -> str:
    return urlsplit(context.public_url).hostname or "localhost"


def _invitation(row: Row, context: Context) -> str | None:
    """Return the invitation, for https only: a reader of the URL could agree."""
    if not context.public_url.startswith("https://"):
        return None
    return f"{context.public_url}/handshakes/{context.subscriptions.invite(row)}"


def _target(callback: str, context: Context) -> Target:
    try:
        target = parse_target(callback, context.policy)
    except UrlRefused as error:
        raise Problem("no-consent", str(error)) from None
    if not target.is_tls and context.settings.profile == "production":
        raise Problem("no-consent", "In production the handshake needs a callback by https.")
    return target
