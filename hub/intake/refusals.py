"""Refusals: records of Kafka that were refused, and that a person has published again or skipped."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from db.pool import Database, Row, Session
from hub.intake.records import events_of
from relay.kafka.source.incoming import read_record

__all__ = ["NoRefusal", "NoSource", "Refusals"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_WITHOUT_TIME: Final = -1


class NoRefusal(LookupError):
    """There is no such record: it was published or skipped, or its time is over."""


class NoSource(LookupError):
    """The settings of this process name no such source, so its topic is not known; the text is its name."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """A record as a consumer would return it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]]


class Refusals:
    """The refused records of all sources. ``topics`` has the topic of each source."""

    def __init__(self, database: Database, incarnation: str, topics: dict[str, str], body_bytes_max: int) -> None:
        self._database = database
        self._own_ids = f"evt_{incarnation}_"
        self._topics = topics
        self._body_bytes_max = body_bytes_max

    async def retry(self, number: int, actor: str, reason: str | None) -> list[int]:
        """Publish a record after all, and forget the refusal; return the numbers of its events.

        Raises ``NoRefusal``, ``NoSource``, ``IntakeRefused`` if it still cannot be an event, and ``DatabaseError``.
        """
        async with self._database.transaction() as session:
            row = await session.fetchrow("source.refusal", number)
            if row is None:
                raise NoRefusal
            if row["source"] not in self._topics:
                raise NoSource(row["source"])
            record = read_record(_kept(row), self._body_bytes_max)
            drafts, _ = await events_of(record, self._topics[row["source"]], self._own_ids)
            numbers = [
                await session.fetchval(
                    "source.publish", draft.topic, draft.key, draft.content_type, json.dumps(dict(draft.headers)),
                    draft.payload,
                )
                for draft in drafts or ()
            ]  # fmt: skip
            await _settle(session, number, actor, "source.retry", reason)
        return numbers

    async def give_up(self, number: int, actor: str, reason: str | None) -> None:
        """Forget a record for good; raises ``NoRefusal``."""
        await _settle(self._database, number, actor, "source.give_up", reason)


async def _settle(session: Session, number: int, actor: str, action: str, reason: str | None) -> None:
    if not await session.fetchval("source.settle_refusal", number, actor, action, reason):
        raise NoRefusal


def _kept(row: Row) -> _Kept:
    flat = json.loads(row["headers"])
    pairs = zip(itertools.islice(flat, 0, None, 2), itertools.islice(flat, 1, None, 2), strict=True)
    at = row["record_at"]
    milliseconds = _WITHOUT_TIME if at is None else round((at - _EPOCH).total_seconds() * 1000)
    return _Kept(
        row["source"], row["partition"], row["record_offset"], milliseconds, row["key"], row["value"],
        [(name, base64.b64decode(value)) for name, value in pairs],
    )  # fmt: skip
