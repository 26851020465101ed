"""Owed: the shards in which a commit has left outbox rows. So a commit wakes only the relays that lead them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from db.pool import Row
from event.event import Draft
from event.key_hash import SHARDS, hash_key, keyless_shard

__all__ = ["ANYTHING", "Owed", "owed_by"]

_EVENTS_MAX = 16
"""A commit of more events is likely to have rows for every relay."""


class Owed(NamedTuple):
    """Shards with new rows: those that may have rows of the webhooks, and those that may have rows of other sinks."""

    webhooks: frozenset[int]
    others: frozenset[int]

    def of(self, sink: str) -> frozenset[int]:
        """Return the shards that may have rows of this sink."""
        return self.webhooks if sink == "webhooks" else self.others


ANYTHING = Owed(frozenset(range(SHARDS)), frozenset(range(SHARDS)))
"""Any shard may have new rows."""


def owed_by(drafts: Sequence[Draft], rows: Sequence[Row], *, is_direct: bool, across_topics: bool) -> Owed:
    """Return the shards with new rows after a commit, by the rows of ``event.publish_batch`` or ``direct.publish``.

    An event with a delivery on the direct path owes nothing to the webhooks.
    """
    # direct.publish returns a row for each delivery of an event.
    owed = {row["item"]: row for row in rows if row["outcome"] == "stored" and (not is_direct or row["is_owed"])}
    if len(owed) > _EVENTS_MAX:
        return ANYTHING
    webhooks, others = set(), set()
    for item, row in owed.items():
        shard = _shard(drafts[item - 1], row, across_topics=across_topics)
        others.add(shard)
        if not is_direct or row["subscription_id"] is None:
            webhooks.add(shard)
    return Owed(frozenset(webhooks), frozenset(others))


def _shard(draft: Draft, row: Row, *, across_topics: bool) -> int:
    if draft.key is None or not row["ordered"]:
        return keyless_shard(row["event_id"])
    return hash_key("" if across_topics else draft.topic, draft.key).shard
