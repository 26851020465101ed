"""KeptMessages: refused messages of AMQP queues in the database, where a queue can have no queue for them."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from db.errors import DatabaseError
from db.pool import Database
from relay.source import IntakeUnavailable, RefusedMessage, SourceMessage

__all__ = ["KeptMessages", "content_of"]


class KeptMessages:
    """Implements :class:`relay.source.RefusalStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def keep(self, message: RefusedMessage) -> None:
        """Keep a message; raises ``IntakeUnavailable``, also if too many of its queue are kept."""
        content = message.content
        key = None if content is None or content.key is None else content.key.encode()
        try:
            is_kept = await self._database.fetchval(
                "source.keep_message", message.queue, message.refused.reason,
                message.refused.detail, key, message.body, _text_of(content),
            )  # fmt: skip
        except DatabaseError as error:
            raise IntakeUnavailable(str(error) or type(error).__name__) from error
        if not is_kept:
            raise IntakeUnavailable(f"too many refused messages of {message.queue} are kept: retry or skip them")


def content_of(text: str, body: bytes) -> SourceMessage | None:
    """Return the message that was kept; None if its properties could not be read."""
    kept = json.loads(text)
    return None if kept is None else SourceMessage(body=body, **{**kept, "left_out": tuple(kept["left_out"])})


def _text_of(content: SourceMessage | None) -> str:
    if content is None:
        return "null"
    kept = {one.name: getattr(content, one.name) for one in dataclasses.fields(content) if one.name != "body"}
    return json.dumps(_storable(kept))


def _storable(value: Any) -> Any:
    """Leave out U+0000, which PostgreSQL cannot store; names and values are texts."""
    if isinstance(value, str):
        return value.replace("\0", "")
    if isinstance(value, dict):
        return {name: _storable(one) for name, one in value.items()}
    return [_storable(one) for one in value] if isinstance(value, tuple) else value
