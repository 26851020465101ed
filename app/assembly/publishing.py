"""Publishing: builds the applications that take events over HTTP: the ingest, and the doors for webhooks of others."""

from __future__ import annotations

from app.settings.settings import Settings
from app.web.api.route.context import Context, DoorsContext
from app.web.publishing.inbound import Inbound
from app.web.publishing.ingest import Ingest
from app.web.publishing.notice import Notices
from db.pool import Database
from db.secret_box import SecretBox
from hub.inbound.doors import Doors
from hub.inbound.known_doors import KnownDoors
from hub.inbound.latest import LatestRequests
from hub.publish import Publisher
from runtime.sample import EventSample

__all__ = ["doors_context", "publishing_apps"]


def doors_context(database: Database, box: SecretBox) -> DoorsContext:
    """Return the doors of one process."""
    doors = Doors(database, box)
    return DoorsContext(doors, KnownDoors(doors), LatestRequests(database))


def publishing_apps(settings: Settings, context: Context, publisher: Publisher) -> tuple[Ingest, Inbound]:
    """Return the two applications, which store by the same publisher."""
    sample = EventSample(settings.log_sample_share)
    ingest = Ingest(
        publisher, context.topics, Notices(context.database), context.incarnation, settings.event_bytes_max, sample,
        has_kafka=bool(settings.kafka_bootstrap_servers),
    )  # fmt: skip
    doors = context.doors
    inbound = Inbound(
        publisher, context.topics, doors.known, doors.latest, context.incarnation, sample, context.registry
    )
    return ingest, inbound
