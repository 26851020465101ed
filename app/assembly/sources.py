"""Sources: builds the role ``source`` from the settings: one service for each AMQP queue that is read."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import CollectorRegistry

from app.assembly.sinks import source_options
from app.settings.amqp_source import route_of
from app.settings.settings import Settings
from relay.amqp.source import AmqpSource, SourceMetrics
from relay.source import Intake

__all__ = ["amqp_sources"]


def amqp_sources(
    settings: Settings, incarnation: str, intake: Intake, registry: CollectorRegistry
) -> Sequence[AmqpSource]:
    """Return the services; raises SettingsRefused for a broker that cannot be reached by these settings."""
    if not settings.amqp_sources:
        return ()
    options, metrics = source_options(settings, incarnation), SourceMetrics(registry)
    return [
        AmqpSource(options, route_of(text), intake, metrics, settings.amqp_source_prefetch, settings.event_bytes_max)
        for text in settings.amqp_sources
    ]
