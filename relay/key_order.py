"""Key order: what the order scope ``key`` asks of a batch, where a key is one lane through all topics (RG-10, RO-03).

A topic's partitions are read by themselves, so order between two topics of a key means: never both on their way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from relay.record import Record
from relay.sink import Batch, Receipt, Refusal

__all__ = ["one_topic_of_each_key", "refusals_by_key"]


def one_topic_of_each_key(records: Sequence[Record]) -> list[Record]:
    """Of records in id order those before a key's first change of topic; the rest is claimed again (RG-10)."""
    topics: dict[tuple[str, str], str] = {}
    over: set[tuple[str, str]] = set()
    kept: list[Record] = []
    for record in records:
        lane = (record.tenant, record.key or "")
        if record.key is not None and topics.setdefault(lane, record.topic) != record.topic:
            over.add(lane)
        if record.key is None or lane not in over:
            kept.append(record)
    return kept


def refusals_by_key(batch: Batch, receipt: Receipt) -> Sequence[Refusal]:
    """What has to be held. Where keys are in order across topics, a topic that takes nothing holds each key of its
    records, not only the one that spoke for all: their records of other topics have to wait too."""
    if batch.term.order_scope == "topic_key":
        return receipt.refused
    done = {record.id for record in receipt.acknowledged} | {refusal.record.id for refusal in receipt.refused}
    found = list(receipt.refused)
    for refusal in receipt.refused:
        if refusal.scope == "topic":
            topic = (refusal.record.tenant, refusal.record.topic)
            others = [r for r in batch.records if r.id not in done and (r.tenant, r.topic) == topic]
            found += [replace(refusal, record=record) for record in others]
            done.update(record.id for record in others)
    return found
