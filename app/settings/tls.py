"""The TLS files of the settings. This file needs no broker's library, so that every command can use it."""

from __future__ import annotations

from app.settings.settings import Settings
from relay.tls import TlsFiles

__all__ = ["amqp_tls", "kafka_tls", "outbox_tls"]


def kafka_tls(settings: Settings) -> TlsFiles:
    """Return the files for the protocols SSL and SASL_SSL."""
    return TlsFiles("HOOKWIRE_KAFKA_TLS", settings.kafka_tls_ca, settings.kafka_tls_certificate, settings.kafka_tls_key)


def amqp_tls(settings: Settings) -> TlsFiles:
    """Return the files for ``amqps://``."""
    return TlsFiles("HOOKWIRE_AMQP_TLS", settings.amqp_tls_ca, settings.amqp_tls_certificate, settings.amqp_tls_key)


def outbox_tls(settings: Settings) -> TlsFiles:
    """Return the files for an outbox in MariaDB or MySQL."""
    return TlsFiles(
        "HOOKWIRE_OUTBOX_TLS",
        settings.outbox_tls_ca,
        settings.outbox_tls_certificate,
        settings.outbox_tls_key,
        "server",
    )
