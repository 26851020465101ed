"""Revocation: the hub ends a subscription and notifies its callback (W3C WebSub 5.2; WS-38, WS-107).

active --revoke--> denied, at once and in one transaction with
                   its secrets and open deliveries deleted, open requests of the pair superseded.
                   a request of stage ``deny`` stored: verification sends hub.mode=denied
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from db.pool import Row, Session
from egress.url import UrlRefused, parse_target
from hub.acceptance import Hub
from hub.options import HubOptions

__all__ = ["revoke", "tell"]

_log = structlog.get_logger(__name__)
_BATCH_ROWS_MAX = 5_000
_EVERY_ID = 2**62


async def revoke(hub: Hub, public_id: str, reason: str) -> bool:
    """End an active WebSub subscription and queue a denial for its callback; return False if none exists.

    Raises ``db.errors.DatabaseError``; repeating it is harmless.
    """
    async with hub.database.transaction() as session:
        # Supersede open requests first. Then no verification can activate the subscription after its end below.
        pair = await session.fetchval("intent.pair_of", hub.tenant, public_id)
        await session.execute("intent.overtake", hub.tenant, pair, _EVERY_ID)
        row = await session.fetchrow("intent.revoke", hub.tenant, public_id, reason or "denied by the hub")
        if row is None:
            return False
        await session.execute("intent.forget_secrets", [row["id"]])
        # The sweep handles deliveries beyond this batch, and those that an overlapping fan-out adds.
        await session.execute("intent.drop_deliveries_of", row["id"], _BATCH_ROWS_MAX)
        await tell(session, hub.options, [row], reason)
    hub.wake()
    _log.info("subscription_revoked", subscription=public_id, reason=reason)
    return True


async def tell(session: Session, options: HubOptions, ended: Sequence[Row], reason: str) -> None:
    """Queue denials for these subscriptions (``id``, ``callback``), except for callbacks that are refused now."""
    hosts = []
    for row in ended:
        try:
            hosts.append((row["id"], parse_target(row["callback"], options.url_policy).host))
        except UrlRefused as error:
            _log.info("denial_not_told", subscription=row["id"], reason=error.operator_reason)
    await session.execute("intent.tell_denial", [id_ for id_, _ in hosts], [host for _, host in hosts], reason)
