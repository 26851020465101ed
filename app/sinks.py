"""Which sinks there are, from the settings. A sink without its setting is absent and says so."""

from __future__ import annotations

from collections.abc import Callable

from app.settings import Settings, SettingsRefused
from relay.amqp import AmqpSink
from relay.amqp_link import AmqpOptions
from relay.kafka import KafkaSink
from relay.kafka_options import KafkaOptions
from relay.sink import Sink

__all__ = ["configured_sinks", "make_broker_sink"]


def configured_sinks(settings: Settings) -> list[str]:
    """Names of the sinks that the settings give addresses for; the webhooks are always there."""
    names = ["webhooks"]
    names += ["kafka"] if settings.kafka_bootstrap_servers else []
    names += ["amqp"] if settings.amqp_url is not None else []
    return names


def make_broker_sink(name: str, settings: Settings, incarnation: str, trusted: Callable[[], bool]) -> Sink:
    """The Kafka or the AMQP sink. ``trusted`` says whether the lease still holds. Raises SettingsRefused."""
    try:
        if name == "kafka":
            return KafkaSink(
                KafkaOptions(
                    settings.kafka_bootstrap_servers,
                    incarnation,
                    mode=settings.kafka_mode,
                    topic_prefix=settings.kafka_topic_prefix,
                ),
                trusted,
            )
        assert settings.amqp_url is not None, "the sink is configured by its URL"
        return AmqpSink(AmqpOptions(settings.amqp_url.get_secret_value(), incarnation, exchange=settings.amqp_exchange))
    except ValueError as error:
        raise SettingsRefused(f"HOOKWIRE_{name.upper()}_*: {error}") from None
