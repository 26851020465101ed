"""Settings of Kafka sources: the topics to read."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qsl

from pydantic import Field, field_validator

from app.settings.kafka import KafkaServers, KafkaSettings
from app.settings.part import Texts
from event.topic import TopicError, is_reserved, validate_topic
from relay.kafka.source.route import WILDCARD, KafkaRoute

__all__ = ["KafkaSourceSettings", "kafka_route_of"]

_FIELDS: Final = ("topic", "start", "group", "refused", "header")
_CHOICES: Final = {"start": ("earliest", "latest"), "refused": ("pass", "hold")}
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_SOURCE: Final = re.compile(r"[A-Za-z0-9._*-]{1,249}")


class KafkaSourceSettings(KafkaSettings):
    """The Kafka topics to read, beside the settings of Kafka, whose TLS files and user serve for them as well."""

    kafka_sources: Texts = Field(
        (),
        description="Kafka topics whose records become events, comma separated: `TOPIC`, or `TOPIC?topic=T` for "
        "another topic of the hub; `start=earliest` begins with the oldest record (default: `latest`), `group=G` "
        "names the consumer group, with `refused=hold` a refused record holds its key, and `header=NAME:VALUE` "
        "takes only records with this header. A `*` in `TOPIC` stands for any characters, and in `T` for the same.",
    )
    kafka_source_servers: KafkaServers = Field(
        "", description="host:port,host:port of the brokers of KAFKA_SOURCES; default: those of the sink."
    )
    kafka_source_records: int = Field(
        1_000, ge=1, le=5_000, description="Records of a partition that are taken in one transaction, at most."
    )

    kafka_source_backlog_max: int = Field(
        100_000,
        ge=1,
        le=10_000_000,
        description="Events that wait for their fan-out at which no more records are taken.",
    )

    @field_validator("kafka_sources")
    @classmethod
    def _check_kafka_sources(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        names = [kafka_route_of(text).source for text in value]
        if len(set(names)) < len(names):
            raise ValueError("names a Kafka topic twice")
        return value

    def kafka_routes(self) -> list[KafkaRoute]:
        """Return the Kafka sources."""
        return [kafka_route_of(text) for text in self.kafka_sources]

    def kafka_routes_of_sink(self) -> list[KafkaRoute]:
        """Return the Kafka sources that read the sink's brokers."""
        has_sink = self.kafka_bootstrap_servers and self.kafka_source_servers in ("", self.kafka_bootstrap_servers)
        return self.kafka_routes() if has_sink else []


def kafka_route_of(text: str) -> KafkaRoute:
    """Read one source; raises ValueError."""
    source, _, query = text.partition("?")
    pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query), max_num_fields=len(_FIELDS))
    given = dict(pairs)
    if len(given) < len(pairs) or not given.keys() <= {*_FIELDS}:
        raise ValueError(f"{text!r}: after the Kafka topic come {', '.join(_FIELDS)}, each at most once")
    for name, choices in _CHOICES.items():
        if given.get(name, choices[0]) not in choices:
            raise ValueError(f"{text!r}: {name} is one of {', '.join(choices)}")
    if source.count(WILDCARD) > 1 or not _SOURCE.fullmatch(source) or not _NAME.fullmatch(given.get("group", "g")):
        raise ValueError(f"{text!r}: a Kafka topic and a group have 1 to 249 letters, digits, dots, - and _")
    if WILDCARD in source and "group" in given:
        raise ValueError(f"{text!r}: each Kafka topic of a pattern has a group of its own; leave group out")
    header = _header(text, given.pop("header", None))
    topic = given.pop("topic", source)
    try:
        if is_reserved(validate_topic(topic.replace(WILDCARD, "x") if WILDCARD in source else topic)):
            raise TopicError(f"the topic {topic} is the hub's own")
    except TopicError as error:
        raise ValueError(f"{text!r}: {error}; name another by topic=") from None
    return KafkaRoute(source, topic, header=header, **given)  # type: ignore[arg-type]


def _header(text: str, given: str | None) -> tuple[str, bytes] | None:
    if given is None:
        return None
    name, colon, value = given.partition(":")
    if not name or not colon:
        raise ValueError(f"{text!r}: header is NAME:VALUE, percent-encoded")
    return name.lower(), value.encode()
