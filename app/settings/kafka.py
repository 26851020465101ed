"""Settings of Kafka, and of the election over it; `app.settings.settings.Settings` has them with all others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr

from app.settings.part import SettingsPart

__all__ = ["KafkaServers", "KafkaSettings"]

_SERVER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")


def _check_servers(value: str) -> str:
    """Return a list of brokers, which may be empty; raises ValueError."""
    found = [_SERVER.fullmatch(server.strip()) for server in value.split(",")]
    if value and not all(server and 0 < int(server[2]) < 2**16 for server in found):
        raise ValueError("must be host:port, several separated by commas, each port 1 to 65535")
    return value


KafkaServers = Annotated[str, AfterValidator(_check_servers)]


class KafkaSettings(SettingsPart):
    """Kafka's address, our identity there, and options of records."""

    kafka_bootstrap_servers: KafkaServers = Field("", description="host:port,host:port; none: no Kafka sink.")
    kafka_mode: Literal["transactional", "idempotent"] = Field(
        "transactional", description="transactional is fenced and free of duplicates; idempotent is faster."
    )
    kafka_window: Literal["batch", "record"] = Field(
        "batch",
        description="Unit of a repeat in idempotent mode, and from goharvest's outbox in both modes: a batch, or the "
        "last record of each key, which is slower.",
    )
    kafka_compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = Field(
        "none", description="How batches are compressed. Sizes are judged before."
    )
    kafka_partitioner: Literal["murmur2", "crc32"] = Field(
        "murmur2",
        description="Choice of a key's partition: like Java clients, or like librdkafka. A change moves keys.",
    )
    kafka_topic_prefix: str = Field(
        "", pattern=r"^[A-Za-z0-9._-]{0,100}$", description="Prefix of every topic's name in Kafka."
    )
    kafka_security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT", description="Protocol of the brokers' listener, in Kafka's own terms."
    )
    kafka_tls_ca: Path | None = Field(
        None, description="PEM file of the authorities of the brokers' certificates; default: the system's."
    )
    kafka_tls_certificate: Path | None = Field(
        None, description="PEM file with our certificate, for brokers that require one."
    )
    kafka_tls_key: Path | None = Field(
        None, description="PEM file with its key; default: it is in the certificate's file."
    )
    kafka_sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(
        None, description="SASL mechanism of the user."
    )
    kafka_sasl_username: str = Field("", description="User of the brokers.")
    kafka_sasl_password: SecretStr | None = Field(None, description="Password of the brokers' user.")
    kafka_election: Literal["lease", "neli"] = Field(
        "lease",
        description="Election of the relay to Kafka: by leases in PostgreSQL, or by NELI over a Kafka consumer group.",
    )
    neli_session_seconds: float = Field(
        6.0,
        ge=2,
        le=60,
        description="NELI: time after which Kafka gives up a silent relay; the broker has a minimum.",
    )
