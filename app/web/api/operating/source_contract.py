"""The contract of /sources: what the routes of sources and of their refused records take and answer."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.web.api.route.actor import Reason
from relay.kafka.source.passed_over import PassedOverKind

__all__ = [
    "ForgetIn",
    "ForgottenOut",
    "Move",
    "PartitionOut",
    "PassedOverOut",
    "PausedOut",
    "RefusalDetail",
    "RefusalOut",
    "RefusalPage",
    "ResetIn",
    "ResetOut",
    "SettledRefusal",
    "SourceList",
    "SourceOut",
]

_PARTITION: dict[str, Any] = {
    "partition": 0, "next_offset": 4711, "end_offset": 4720, "lag": 9, "age_seconds": 0.4, "rate": 180.5,
    "taken": 4711, "last_record_at": "2026-01-15T09:31:07Z", "reader": "hub-1-7", "trouble": None,
}  # fmt: skip
_SOURCE: dict[str, Any] = {
    "source": "stock", "kind": "kafka", "topic": "stock.level", "paused": False, "lag": 9, "age_seconds": 0.4,
    "rate": 180.5, "refused": 0, "partitions": [_PARTITION], "preset": None, "accepted_at": None, "refused_at": None,
    "passed_over": [], "passed_over_count": 0,
}  # fmt: skip
_PASSED_OVER: dict[str, Any] = {
    "topic": "shop-orders", "kind": "limit", "reason": "100 topics fit already", "is_unread": True,
}  # fmt: skip
_MOVE: dict[str, Any] = {"partition": 0, "next_offset": 4711, "to_offset": 4000}
_REFUSAL: dict[str, Any] = {
    "id": "refusal_7", "kind": "kafka", "source": "stock", "partition": 0, "offset": 4708, "reason": "too_large",
    "detail": "the value has 2000000 bytes, more than 1048576", "key": "shoe", "bytes": 2_000_004,
    "record_at": "2026-01-15T09:31:06Z", "refused_at": "2026-01-15T09:31:07.131002Z", "holds": False,
}  # fmt: skip
_SETTLED: dict[str, Any] = {"id": "refusal_7", "events": ["evt_k3v7q2ha_42"], "released": 3, "held_by": None}


class PartitionOut(BaseModel):
    """How far a partition is taken."""

    model_config = ConfigDict(json_schema_extra={"examples": [_PARTITION]})

    partition: int
    next_offset: int = Field(description="The first offset that is not taken.")
    end_offset: int | None = Field(description="The end of the partition, as its reader has seen it last.")
    lag: int | None
    age_seconds: float | None = Field(
        description="Age of the record that was taken last, while there is a lag; 0 without a lag, null if unknown."
    )
    rate: float | None = Field(
        description="Records a second in the seconds before its reader's last report; null if it was never read."
    )
    taken: int = Field(description="Number of records that were taken, with those that were refused.")
    last_record_at: datetime | None
    reader: str | None = Field(description="The process that has read it last.")
    trouble: str | None = Field(description="Why its reader does not go on; null while it does.")


class PassedOverOut(BaseModel):
    """A Kafka topic that fits a pattern, and that the pattern does not read."""

    model_config = ConfigDict(json_schema_extra={"examples": [_PASSED_OVER]})

    topic: str
    kind: PassedOverKind = Field(
        description="limit: enough topics fit already. name: its name makes no topic of the hub. own: it is the hub's "
        "own. other: another source reads it."
    )
    reason: str
    is_unread: bool = Field(description="Whether nobody reads it, although its records are wanted.")


class SourceOut(BaseModel):
    """A Kafka topic that is read, a pattern of such topics, or an inbound source, which takes webhooks of others."""

    model_config = ConfigDict(json_schema_extra={"examples": [_SOURCE]})

    source: str = Field(description="The name of the Kafka topic, the pattern, or the name of the inbound source.")
    kind: Literal["kafka", "pattern", "webhooks"] = Field(
        description="pattern: each topic that it reads is a source of its own. webhooks: `GET /in/{source}` shows more."
    )
    topic: str | None = Field(description="The topic of its events; null if the settings of this process lack it.")
    paused: bool
    lag: int
    age_seconds: float | None = Field(description="Of a Kafka topic: the largest of its partitions.")
    rate: float | None = Field(description="Of a Kafka topic: the sum of its partitions.")
    refused: int = Field(
        description="Number of refused records that are kept, counted up to 10,000; of an inbound source always 0."
    )
    partitions: list[PartitionOut]
    preset: str | None = Field(description="Of an inbound source: its sender.")
    accepted_at: datetime | None = Field(description="Of an inbound source: its last accepted request.")
    refused_at: datetime | None = Field(description="Of an inbound source: its last refused request.")
    passed_over: list[PassedOverOut] = Field(
        [], description="Of a pattern: the topics that it does not read, up to 20. Those that nobody reads are first."
    )
    passed_over_count: int = Field(0, description="Of a pattern: how many topics it does not read.")


class SourceList(BaseModel):
    """A page of the sources that were ever read, and of the patterns that a process reads now, by name."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [_SOURCE], "next_cursor": None}]})

    items: list[SourceOut]
    next_cursor: str | None


