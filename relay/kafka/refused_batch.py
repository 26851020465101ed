"""A Kafka batch that a broker refused, with the broker's own code, its text, and the records that it names (KIP-467).

aiokafka reads version 7 of the answer at most, and hands on an error class only. Every code above 79 is UnknownError
there (RK-24). This module asks in version 8, if the broker knows it, and keeps the details of the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from aiokafka import AIOKafkaProducer, TopicPartition, errors
from aiokafka.producer.sender import Sender, SendProduceReqHandler
from aiokafka.protocol.produce import ProduceRequest, ProduceRequest_v8

__all__ = ["RefusedBatch", "keep_refusals"]

_NAMES: Final[Mapping[int, str]] = {
    2: "CORRUPT_MESSAGE", 10: "MESSAGE_TOO_LARGE", 17: "INVALID_TOPIC_EXCEPTION", 18: "RECORD_LIST_TOO_LARGE",
    29: "TOPIC_AUTHORIZATION_FAILED", 32: "INVALID_TIMESTAMP", 43: "UNSUPPORTED_FOR_MESSAGE_FORMAT",
    44: "POLICY_VIOLATION", 76: "UNSUPPORTED_COMPRESSION_TYPE", 87: "INVALID_RECORD", 90: "PRODUCER_FENCED",
}  # fmt: skip
_CURES: Final[Mapping[int, str]] = {
    10: "raise max.message.bytes of the topic, or send less",
    17: "give the topic another name by its setting kafka_topic",
    18: "raise segment.bytes of the topic, or send less",
    29: "allow the user of HOOKWIRE_KAFKA_SASL_USERNAME to write to the topic",
    32: "change message.timestamp.before.max.ms or message.timestamp.after.max.ms of the topic",
    44: "ask the operator of the cluster for its policy",
    87: "look at the topic's cleanup.policy and at the checks that the broker makes of its records",
}
_COMPACTED: Final = "publish with Hookwire-Key, or change the topic's cleanup.policy"
_TEXT_MAX: Final = 200


class RefusedBatch(Exception):
    """A broker's refusal. ``error`` is aiokafka's class for the code. ``records`` maps the position of each record that
    the broker names to its text. ``was_tried_once``: no earlier try of the batch can have been kept.
    """

    def __init__(
        self, code: int, text: str = "", records: Mapping[int, str] | None = None, *, was_tried_once: bool = True
    ) -> None:
        self.code = code
        self.error = errors.ProducerFenced if code == 90 else errors.for_code(code)
        self.text = text
        self.records = records or {}
        self.was_tried_once = was_tried_once
        super().__init__(self.line())

    def line(self, position: int | None = None) -> str:
        """Return one line with the broker's code and text and the cure; with a position, the text for that record."""
        said = (self.records.get(position, "") if position is not None else "") or self.text
        name = _NAMES.get(self.code) or str(getattr(self.error, "message", "")) or "unknown to this client"
        cure = _COMPACTED if "compacted" in said.lower() else _CURES.get(self.code, "")
        said = "".join(c if c.isprintable() else " " for c in said).rstrip(". ")[:_TEXT_MAX]
        return f"Kafka's error {self.code} {name}" + (f": {said}" if said else "") + (f"; {cure}" if cure else "")


class _Handler(SendProduceReqHandler):  # type: ignore[misc]
    """aiokafka's handler. Here it first fails each batch that is refused for good, with the broker's reason."""

    def create_request(self) -> Any:
        """Return the request, in version 8 where the broker knows it."""
        request = super().create_request()
        request._CLASSES = (*ProduceRequest._CLASSES, ProduceRequest_v8)
        return request

    def handle_response(self, response: Any) -> None:
        """Fail the batches that are refused for good; leave the others to aiokafka."""
        for topic, partitions in response.topics:
            for partition, code, *_, details in _detailed(response.API_VERSION, partitions):
                batch = self._batches.get(TopicPartition(topic, partition))
                if batch is not None and _is_final(code):
                    records, text = details
                    named = {position: said or "" for position, said in records or ()}
                    batch.failure(RefusedBatch(code, text or "", named, was_tried_once=batch.retry_count <= 1))
        super().handle_response(response)


def _detailed(version: int, partitions: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    return [(p[0], p[1], (p[5], p[6]) if version >= 8 else ((), "")) for p in partitions]


def _is_final(code: int) -> bool:
    error = errors.for_code(code)
    if error in (errors.NoError, errors.DuplicateSequenceNumber, errors.InvalidProducerEpoch):
        return False
    return not error.retriable


def keep_refusals(producer: AIOKafkaProducer) -> None:
    """Make a producer fail a refused batch with :class:`RefusedBatch`."""
    sender = producer._sender
    sender._send_produce_req = _sending(sender)


def _sending(sender: Sender) -> Callable[[int, Any], Any]:
    async def send(node_id: int, batches: Any) -> None:
        await _Handler(sender, batches).do(node_id)
        sender._in_flight.remove(node_id)
        for partition in batches:
            sender._muted_partitions.remove(partition)

    return send
