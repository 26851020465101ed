"""Hub options: the settings of subscribing in the form of the room ``hub``."""

from __future__ import annotations

from pydantic import SecretStr

from app.settings.settings import Settings
from egress.guard import GuardPolicy
from hub.feed import FEED_BYTES_MAX
from hub.form import FormDialect
from hub.options import HubOptions

__all__ = ["hub_options"]


def hub_options(settings: Settings, public_url: str, policy: GuardPolicy) -> HubOptions:
    """Return the options; ``policy`` says which callbacks may be named."""
    return HubOptions(
        public_url,
        policy,
        lease_seconds_min=settings.websub_lease_seconds_min,
        lease_seconds_default=settings.websub_lease_seconds_default,
        lease_seconds_max=settings.websub_lease_seconds_max,
        secret_over_http=settings.websub_secret_over_http,
        tell_lease_end=settings.websub_tell_lease_end,
        foreign_topics=settings.foreign_topics,
        dialect=FormDialect(settings.websub_pshb),
        sha1_hosts=settings.websub_sha1_hosts,
        publish_secret=(settings.websub_publish_secret or SecretStr("")).get_secret_value().encode(),
        strict_topic=settings.websub_strict_topic,
        verification_slots=settings.websub_verification_slots,
        first_connect_seconds=settings.websub_first_connect_seconds,
        verifications_per_minute_host=settings.websub_verifications_per_minute_host,
        verifications_burst_host=settings.websub_verifications_burst_host,
        verifications_per_minute_requester=settings.websub_verifications_per_minute_requester,
        verifications_burst_requester=settings.websub_verifications_burst_requester,
        pending_requester_max=settings.websub_pending_requester_max,
        subscriptions_host_max=settings.websub_subscriptions_host_max,
        subscriptions_requester_max=settings.websub_subscriptions_requester_max,
        message_id_header=settings.rabbithub_message_id_header.lower(),
        correlation_id_header=settings.rabbithub_correlation_id_header.lower(),
        rabbithub_mirror=settings.rabbithub_mirror,
        amqp_sources=tuple((route.exchange, route.rabbithub_exchange) for route in settings.sources_of_sink()),
        fetch_bytes_max=min(settings.event_bytes_max, FEED_BYTES_MAX),
        # The due poller finds leases that ended. A refresh is due while a fifth is left; a tenth of it is soon.
        sweep_seconds=min(max(settings.websub_lease_seconds_max / 50, 1.0), 60.0),
    )
