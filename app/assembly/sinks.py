"""The sinks that the settings configure. A sink without its setting is absent.

A broker's client is imported where its options are built, so a hub without that broker starts without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from app.settings.settings import PREFIX, Settings, SettingsRefused
from app.settings.tls import amqp_tls, kafka_tls
from event.partition import Scheme
from relay.sink import Sink
from relay.tls import TlsFiles

if TYPE_CHECKING:
    from relay.amqp.options import AmqpOptions
    from relay.kafka.options import KafkaOptions

__all__ = [
    "INNER_SINKS",
    "amqp_options",
    "configured_sinks",
    "kafka_options",
    "kafka_source_options",
    "sink_maker",
    "source_options",
]

INNER_SINKS = ("webhooks", "jobs")
"""The sinks in the database itself. They always exist, and only the term fences them."""


def configured_sinks(settings: Settings) -> list[str]:
    """Return the names of the sinks with an address in the settings, and of those that need none."""
    names = [*INNER_SINKS]
    names += ["kafka"] if settings.kafka_bootstrap_servers else []
    names += ["amqp"] if settings.amqp_url is not None else []
    return names


def sink_maker(name: str, settings: Settings, incarnation: str) -> Callable[[Callable[[], bool]], Sink]:
    """Return the maker of Kafka or AMQP sinks; each sink gets the check of its lease. Only this function judges the
    settings: raise SettingsRefused.
    """
    if name == "kafka":
        from relay.kafka.sink import KafkaSink

        kafka = kafka_options(settings, incarnation)
        return lambda trusted: KafkaSink(kafka, trusted)
    from relay.amqp.sink import AmqpSink

    amqp = amqp_options(settings, incarnation)
    return lambda _: AmqpSink(amqp)


def kafka_options(settings: Settings, incarnation: str, *, manifests: bool = True) -> KafkaOptions:
    """Return the options for the sink and for the check; raise SettingsRefused. ``manifests``: False for an outbox
    without any.
    """
    from relay.kafka.options import KafkaOptions
    from relay.kafka.security import KafkaSecurity

    password = settings.kafka_sasl_password
    with _refused("kafka"):
        security = KafkaSecurity(
            settings.kafka_security_protocol,
            kafka_tls(settings),
            settings.kafka_sasl_mechanism,
            settings.kafka_sasl_username,
            password.get_secret_value() if password is not None else "",
        )
        return KafkaOptions(
            settings.kafka_bootstrap_servers,
            incarnation,
            mode=settings.kafka_mode,
            manifests=manifests,
            window=settings.kafka_window,
            compression=settings.kafka_compression,
            partitioner=Scheme(settings.kafka_partitioner),
            topic_prefix=settings.kafka_topic_prefix,
            own_headers=settings.relay_headers,
            security=security,
        )


def kafka_source_options(settings: Settings, incarnation: str) -> KafkaOptions:
    """Return the options for Kafka sources; raise SettingsRefused."""
    servers = settings.kafka_source_servers or settings.kafka_bootstrap_servers
    if not servers:
        raise SettingsRefused(
            f"{PREFIX}KAFKA_SOURCES needs {PREFIX}KAFKA_BOOTSTRAP_SERVERS or {PREFIX}KAFKA_SOURCE_SERVERS"
        )
    return kafka_options(settings.model_copy(update={"kafka_bootstrap_servers": servers}), incarnation)


def amqp_options(settings: Settings, incarnation: str) -> AmqpOptions:
    """Return the options for the sink and for the check; raise SettingsRefused."""
    from relay.amqp.options import AmqpOptions

    assert settings.amqp_url is not None, "the sink is configured by its URL"
    with _refused("amqp"):
        return AmqpOptions(
            settings.amqp_url.get_secret_value(),
            incarnation,
            exchange=settings.amqp_exchange,
            own_headers=settings.relay_headers,
            attributes=settings.amqp_cloudevents_prefix,
            tls=amqp_tls(settings),
        )


def source_options(settings: Settings, incarnation: str) -> AmqpOptions:
    """Return the options for AMQP sources; raise SettingsRefused."""
    from relay.amqp.options import AmqpOptions

    url = settings.amqp_source_url or settings.amqp_url
    if url is None:
        raise SettingsRefused(f"{PREFIX}AMQP_SOURCES needs {PREFIX}AMQP_URL or {PREFIX}AMQP_SOURCE_URL")
    with _refused("amqp"):
        text = url.get_secret_value()
        tls = amqp_tls(settings) if text.startswith("amqps://") else TlsFiles("HOOKWIRE_AMQP_TLS")
        return AmqpOptions(text, incarnation, tls=tls)


@contextmanager
def _refused(name: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        text = str(error)
        raise SettingsRefused(text if text.startswith(PREFIX) else f"{PREFIX}{name.upper()}_*: {text}") from None
