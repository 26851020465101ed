"""Which TLS files the settings name. Apart from the sinks, so that a command needs no broker's library for them."""

from __future__ import annotations

from app.settings import Settings
from relay.tls import TlsFiles

__all__ = ["amqp_tls", "kafka_tls"]


def kafka_tls(settings: Settings) -> TlsFiles:
    """For the protocols SSL and SASL_SSL."""
    return TlsFiles("HOOKWIRE_KAFKA_TLS", settings.kafka_tls_ca, settings.kafka_tls_certificate, settings.kafka_tls_key)


def amqp_tls(settings: Settings) -> TlsFiles:
    """For ``amqps://``."""
    return TlsFiles("HOOKWIRE_AMQP_TLS", settings.amqp_tls_ca, settings.amqp_tls_certificate, settings.amqp_tls_key)
