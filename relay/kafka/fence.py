"""The fence of a partition group at Kafka: two transactional ids, of which one is in use.

A transaction cannot end while a partition that takes part in it has no leader, because that partition takes no marker.
Until then its transactional id takes no other transaction. So one topic whose broker has gone would stop all others.
The sink therefore goes on under the spare id, and comes back to the first when it is opened next. Both are fenced
whenever the sink is opened.
"""

from __future__ import annotations

from typing import Final

from aiokafka.errors import TransactionalIdAuthorizationFailed

from relay.kafka.admin import KafkaAdmin
from relay.kafka.options import KafkaOptions
from relay.sink import SinkUnavailable

__all__ = ["fenced_id"]

_STUCK_SECONDS: Final = 2.0
_SPARE: Final = ".spare"


async def fenced_id(admin: KafkaAdmin, options: KafkaOptions, scope: str) -> str:
    """Fence the producers of both ids. Return the id to use; raise :class:`SinkUnavailable` if none is free."""
    first = f"hookwire.{options.installation}.{scope}"
    spare, milliseconds = first + _SPARE, int(options.transaction_seconds * 1000)
    is_free = await admin.fence(first, milliseconds, within_seconds=_STUCK_SECONDS)
    patience = _STUCK_SECONDS if is_free else options.request_seconds
    spare_is_free = await _spare_is_free(admin, spare, milliseconds, patience)
    if is_free or (not spare_is_free and await admin.fence(first, milliseconds, within_seconds=_STUCK_SECONDS)):
        return first
    if spare_is_free:
        return spare
    raise SinkUnavailable(
        "the last transactions cannot end, because a partition that took part has no leader; "
        "start the brokers that keep it"
    )


async def _spare_is_free(admin: KafkaAdmin, spare: str, milliseconds: int, seconds: float) -> bool:
    """Fence the spare id. If it is not authorised, no relay can have used it."""
    try:
        return await admin.fence(spare, milliseconds, within_seconds=seconds)
    except SinkUnavailable as error:
        if isinstance(error.__cause__, TransactionalIdAuthorizationFailed):
            return False
        raise
