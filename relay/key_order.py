"""Key order: the records of a batch that may be in flight at the same time.

In the order scope ``key`` a key is one lane across all topics (RG-10, RO-03). Each topic's partitions are read
independently. So order between two topics of a key means that they are never both in flight.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from relay.record import Record
from relay.sink import Batch, Receipt, Refusal

__all__ = ["one_topic_of_each_key", "refusals_by_key", "rounds_by_key"]


def one_topic_of_each_key(records: Sequence[Record]) -> list[Record]:
    """Return the records, in id order, before a key's first change of topic; the rest is claimed again (RG-10)."""
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
    """Return the refusals to hold. Where keys are in order across topics, a topic that accepts nothing holds each key
    of its records. The keys' records of other topics have to wait too.
    """
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


def rounds_by_key(batch: Batch) -> Iterable[Batch]:
    """Return a batch with the first record of each key, then one with the second of each, and so on (RR-01)."""
    rounds: list[list[Record]] = []
    seen: Counter[tuple[str, str, str]] = Counter()
    for record in batch.records:
        number = 0
        if record.key is not None:
            lane = (record.tenant, record.topic, record.key)
            number, seen[lane] = seen[lane], seen[lane] + 1
        if number >= len(rounds):
            rounds.append([])
        rounds[number].append(record)
    return (Batch(batch.term, records, is_probe=batch.is_probe) for records in rounds)
