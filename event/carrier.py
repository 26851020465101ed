"""Carrier: the header names of CloudEvents attributes on message brokers, in binary mode (WH-C08, WH-C09).

    stored, and on HTTP   ``ce-<name>``
    Kafka                 ``ce_<name>``
    AMQP 0-9-1            ``cloudEvents_<name>``; RabbitMQ shows it to AMQP 1.0 clients as an application property.
                          Some readers want ``ce-<name>`` there (FX-05)

Other headers keep their names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from event.attribute import HEADER_PREFIX

__all__ = ["AMQP_PREFIX", "KAFKA_PREFIX", "AttributePrefixes", "amqp_names", "kafka_name"]

KAFKA_PREFIX: Final = "ce_"
AMQP_PREFIX: Final = "cloudEvents_"
AttributePrefixes = Literal["cloudEvents_", "ce-", "both"]


def kafka_name(name: str) -> str:
    """Return the Kafka name of an event's header."""
    return KAFKA_PREFIX + name.removeprefix(HEADER_PREFIX) if name.startswith(HEADER_PREFIX) else name


def amqp_names(name: str, prefixes: AttributePrefixes = AMQP_PREFIX) -> Sequence[str]:
    """Return the AMQP names of an event's header: two for a CloudEvents attribute where both prefixes are wanted."""
    if not name.startswith(HEADER_PREFIX):
        return (name,)
    attribute = name.removeprefix(HEADER_PREFIX)
    return [prefix + attribute for prefix in (AMQP_PREFIX, HEADER_PREFIX) if prefixes in (prefix, "both")]
