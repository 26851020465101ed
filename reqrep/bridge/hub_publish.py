"""The service ``hub.publish``, by which ZeroMQ clients publish events with the outbox's guarantee (ZU-09).

::

    request   topic | body | key, may be empty or absent | content type, may be empty or absent
    reply     200 | id of the event        the event is stored and reaches every sink of its topic
              400 | reason                 nothing was stored; a repetition fails too
              500                          the outcome is unknown; a repetition may store the event twice
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from db.errors import DatabaseError, Refused
from db.pool import Database
from reqrep.frames import Frames

__all__ = ["HUB_PUBLISH", "HubPublish"]

_LOG = logging.getLogger(__name__)
HUB_PUBLISH: Final = b"hub.publish"
_FRAMES_MIN: Final = 2
_FRAMES_MAX: Final = 4


class HubPublish:
    """Answers requests. ``database`` returns the database; it is called for each request."""

    def __init__(self, database: Callable[[], Database]) -> None:
        self._database = database

    async def answer(self, body: Frames, user: str = "") -> Frames:
        """Store one event; return the frames of the reply."""
        if not _FRAMES_MIN <= len(body) <= _FRAMES_MAX:
            return [b"400", b"send topic, body, and perhaps key and content type"]
        topic, payload, key, content_type = (*body, b"", b"")[:_FRAMES_MAX]
        try:
            texts = [frame.decode() for frame in (topic, key, content_type)]
        except UnicodeDecodeError:
            return [b"400", b"topic, key and content type are UTF-8"]
        if any("\x00" in text for text in texts):
            return [b"400", b"topic, key and content type hold no NUL"]
        return await self._store(texts[0], payload, texts[1] or None, texts[2] or None)

    async def _store(self, topic: str, payload: bytes, key: str | None, content_type: str | None) -> Frames:
        try:
            event_id = await self._database().fetchval("request.publish", topic, payload, key, content_type)
        except Refused as error:
            return [b"400", error.message.encode()]
        except DatabaseError as error:
            _LOG.warning("the answer to hub.publish is 500: %s", error)
            return [b"500"]
        return [b"200", event_id.encode()]
