"""Check that no AMQP source reads the AMQP sink's messages, because events would loop."""

from __future__ import annotations

from contextlib import aclosing

from app.checks.check import Check
from app.settings.settings import Settings
from db.direct import connect_direct
from db.errors import DatabaseError
from db.pool import PoolOptions
from relay.source import SourceRoute

__all__ = ["amqp_source_checks"]

_SUBJECT = "AMQP sources"
_CURE = "read another exchange, or give the source a topic whose sinks have no amqp"


async def amqp_source_checks(settings: Settings, options: PoolOptions) -> list[Check]:
    """Return one check for each loop that the settings and the database show; the database is migrated."""
    if not settings.amqp_sources:
        return [Check("amqp_sources", _SUBJECT, "note", "none (HOOKWIRE_AMQP_SOURCES)")]
    # An exchange of RabbitHub may be mirrored and read: what was read there is not sent there again.
    others = [route for route in settings.sources_of_sink() if not route.rabbithub_exchange and not route.shared]
    routes = [route for route in others if not route.vhost]
    if not routes:
        return [Check("amqp_sources", _SUBJECT, "ok", "none reads what the AMQP sink publishes")]
    try:
        async with aclosing(await connect_direct(options)) as connection:
            rows = [
                await connection.fetchrow(
                    "check.source_loop", route.exchange, route.topic or None, settings.amqp_exchange
                )
                for route in routes
            ]
    except DatabaseError as error:
        return [Check("amqp_sources", _SUBJECT, "unreachable", str(error), "the connection broke during the check")]
    found = [_loop(route, row["name"]) for route, row in zip(routes, rows, strict=True) if row is not None]
    return found or [Check("amqp_sources", _SUBJECT, "ok", ", ".join(route.queue for route in routes))]


def _loop(route: SourceRoute, name: str) -> Check:
    detail = f"{route.queue} reads the exchange {route.exchange}, to which {name} publishes the events of that queue"
    return Check("amqp_sources", _SUBJECT, "refuse", detail, _CURE)
