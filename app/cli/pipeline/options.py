"""The data pipeline's options, out of the settings. The only place of ``app`` that knows what the pipeline is told."""

from __future__ import annotations

import platformdirs

from app.settings.settings import Settings, SettingsRefused
from pipeline.kafka_options import SparkKafkaOptions
from pipeline.session import SessionOptions

__all__ = ["kafka_of", "session_of"]


def kafka_of(settings: Settings) -> SparkKafkaOptions:
    """How the pipeline reaches the hub's Kafka. Raises SettingsRefused when there is none."""
    if not settings.kafka_bootstrap_servers:
        raise SettingsRefused("the archive reads Kafka: name a server in HOOKWIRE_KAFKA_BOOTSTRAP_SERVERS")
    password = settings.kafka_sasl_password
    ca, certificate, key = (
        None if file is None else str(file.absolute())
        for file in (settings.kafka_tls_ca, settings.kafka_tls_certificate, settings.kafka_tls_key)
    )
    return SparkKafkaOptions(
        settings.kafka_bootstrap_servers,
        settings.pipeline_source,
        settings.kafka_security_protocol,
        settings.kafka_sasl_mechanism,
        settings.kafka_sasl_username,
        password.get_secret_value() if password is not None else "",
        ca,
        certificate,
        key,
    )


def session_of(settings: Settings) -> SessionOptions:
    """For :func:`pipeline.session.spark_session`; fetches the jars of the JVM's source if it is asked for.

    Raises JarsMissing.
    """
    from pipeline.kafka_jars import kafka_jars

    jars = kafka_jars(platformdirs.user_cache_path("hookwire")) if settings.pipeline_source == "jvm" else ()
    conf = settings.pipeline_conf
    return SessionOptions("hookwire", settings.pipeline_master, settings.pipeline_memory, jars, more=conf)
