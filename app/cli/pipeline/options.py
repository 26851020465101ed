"""Options of the data pipeline, computed from the settings. Only this module maps settings to pipeline options."""

from __future__ import annotations

import platformdirs

from app.assembly.storage import present_secrets
from app.settings.pipeline import of_aws
from app.settings.settings import Settings, SettingsRefused
from pipeline.audit.seal import SealKeys
from pipeline.kafka_options import SparkKafkaOptions
from pipeline.s3 import S3Options
from pipeline.session import SessionOptions

__all__ = ["kafka_of", "s3_of", "seal_keys_of", "session_of"]


def kafka_of(settings: Settings) -> SparkKafkaOptions:
    """Return the options of the hub's Kafka. Raises SettingsRefused if no Kafka is configured."""
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


def s3_of(settings: Settings) -> S3Options:
    """Return the options of the lake's object store: from the settings, else from AWS's own variables."""
    secret, token = (
        None if value is None else value.get_secret_value()
        for value in (settings.pipeline_s3_secret_key, settings.pipeline_s3_session_token)
    )
    if settings.pipeline_s3_access_key:  # The secret and token of AWS's variables would belong to another key.
        keys = settings.pipeline_s3_access_key, secret or "", token or ""
    else:
        keys = of_aws("AWS_ACCESS_KEY_ID"), of_aws("AWS_SECRET_ACCESS_KEY"), of_aws("AWS_SESSION_TOKEN")
    endpoint = settings.pipeline_s3_endpoint or of_aws("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
    region = settings.pipeline_s3_region or of_aws("AWS_REGION", "AWS_DEFAULT_REGION")
    return S3Options(endpoint, region, *keys)


def seal_keys_of(settings: Settings) -> SealKeys:
    """Return the keys of the rows' seals, made from the keys of the installation; none if those are not here.

    Raises SecretBoxError.
    """
    box = present_secrets(settings)
    return SealKeys() if box is None else SealKeys(box.derived(b"seals of the lake"))


def session_of(settings: Settings) -> SessionOptions:
    """Return the options for :func:`pipeline.session.spark_session`; fetch the jars if the source is "jvm".

    Raises JarsMissing.
    """
    from pipeline.kafka_jars import kafka_jars

    jars = kafka_jars(platformdirs.user_cache_path("hookwire")) if settings.pipeline_source == "jvm" else ()
    conf = s3_of(settings).spark() | settings.pipeline_conf
    return SessionOptions("hookwire", settings.pipeline_master, settings.pipeline_memory, jars, more=conf)
