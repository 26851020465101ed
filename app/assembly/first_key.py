"""The first API key, made at the start from a setting."""

from __future__ import annotations

import structlog

from app.settings.settings import Settings
from db.pool import Session
from hub.keys import Keys, public_id_of

__all__ = ["make_first_key"]

_log = structlog.get_logger(__name__)


async def make_first_key(settings: Settings, database: Session) -> None:
    """Make the key that the settings name, once. Raises ``SettingsRefused`` for a text that is no key."""
    text = settings.first_key()
    if text is None:
        return
    keys = Keys(database)
    if await keys.create_first(text):
        _log.info("first_key_made", key=public_id_of(text))
    elif await keys.find(text) is None:
        reason = "other keys were made, or this one was revoked; hookwire keys list shows them"
        _log.warning("first_key_not_made", key=public_id_of(text), reason=reason)
