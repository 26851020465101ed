"""The options of the Kafka sink, checked before any connection (RG-09, SC-01, SC-20)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from aiokafka import codec

from event.partition import Scheme
from relay.kafka.security import KafkaSecurity

__all__ = ["Compression", "KafkaOptions"]

Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]

_CODEC_INSTALLED = {
    "none": lambda: True, "gzip": codec.has_gzip, "snappy": codec.has_snappy, "lz4": codec.has_lz4,
    "zstd": codec.has_zstd,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class KafkaOptions:
    """Raises ValueError for options that cannot work or are not safe.

    ``bootstrap_servers``: host:port, several of them separated by commas. ``installation``: the incarnation; it is part
    of the transactional id, so that a clone of the database never fences the original (RR-06). ``relay``: the name of
    this process in the broker's logs.

    ``mode``: "transactional" is fenced and gives read-committed readers no duplicates. "idempotent" is faster and may,
    after a pause of the leader, write after its successor (RR-02). ``manifests=False``: transactions without progress
    marker, fenced and at least once, for an outbox that has no manifests (compat mode). ``window``: the unit of a
    repeat where no marker prevents it, an unacknowledged "batch" or one "record" of each key (RR-01).

    ``batch_bytes`` bounds one Kafka batch (one partition), ``batch_records_max`` one call of send over all partitions.
    ``message_bytes_default`` is the limit of a topic whose own ``max.message.bytes`` we may not read. Sizes are judged
    before compression. ``security`` is the only group of client options; acks and idempotence are fixed.

    A batch that has no answer after ``delivery_seconds`` is given up; the broker aborts a transaction after
    ``transaction_seconds``, which must be longer. ``topic_wait_seconds``: how long a missing topic may take to appear,
    where the broker creates topics by itself. ``own_headers``: whether a record carries our headers beside the
    publisher's (RO-15).
    """

    bootstrap_servers: str
    installation: str
    mode: Literal["transactional", "idempotent"] = "transactional"
    manifests: bool = True
    window: Literal["batch", "record"] = "batch"
    relay: str = "hookwire"
    partitioner: Scheme = Scheme.MURMUR2
    topic_prefix: str = ""
    progress_topic: str = "hookwire.progress"
    compression: Compression = "none"
    security: KafkaSecurity = field(default_factory=KafkaSecurity)
    batch_bytes: int = 256 * 1024
    batch_records_max: int = 2_000
    message_bytes_default: int = 1_048_588
    request_seconds: float = 10.0
    delivery_seconds: float = 12.0
    transaction_seconds: float = 15.0
    topic_wait_seconds: float = 0.5
    own_headers: bool = True

    def __post_init__(self) -> None:
        if not self.bootstrap_servers:
            raise ValueError("bootstrap_servers is empty: name at least one host:port")
        if self.mode not in ("transactional", "idempotent"):
            raise ValueError(f"mode {self.mode!r} is neither transactional nor idempotent")
        if self.window == "record" and self.mode == "transactional" and self.manifests:
            raise ValueError("window=record is for mode=idempotent: transactions repeat nothing anyway")
        installed = _CODEC_INSTALLED.get(self.compression)
        if installed is None or not installed():
            known = ", ".join(_CODEC_INSTALLED)
            raise ValueError(f"compression {self.compression!r} is not available: use one of {known}")
        if self.delivery_seconds >= self.transaction_seconds:
            raise ValueError("delivery_seconds must be shorter than transaction_seconds")

    def client(self, role: str) -> dict[str, Any]:
        """Return the settings that all our aiokafka clients share; raise SinkUnavailable if a file cannot be read."""
        return {
            "bootstrap_servers": [server.strip() for server in self.bootstrap_servers.split(",")],
            "client_id": f"{self.relay}-{role}",
            "request_timeout_ms": int(self.request_seconds * 1000),
            "metadata_max_age_ms": 30_000,  # how late a change of a topic's partitions is noticed
            **self.security.client(),
        }
