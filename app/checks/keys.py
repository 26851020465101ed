"""Check access to the API: production needs a key, or a proxy that authenticates."""

from __future__ import annotations

from contextlib import aclosing

from app.checks.check import Check
from app.settings.settings import Settings
from db.direct import connect_direct
from db.errors import DatabaseError
from db.pool import PoolOptions

__all__ = ["key_checks"]

_CURE_AGAIN = "run: hookwire keys create NAME --scope admin (or set HOOKWIRE_ACCESS=proxy where a proxy decides)"
_CURE = (
    "run: hookwire keys create NAME --scope admin, or set HOOKWIRE_BOOTSTRAP_KEY to what `hookwire keys generate` "
    "prints (or set HOOKWIRE_ACCESS=proxy where a proxy decides)"
)


async def key_checks(settings: Settings, options: PoolOptions) -> list[Check]:
    """Return one check; the database is migrated."""
    if not settings.needs_keys:
        decider = "a proxy decides" if settings.access == "proxy" else "anyone that reaches the API may use it"
        return [Check("SC-18", "API keys", "ok", f"not needed: {decider}")]
    try:
        async with aclosing(await connect_direct(options)) as connection:
            row = await connection.fetchrow("key.live")
    except DatabaseError as error:
        return [Check("SC-18", "API keys", "unreachable", str(error), "the connection broke during the check")]
    if row is not None and row["valid"]:
        return [Check("SC-18", "API keys", "ok", "at least one exists")]
    if row is not None and not row["made"] and settings.names_first_key:
        return [Check("SC-18", "API keys", "ok", "the start makes the first one")]
    if row is not None and row["made"]:
        return [Check("SC-18", "API keys", "refuse", "requests need a key, and all keys were revoked", _CURE_AGAIN)]
    return [Check("SC-18", "API keys", "refuse", "requests need a key, and no key exists", _CURE)]
