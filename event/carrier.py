"""Carrier: the header names of CloudEvents attributes on message brokers, in binary mode (WH-C08, WH-C09).

    stored, and on HTTP   ``ce-<name>``
    Kafka                 ``ce_<name>``
    AMQP 0-9-1            ``cloudEvents_<name>``; RabbitMQ shows it to AMQP 1.0 clients as an application property

Other headers keep their names.
"""

from __future__ import annotations

from typing import Final

from event.attribute import HEADER_PREFIX

__all__ = ["AMQP_PREFIX", "KAFKA_PREFIX", "amqp_name", "kafka_name"]

KAFKA_PREFIX: Final = "ce_"
AMQP_PREFIX: Final = "cloudEvents_"


def kafka_name(name: str) -> str:
    """Return the Kafka name of an event's header."""
    return KAFKA_PREFIX + name.removeprefix(HEADER_PREFIX) if name.startswith(HEADER_PREFIX) else name


def amqp_name(name: str) -> str:
    """Return the AMQP name of an event's header."""
    return AMQP_PREFIX + name.removeprefix(HEADER_PREFIX) if name.startswith(HEADER_PREFIX) else name
