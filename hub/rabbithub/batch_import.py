"""RabbitHub's batch import: import subscriptions that another hub verified, unchanged (RH-49)."""

from __future__ import annotations

import json
import secrets

from hub.acceptance import Hub, callback_target
from hub.rabbithub.resource import Place, Wish, find, identity, keep_authorization, lease_seconds_of, made_of

__all__ = ["import_subscription"]


async def import_subscription(hub: Hub, place: Place, wish: Wish, *, active: bool) -> None:
    """Create or replace a subscription without asking its callback. An inactive subscription stays inactive.

    Raises ``Refused``: 400, 403 the callback may not be named, 404 no such exchange or queue.
    """
    resource = await find(hub, place)
    callback_target(hub, wish.callback)
    made = json.dumps(made_of(hub, resource, wish))
    pair = identity(resource, wish.hub_topic, wish.callback)
    lease_seconds = lease_seconds_of(hub, wish)
    async with hub.database.transaction() as session:
        number = await session.fetchval(
            "rabbithub.import", f"sub_{secrets.token_hex(12)}", hub.tenant, made, wish.callback, lease_seconds, pair,
            "active" if active else "disabled",
        )  # fmt: skip
        await session.execute("rabbithub.describe", number, made, lease_seconds)
        await session.execute("throttle.ensure", number)
        await session.execute("intent.forget_secrets", [number])
        await keep_authorization(session, hub.secret_box, number, wish.authorization)
