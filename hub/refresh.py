"""Refresh: confirm a subscription of PubSubHubbub 0.3 without a lease again before our lease ends (PS-08, PS-09).

The hub never grants a lease without end (WS-49), but 0.3 promises an endless lease to a request that names none. So the
hub repeats the request itself, with the same token and secret and a new challenge. A callback that echoes it keeps its
subscription. Any other loses it when the lease is over.
"""

from __future__ import annotations

import structlog

from db.pool import Row, Session
from db.secret_box import SecretBox, SecretBoxError
from egress.url import UrlRefused, parse_target
from hub.acceptance import request_context
from hub.form import Mode, Verify
from hub.options import HubOptions
from webhooks.subscriber import secret_context

__all__ = ["refresh"]

_log = structlog.get_logger(__name__)
_BATCH_ROWS_MAX = 500


async def refresh(session: Session, secret_box: SecretBox, options: HubOptions) -> None:
    """Store the requests that are due, inside a transaction; verification does the rest."""
    for row in await session.fetch("intent.permanent", _BATCH_ROWS_MAX, options.lease_seconds_max):
        try:
            host = parse_target(row["callback"], options.url_policy).host
            key_id, sealed = _sealed(row, secret_box)
        except (UrlRefused, SecretBoxError) as error:
            _log.warning("subscription_not_refreshed", subscription=row["id"], error=str(error))
            continue
        await session.execute(
            "intent.accept", row["tenant"], str(Mode.SUBSCRIBE), row["topic"], row["topic_url"], row["callback"], host,
            row["identity"], options.lease_seconds_max, row["signature_method"], row["verify_token"], key_id, sealed,
            0.0, None, str(Verify.ASYNC), True, False, None,
        )  # fmt: skip


def _sealed(row: Row, secret_box: SecretBox) -> tuple[str | None, bytes | None]:
    """Return the secret, bound to the request as it was to the subscription."""
    if row["sealed"] is None:
        return None, None
    secret = secret_box.open(row["key_id"], row["sealed"], secret_context(row["id"], row["number"]))
    sealed = secret_box.seal(secret, request_context(row["tenant"], row["identity"]))
    return sealed.key_id, sealed.ciphertext