class PausedOut(BaseModel):
    """Whether a source is paused."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"source": "stock", "paused": True}]})

    source: str
    paused: bool


class ForgetIn(Reason):
    """Which sources shall not be read any more."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"source": "stock"}]})

    source: str = Field(
        min_length=1, max_length=255, pattern=r"^[^\x00]+$",
        description="The Kafka topic, pattern or AMQP queue; `*` stands for any characters.",
    )  # fmt: skip


class ForgottenOut(BaseModel):
    """How many sources were forgotten."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"forgotten": 1}]})

    forgotten: int


class ResetIn(Reason):
    """Where to go on."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"offset": 4000, "partition": 0}]})

    partition: int | None = Field(None, ge=0, description="null: each partition.")
    offset: int | None = Field(None, ge=0, lt=2**62, description="null: the end, as the reader has seen it last.")
    dry_run: bool = Field(True, description="Only tell what would change.")


class Move(BaseModel):
    """The move of a partition. Records between the two offsets are taken again, or are skipped."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"partition": 0, "next_offset": 4711, "to_offset": 4000}]}
    )

    partition: int
    next_offset: int
    to_offset: int


class ResetOut(BaseModel):
    """The moves, and whether they are made."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"dry_run": True, "moves": [_MOVE]}]})

    dry_run: bool
    moves: list[Move]


class RefusalOut(BaseModel):
    """A record of Kafka or a message of AMQP that cannot be an event. ``key`` is the first 1,024 bytes of its key as
    text, with other bytes escaped.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [_REFUSAL]})

    id: str
    kind: Literal["kafka", "amqp"]
    source: str = Field(description="The name of the Kafka topic, or of the queue.")
    partition: int | None = Field(description="null for a message.")
    offset: int | None
    reason: str
    detail: str
    key: str | None
    bytes: int
    record_at: datetime | None
    refused_at: datetime
    holds: bool = Field(description="Whether later records of its key are kept behind it.")


class RefusalDetail(RefusalOut):
    """The same with the beginning of its value."""

    model_config = ConfigDict(json_schema_extra={"examples": [{**_REFUSAL, "value": '{"article": 7}'}]})

    value: str | None = Field(description="Its first 16,384 bytes as text, other bytes escaped; null: a tombstone.")


class RefusalPage(BaseModel):
    """A page of refused records, oldest first."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [_REFUSAL], "next_cursor": None}]})

    items: list[RefusalOut]
    next_cursor: str | None


class SettledRefusal(BaseModel):
    """The events that a refused record has become; none if it was skipped."""

    model_config = ConfigDict(json_schema_extra={"examples": [_SETTLED]})

    id: str
    events: list[str]
    released: int = Field(description="Number of records that waited for its key, and are published now.")
    held_by: str | None = Field(description="The refused record that holds the key now; null if none does.")
