"""Options of Kafka for the pipeline: one object that yields the settings of librdkafka and of the JVM's client."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["SparkKafkaOptions"]


@dataclass(frozen=True, slots=True)
class SparkKafkaOptions:
    """Options of Kafka. ``bootstrap_servers``: host:port, several separated by commas.

    The source "python" is our own data source and needs no jar; "jvm" is Spark's Kafka connector. ``protocol``,
    ``mechanism``, ``username`` and ``password`` have the values of Kafka's settings. ``ca``, ``certificate`` and
    ``key`` are PEM files; their paths must exist on every worker. A read fails if no record arrives for
    ``read_seconds`` (PL-K12). A request to Kafka fails after ``answer_seconds``.
    """

    bootstrap_servers: str
    source: Literal["python", "jvm"] = "python"
    protocol: str = "PLAINTEXT"
    mechanism: str | None = None
    username: str = ""
    password: str = field(default="", repr=False)
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    read_seconds: int = 60
    answer_seconds: int = 20

    def librdkafka(self) -> dict[str, Any]:
        """Return the settings of confluent-kafka's clients. They read committed records only (PL-K14)."""
        given = {
            "bootstrap.servers": self.bootstrap_servers,
            "security.protocol": self.protocol,
            "sasl.mechanisms": self.mechanism,
            "sasl.username": self.username,
            "sasl.password": self.password,
            "ssl.ca.location": self.ca,
            "ssl.certificate.location": self.certificate,
            "ssl.key.location": self.key or self.certificate,
        }
        return {name: value for name, value in given.items() if value} | {"isolation.level": "read_committed"}

    def java(self) -> dict[str, str]:
        """Return the options of Spark's connector, each beginning with ``kafka.``."""
        given = {
            "bootstrap.servers": self.bootstrap_servers,
            "security.protocol": self.protocol,
            "sasl.mechanism": self.mechanism,
            "sasl.jaas.config": self._jaas(),
        }
        if self.ca or self.certificate:
            given |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.ca}
            given |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": self.certificate} if self.certificate else {}
        settings = {f"kafka.{name}": value for name, value in given.items() if value}
        return settings | {"kafka.isolation.level": "read_committed"}

    def _jaas(self) -> str | None:
        if self.mechanism is None:
            return None
        module = "scram.ScramLoginModule" if self.mechanism.startswith("SCRAM") else "plain.PlainLoginModule"
        username, password = (
            value.replace("\\", "\\\\").replace('"', '\\"') for value in (self.username, self.password)
        )
        return f'org.apache.kafka.common.security.{module} required username="{username}" password="{password}";'
