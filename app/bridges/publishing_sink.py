"""Publishing as a sink: records of an outbox table of others become events of this hub.

The row's id is the idempotency key, so a batch that is sent again makes no second event. A key that another transaction
holds, and what stands behind it, is sent again with the next claim.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Final

from db.errors import Busy, DatabaseError, OutcomeUnknown, Refused, Unavailable
from db.names import NamesInUse, TooManyNames
from db.pool import Database, Row
from event.topic import TopicError, is_reserved, validate_key, validate_topic
from relay.record import Record
from relay.sink import Batch, Features, Receipt, Refusal, SinkUnavailable, Term

__all__ = ["PublishingSink"]

_BATCH: Final = 500


class PublishingSink:
    """The adapter of ``relay.sink.Sink``. ``outbox`` names the table in the idempotency keys."""

    name = "hub"
    features = Features(window="batch", batch_records_max=_BATCH)

    def __init__(self, database: Database, outbox: str, event_bytes_max: int) -> None:
        self._database = database
        self._outbox = hashlib.sha256(outbox.encode()).hexdigest()[:16]
        self._event_bytes_max = event_bytes_max
        self._topics = NamesInUse(database, "topic")

    async def open(self, term: Term) -> None:
        """Do nothing: the database refuses what a former leader purges, and a repeat makes no second event."""

    async def close(self) -> None:
        """Do nothing: the pool is the process's."""

    async def send(self, batch: Batch) -> Receipt:
        """Publish records; raises ``relay.sink.SinkUnavailable``."""
        refused = [refusal for record in batch.records if (refusal := self._judge(record)) is not None]
        bad = {refusal.record.id for refusal in refused}
        sound = [record for record in batch.records if record.id not in bad]
        try:
            for topic in {record.topic for record in sound}:
                await self._topics.ensure(topic)
            acknowledged, more = await self._publish(sound)
            if acknowledged:
                await self._database.execute("event.notify")
        except TooManyNames as error:
            raise SinkUnavailable(str(error)) from None
        except (Unavailable, OutcomeUnknown) as error:
            raise SinkUnavailable(str(error)) from error
        return Receipt(acknowledged, [*refused, *more])

    async def _publish(self, records: Sequence[Record]) -> tuple[list[Record], list[Refusal]]:
        """Return the stored records, and those that the database refuses: a batch is halved until they are alone."""
        if not records:
            return [], []
        try:
            rows = await self._store(records)
        except Busy:
            return [], []
        except Refused as error:
            if len(records) == 1:
                return [], [Refusal(records[0], "record", "refused_by_database", _line(error))]
            middle = len(records) // 2
            stored, refused = await self._publish(records[:middle])
            if len(stored) + len(refused) < middle:
                return stored, refused
            stuck = {refusal.record.key for refusal in refused} - {None}
            later = [record for record in records[middle:] if record.key not in stuck]
            more, others = await self._publish(later)
            return stored + more, refused + others
        stored = [record for record, row in zip(records, rows, strict=True) if row["outcome"] in ("stored", "replayed")]
        refused = [
            Refusal(record, "record", "changed", "a row with this id was published with other contents")
            for record, row in zip(records, rows, strict=True) if row["outcome"] == "conflict"
        ]  # fmt: skip
        return stored, refused

    async def _store(self, records: Sequence[Record]) -> Sequence[Row]:
        return await self._database.fetch(
            "mapped.publish", list(range(1, len(records) + 1)), [one.topic for one in records],
            [one.key for one in records], [one.content_type for one in records],
            [json.dumps(dict(one.headers)) if one.headers else None for one in records],
            [one.payload for one in records], [f"{one.event_id}\x1ftable:{self._outbox}" for one in records],
            [hashlib.sha256(one.payload).digest() for one in records],
        )  # fmt: skip

    def _judge(self, record: Record) -> Refusal | None:
        try:
            validate_topic(record.topic)
            if record.key is not None:
                validate_key(record.key)
        except TopicError as error:
            return Refusal(record, "record", "invalid_name", str(error))
        if is_reserved(record.topic):
            return Refusal(record, "record", "invalid_name", "topics that begin with hookwire. are the hub's own")
        if len(record.payload) > self._event_bytes_max:
            return Refusal(record, "record", "too_large", f"more than {self._event_bytes_max} bytes")
        return None


def _line(error: DatabaseError) -> str:
    return " ".join(str(error).split())[:200]
