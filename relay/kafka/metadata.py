"""Kafka metadata of topics. aiokafka does not ask whether we may write to a topic (KIP-430); this module does.

A broker of Kafka 2.3 or later answers version 8 of the request. An older one does not tell the rights, so they count as
given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aiokafka.errors import KafkaError, for_code
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.metadata import MetadataRequest_v5
from aiokafka.protocol.types import Array, Boolean, Int16, Int32, Schema, String

__all__ = ["MetadataRequest", "TopicDescription", "description_of"]

_WRITE = 1 << 4  # AclOperation.WRITE
_NOT_TOLD = -(1 << 31)


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic in the cluster. ``error`` is aiokafka's class for the broker's answer, None when the topic is there.

    ``leaderless`` are the partitions without a leader. ``replicas`` and ``in_sync`` are the fewest of a partition.
    """

    error: type[KafkaError] | None
    replicas: int
    in_sync: int = 1
    leaderless: tuple[int, ...] = ()
    may_write: bool = True


class _Answer(Response):  # type: ignore[misc]
    API_KEY = 3
    API_VERSION = 8
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("brokers", Array(("node_id", Int32), ("host", String("utf-8")), ("port", Int32), ("rack", String("utf-8")))),
        ("cluster_id", String("utf-8")),
        ("controller_id", Int32),
        (
            "topics",
            Array(
                ("error_code", Int16),
                ("topic", String("utf-8")),
                ("is_internal", Boolean),
                (
                    "partitions",
                    Array(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", Array(Int32)),
                        ("isr", Array(Int32)),
                        ("offline_replicas", Array(Int32)),
                    ),
                ),
                ("authorized_operations", Int32),
            ),
        ),
        ("cluster_authorized_operations", Int32),
    )


class _Question(RequestStruct):  # type: ignore[misc]
    API_KEY = 3
    API_VERSION = 8
    RESPONSE_TYPE = _Answer
    SCHEMA = Schema(
        ("topics", Array(String("utf-8"))),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
    )


class MetadataRequest(Request[MetadataRequest_v5 | _Question]):  # type: ignore[misc]
    """Describes topics. It creates missing topics where the cluster does that by itself."""

    API_KEY = 3

    def __init__(self, topics: list[str]) -> None:
        self._topics = topics

    def build(self, request_struct_class: type[RequestStruct]) -> Any:
        """Return the request in the version that the broker knows."""
        rights = (False, True) if request_struct_class is _Question else ()
        return request_struct_class(self._topics, True, *rights)


def description_of(topic: Mapping[str, Any]) -> TopicDescription:
    """Return a topic of the answer."""
    partitions = topic["partitions"]
    rights = topic.get("authorized_operations", _NOT_TOLD)
    return TopicDescription(
        error=for_code(topic["error_code"]) if topic["error_code"] else None,
        replicas=min((len(partition["replicas"]) for partition in partitions), default=0),
        in_sync=min((len(partition["isr"]) for partition in partitions), default=0),
        leaderless=tuple(sorted(partition["partition"] for partition in partitions if partition["leader"] < 0)),
        may_write=rights == _NOT_TOLD or bool(rights & _WRITE),
    )
