"""Hub options: the settings of subscribing in the form of the room ``hub``."""

from __future__ import annotations

from dataclasses import fields

from pydantic import SecretStr

from app.settings.settings import Settings
from egress.guard import GuardPolicy
from hub.feeds.feed import FEED_BYTES_MAX
from hub.form import FormDialect
from hub.options import HubOptions

__all__ = ["hub_options"]

_OF_ANOTHER_FORM = ("foreign_topics", "publish_secret")
_SAME = tuple(
    field.name
    for field in fields(HubOptions)
    if f"websub_{field.name}" in Settings.model_fields and field.name not in _OF_ANOTHER_FORM
)
"""The options whose setting has their name, behind ``websub_``."""


def hub_options(settings: Settings, public_url: str, policy: GuardPolicy) -> HubOptions:
    """Return the options; ``policy`` says which callbacks may be named."""
    return HubOptions(
        public_url,
        policy,
        foreign_topics=settings.foreign_topics,
        dialect=FormDialect(settings.websub_pshb),
        publish_secret=(settings.websub_publish_secret or SecretStr("")).get_secret_value().encode(),
        message_id_header=settings.rabbithub_message_id_header.lower(),
        correlation_id_header=settings.rabbithub_correlation_id_header.lower(),
        rabbithub_mirror=settings.rabbithub_mirror,
        shared_queues=frozenset((one.vhost or "/", one.queue) for one in settings.sources_of_sink() if one.shared),
        fetch_bytes_max=min(settings.event_bytes_max, FEED_BYTES_MAX),
        # The due poller finds leases that ended. A refresh is due while a fifth is left; a tenth of it is soon.
        sweep_seconds=min(max(settings.websub_lease_seconds_max / 50, 1.0), 60.0),
        **{name: getattr(settings, f"websub_{name}") for name in _SAME},
    )
