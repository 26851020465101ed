"""Publishing as a sink: records of an outbox table of others become events of this hub.

The row's id is the idempotency key, so a batch that is sent again makes no second event. A key that another transaction
holds, and what stands behind it, is sent again with the next claim.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Final, NamedTuple

from app.web.problem import Problem
from app.web.publishing.envelope import Envelope, take_header
from app.web.publishing.event_line import event_of
from db.errors import Busy, OutcomeUnknown, Refused, Unavailable
from db.names import NamesInUse, TooManyNames
from db.pool import Database, Row
from event.cloudevents import CloudEventError
from event.digest import short_digest
from event.event import Draft
from event.tombstone import TOMBSTONE_HEADER
from event.topic import TopicError, is_reserved, validate_key, validate_topic
from relay.record import Record
from relay.sink import Batch, Features, Receipt, Refusal, SinkUnavailable, Term

__all__ = ["PublishingSink"]

_BATCH: Final = 500
_DETAIL_CHARACTERS_MAX: Final = 200


class _Sound(NamedTuple):
    """A record and the event that it becomes."""

    record: Record
    draft: Draft


class PublishingSink:
    """The adapter of ``relay.sink.Sink``. ``outbox`` names the table in the idempotency keys."""

    name = "hub"
    features = Features(window="batch", batch_records_max=_BATCH)

    def __init__(self, database: Database, outbox: str, event_bytes_max: int) -> None:
        self._database = database
        self._outbox = short_digest(outbox)
        self._event_bytes_max = event_bytes_max
        self._topics = NamesInUse(database, "topic")

    async def open(self, term: Term) -> None:
        """Do nothing: the database refuses what a former leader purges, and a repeat makes no second event."""

    async def close(self) -> None:
        """Do nothing: the pool is the process's."""

    async def send(self, batch: Batch) -> Receipt:
        """Publish records; raises ``relay.sink.SinkUnavailable``."""
        refused: list[Refusal] = []
        sound: list[_Sound] = []
        for record in batch.records:
            judged = self._judge(record)
            if isinstance(judged, Refusal):
                refused.append(judged)
            else:
                sound.append(_Sound(record, judged))
        try:
            for topic in {one.record.topic for one in sound}:
                await self._topics.ensure(topic)
            acknowledged, more = await self._publish(sound)
            if acknowledged:
                await self._database.execute("event.notify")
        except TooManyNames as error:
            raise SinkUnavailable(str(error)) from None
        except (Unavailable, OutcomeUnknown) as error:
            raise SinkUnavailable(str(error)) from error
        return Receipt(acknowledged, [*refused, *more])

    async def _publish(self, sound: Sequence[_Sound]) -> tuple[list[Record], list[Refusal]]:
        """Return the stored records, and those that the database refuses: a batch is halved until they are alone."""
        if not sound:
            return [], []
        records = [one.record for one in sound]
        try:
            rows = await self._store(sound)
        except Busy:
            return [], []
        except Refused as error:
            if len(records) == 1:
                return [], [Refusal(records[0], "record", "refused_by_database", _line(str(error)))]
            middle = len(records) // 2
            stored, refused = await self._publish(sound[:middle])
            if len(stored) + len(refused) < middle:
                return stored, refused
            stuck = {refusal.record.key for refusal in refused} - {None}
            later = [one for one in sound[middle:] if one.record.key not in stuck]
            more, others = await self._publish(later)
            return stored + more, refused + others
        stored = [record for record, row in zip(records, rows, strict=True) if row["outcome"] in ("stored", "replayed")]
        refused = [
            Refusal(record, "record", "changed", "a row with this id was published with other contents")
            for record, row in zip(records, rows, strict=True) if row["outcome"] == "conflict"
        ]  # fmt: skip
        return stored, refused

    async def _store(self, sound: Sequence[_Sound]) -> Sequence[Row]:
        records, drafts = [one.record for one in sound], [one.draft for one in sound]
        return await self._database.fetch(
            "mapped.publish", list(range(1, len(records) + 1)), [one.topic for one in drafts],
            [one.key for one in drafts], [one.content_type for one in drafts],
            [json.dumps(dict(one.headers)) if one.headers else None for one in drafts],
            [one.payload for one in drafts], [f"{one.event_id}\x1ftable:{self._outbox}" for one in records],
            [hashlib.sha256(one.payload).digest() for one in records],
        )  # fmt: skip

    def _judge(self, record: Record) -> Draft | Refusal:
        """Return the event of a record, by the rules of a publish over HTTP, or why it can be none."""
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
        try:
            return _draft(record)
        except Problem as problem:
            return Refusal(record, "record", problem.slug.replace("-", "_"), _line(problem.detail))
        except CloudEventError as error:
            return Refusal(record, "record", "invalid_cloudevent", _line(error.detail))


def _draft(record: Record) -> Draft:
    """Return the event of a record. A tombstone has no content type, as ``hookwire.publish`` stores it."""
    envelope = Envelope(record.topic, key=record.key)
    headers = dict(record.headers)
    if record.tombstone:
        headers[TOMBSTONE_HEADER] = "true"
    elif record.content_type is not None:
        take_header(envelope, b"content-type", record.content_type.encode())
    return event_of(envelope, headers, envelope.content_type, record.payload)


def _line(text: str) -> str:
    return " ".join(text.split())[:_DETAIL_CHARACTERS_MAX]
