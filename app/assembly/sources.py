"""Sources: builds the role ``source`` from the settings: a service for each AMQP queue and Kafka topic that is read."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import CollectorRegistry

from app.assembly.sinks import kafka_source_options, source_options
from app.settings.amqp_source import route_of
from app.settings.settings import Settings
from app.verdict.presence import StateReport
from db.pool import Database
from hub.acceptance import Hub
from hub.intake.kept_messages import KeptMessages
from hub.intake.messages import EventIntake
from hub.intake.records import RecordIntake
from hub.publish import Publisher
from hub.topics import Topics
from relay.amqp.source import AmqpSource, SourceMetrics
from relay.kafka.source.metrics import KafkaSourceMetrics
from relay.kafka.source.offsets import FanoutBacklog, SourceOffsets
from relay.kafka.source.pattern import KafkaPattern
from relay.kafka.source.pattern_notes import PatternNotes
from relay.kafka.source.reader import PartitionOptions
from relay.kafka.source.route import KafkaRoute
from relay.kafka.source.service import KafkaSource
from runtime.process import process_name

__all__ = ["Sources"]


class Sources:
    """The sources of one process. Raises SettingsRefused for a broker that cannot be reached by these settings."""

    def __init__(
        self, settings: Settings, database: Database, hub: Hub, publisher: Publisher, topics: Topics,
        registry: CollectorRegistry,
    ) -> None:  # fmt: skip
        self._settings = settings
        self._registry = registry
        events = EventIntake(hub, publisher, topics, reads_sink=bool(settings.sources_of_sink()))
        self._amqp = self._amqp_sources(events, hub.incarnation, KeptMessages(database))
        intake = RecordIntake(database, hub.incarnation, publisher, topics)
        self._kafka = self._kafka_sources(intake, database, hub.incarnation)

    @property
    def services(self) -> Sequence[AmqpSource | KafkaSource | KafkaPattern]:
        """Return the services to run."""
        return [*self._amqp, *self._kafka]

    def reports(self) -> list[StateReport]:
        """Return the state of each source."""
        amqp = [StateReport("source", one.queue, one.state, one.last_error) for one in self._amqp]
        found = [source for one in self._kafka if isinstance(one, KafkaPattern) for source in one.sources]
        return amqp + [StateReport("source", one.source, one.state, one.last_error) for one in (*self._kafka, *found)]

    def _amqp_sources(self, intake: EventIntake, incarnation: str, store: KeptMessages) -> Sequence[AmqpSource]:
        settings = self._settings
        if not settings.amqp_sources:
            return ()
        options, metrics = source_options(settings, incarnation), SourceMetrics(self._registry)
        return [
            AmqpSource(
                options, route_of(text), intake, metrics, settings.amqp_source_prefetch, settings.event_bytes_max, store
            )
            for text in settings.amqp_sources
        ]

    def _kafka_sources(
        self, intake: RecordIntake, database: Database, incarnation: str
    ) -> Sequence[KafkaSource | KafkaPattern]:
        settings = self._settings
        if not settings.kafka_sources:
            return ()
        options, metrics = kafka_source_options(settings, incarnation), KafkaSourceMetrics(self._registry)
        reader = PartitionOptions(
            settings.kafka_source_records, settings.event_bytes_max, settings.kafka_source_backlog_max
        )
        routes, backlog = settings.kafka_routes(), FanoutBacklog(database, settings.kafka_source_backlog_max)

        def make_source(route: KafkaRoute) -> KafkaSource:
            offsets = SourceOffsets(database, route.source, process_name(), backlog)
            return KafkaSource(options, route, intake, offsets, metrics, reader)

        return [
            KafkaPattern(options, route, routes, make_source, PatternNotes(database, route))
            if route.is_pattern
            else make_source(route)
            for route in routes
        ]
