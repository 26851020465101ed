"""/subscriptions/{id}/test: send a test event to one callback, on the path of every other delivery."""

from __future__ import annotations

import json
from typing import Final

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field

from app.web.api.dependency import In
from app.web.api.route.actor import actor_of
from app.web.api.route.audited import audited
from app.web.api.route.known_subscription import find
from app.web.api.route.refusals import refusals
from app.web.api.route.strict_route import strict_router
from app.web.problem import Problem
from app.web.scopes import needs
from event.identity import format_event_id
from webhooks.delivery_id import format_delivery_id

__all__ = ["router"]

router = strict_router("/subscriptions", "subscriptions")
_CALLED: Final = ("webhook", "websub")


class TestSent(BaseModel):
    """The test event and its delivery."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"event_id": "evt_k3v7q2ha_42", "delivery_id": "dlv_42_7"}]}
    )

    event_id: str = Field(description="The id of the event, which has the topic `hookwire.test`.")
    delivery_id: str = Field(description="`GET /deliveries/{delivery_id}/attempts` shows the receiver's answer.")


@router.post(
    "/{subscription_id}/test",
    status_code=202,
    name="test_send",
    summary="Send a test event",
    responses=refusals("not-found", "invalid-parameter"),
)
@needs("subscribe", reach="route")
async def test_send(request: Request, subscription_id: str, context: In) -> TestSent:
    """Sends `{"test": true, ...}` of the topic `hookwire.test` to this callback alone. It is signed and retried as any
    other event, and passes an open breaker as its probe.
    """
    row = await find(request, subscription_id, context)
    if row["protocol"] not in _CALLED:
        detail = f"The subscription is of the protocol {row['protocol']}; only a topic's callback takes a test event."
        raise Problem("invalid-parameter", detail, parameter="subscription_id")
    if row["state"] != "active":
        raise Problem("invalid-parameter", f"The subscription is {row['state']}.", parameter="subscription_id")
    payload = json.dumps({"test": True, "subscription_id": row["public_id"], "topic": row["topic"]}).encode("ascii")
    number = await context.subscriptions.send_test(row["id"], payload, actor_of(request))
    await audited(request, context, "subscription.test", row["public_id"])
    return TestSent(
        event_id=format_event_id(context.incarnation, number), delivery_id=format_delivery_id(number, row["id"])
    )
