"""Intake of records: store what a Kafka source reads, together with the offset of its partition.

::

    records --own event?--> passed over       it came back: a sink and a source make a loop; or its source wants others
            --refused?----> source_refusals   with its bytes; the partition goes on
            --key held?---> source_refusals   behind the refused record that holds its key
            --else--------> events            the longest prefix whose keys are free
                              '--> the offset moves by this prefix, in the same transaction

Keys are taken by try-lock, in the order of the records. If already the first record's key is held elsewhere, this
record waits for it, and holds no other key meanwhile.

Another kind of holding lasts: where a place holds, a refused record holds its key until a person has settled it. Which
keys are held stands in the database. The intake remembers them for the next batch, and the statement refuses a batch
that takes the wrong ones for held.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final

from db.errors import Busy, DatabaseError, Refused
from db.holders import holders_text
from db.names import TooManyNames
from db.pool import Database, Row
from event.event import Draft
from event.hops import HOPS_HEADER, HOPS_MAX, hops_of
from event.identity import is_own, own_prefixes
from hub.intake.drafts import drafts_of, without_private
from hub.publish import Accepted, Publisher
from hub.stripes import stripes_of
from hub.topics import Topics, UnknownTopic
from relay.source import (
    BEHIND,
    IntakeOutcome,
    IntakeRefused,
    IntakeUnavailable,
    RawRecord,
    SourcePlace,
    SourceRecord,
    Taken,
)

__all__ = ["RecordIntake", "RecordOptions", "events_of", "refusal_of"]

_TABLE_IS_FULL: Final = "53400"
_HELD_TRIES: Final = 5
_encode: Final = json.JSONEncoder().encode
_quoted: Final = json.encoder.encode_basestring_ascii


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """``key_lock_seconds`` is how long a first record waits for its key; ``key_waiters`` partitions wait at once."""

    key_lock_seconds: float = 2.0
    key_waiters: int = 3


@dataclass(slots=True)
class _Judged:
    """Records as the statement takes them. ``units`` has the number of the record of each draft, from 1.

    ``lanes`` has the keys of each refused record, by its number, if it holds them, or waits for them. ``assumed`` are
    the keys of these records that were held before.
    """

    outcomes: list[IntakeOutcome | IntakeRefused] = field(default_factory=list)
    drafts: list[Draft] = field(default_factory=list)
    units: list[int] = field(default_factory=list)
    left_out: list[Sequence[str]] = field(default_factory=list)
    lanes: dict[int, Sequence[str]] = field(default_factory=dict)
    assumed: set[str] = field(default_factory=set)

    def refuse(self, refused: IntakeRefused, keys: Sequence[str], *, holds: bool) -> None:
        """Add a refused record, which holds its keys or does not."""
        if holds:
            self.lanes[len(self.outcomes) + 1] = keys
        self.outcomes.append(refused)
        self.left_out.append(())


class _OtherKeysAreHeld(Exception):
    """Nothing was taken, because other keys are held than the caller took for held."""

    def __init__(self, held: Sequence[str]) -> None:
        super().__init__()
        self.held = frozenset(held)


class RecordIntake:
    """Implements :class:`relay.source.BatchIntake`."""

    def __init__(
        self, database: Database, incarnation: str, publisher: Publisher, topics: Topics,
        options: RecordOptions | None = None,
    ) -> None:  # fmt: skip
        self._database = database
        self._publisher = publisher
        self._topics = topics
        self._options = options or RecordOptions()
        self._incarnation = incarnation
        self._own_ids = own_prefixes(incarnation)
        self._waiters = asyncio.Semaphore(self._options.key_waiters)
        self._held: dict[tuple[str, int], Set[str]] = {}

    async def take(
        self, place: SourcePlace, from_offset: int, to_offset: int, records: Sequence[SourceRecord]
    ) -> Taken:
        """Take the longest prefix of the records whose keys are free; raises ``IntakeUnavailable``."""
        try:
            await self._topics.admit(place.topic)
            for _ in range(_HELD_TRIES):
                try:
                    return await self._store(place, from_offset, to_offset, records)
                except _OtherKeysAreHeld as other:
                    self._held[place.source, place.partition] = other.held
            raise IntakeUnavailable("the keys that refused records hold change at this moment")
        except TooManyNames as error:
            raise IntakeUnavailable(str(error)) from None
        except UnknownTopic:
            raise IntakeUnavailable(
                f"there is no topic {place.topic}, and creating topics is turned off: PUT its settings"
            ) from None
        except DatabaseError as error:
            raise IntakeUnavailable(str(error) or type(error).__name__) from error

    async def _judge(
        self, place: SourcePlace, records: Sequence[SourceRecord], refused_by_database: IntakeRefused | None = None
    ) -> _Judged:
        """Decide what each record becomes. A key is held from the record that holds it on, also within these records.

        ``refused_by_database``: why the database has refused the only record.
        """
        judged = _Judged()
        before = self._held.get((place.source, place.partition), frozenset())
        held = set(before)
        for number, record in enumerate(records, 1):
            if not place.wants(record.raw.headers):
                judged.outcomes.append("filtered")
                judged.left_out.append(())
                continue
            refused = refused_by_database
            drafts: list[Draft] | None = None
            left_out: Sequence[str] = ()
            try:
                drafts, left_out = await events_of(record, place.topic, self._incarnation, self._own_ids)
            except IntakeRefused as error:
                refused = error
            if refused is not None or (held and drafts):
                keys = _keys(record, drafts)
                judged.assumed.update(before & keys)
                is_held = not held.isdisjoint(keys)
                if refused is None and is_held:
                    refused = IntakeRefused(BEHIND, "an earlier record of its key was refused")
                if refused is not None:
                    holds = bool(keys) and (place.holds or is_held)
                    judged.refuse(refused, sorted(keys), holds=holds)
                    held.update(keys if holds else ())
                    continue
            judged.outcomes.append("stored" if drafts is not None else "returned")
            judged.left_out.append(left_out)
            judged.drafts += drafts or ()
            judged.units += [number] * len(drafts or ())
        return judged

    async def _store(
        self, place: SourcePlace, from_offset: int, to_offset: int, records: Sequence[SourceRecord]
    ) -> Taken:
        """Store the records; find the one that the database refuses by halving, and keep it as a refusal."""
        judged = await self._judge(place, records)
        try:
            return await self._commit(place, from_offset, to_offset, records, judged)
        except Refused as error:
            if error.sqlstate == _TABLE_IS_FULL:
                raise IntakeUnavailable(error.message) from error
            if not judged.drafts:
                raise
            if len(records) > 1:
                half = len(records) // 2
                return await self._store(place, from_offset, records[half].offset, records[:half])
            judged = await self._judge(place, records, refusal_of(error))
            return await self._commit(place, from_offset, to_offset, records, judged)

    async def _commit(
        self, place: SourcePlace, from_offset: int, to_offset: int, records: Sequence[SourceRecord], judged: _Judged
    ) -> Taken:
        arguments = _arguments(place, from_offset, to_offset, records, judged)
        across_topics = self._publisher.orders_across_topics
        stripes = stripes_of(judged.drafts, across_topics=across_topics)
        async with self._publisher.stripes.using(stripes):
            row = await self._run(arguments, 0)
        if row["taken"] == 0 and row["next_offset"] == from_offset and judged.units:
            row = await self._wait(arguments)
        drafts = judged.drafts[: len(row["event_ids"] or ())]
        self._publisher.tell_stored(drafts, _accepted(drafts, row))
        count: int = row["taken"]
        self._remember(place, judged, count)
        left_out = [reason for reasons in judged.left_out[:count] for reason in reasons]
        return Taken(count, row["next_offset"], judged.outcomes[:count], left_out)

    def _remember(self, place: SourcePlace, judged: _Judged, count: int) -> None:
        opened = {key for number, keys in judged.lanes.items() if number <= count for key in keys}
        if opened:
            where = place.source, place.partition
            self._held[where] = self._held.get(where, frozenset()) | opened

    async def _wait(self, arguments: Sequence[object]) -> Row:
        """Take the records once the key of the first one is free."""
        seconds = self._options.key_lock_seconds
        try:
            async with self._waiters:
                return await self._run(arguments, int(seconds * 1000))
        except Busy as error:
            named = holders_text(await self._database.fetch("holder.all", seconds / 2)) or "held by another transaction"
            raise IntakeUnavailable(f"the key of the next record is {named}") from error

    async def _run(self, arguments: Sequence[object], lock_milliseconds: int) -> Row:
        row = await self._database.fetchrow("source.take", *arguments, lock_milliseconds)
        assert row is not None, "the function has output columns and returns no set"
        if row["held"] is not None:
            raise _OtherKeysAreHeld(row["held"])
        return row


async def events_of(
    record: SourceRecord, topic: str, incarnation: str, own_ids: tuple[str, ...]
) -> tuple[list[Draft] | None, Sequence[str]]:
    """Return the events of a record, and why headers were left out. Raise ``IntakeRefused``.

    None stands for an event of this hub. ``own_ids`` are the prefixes of its ids.
    """
    read = record.read
    if isinstance(read, IntakeRefused):
        raise read
    if read.message_id.startswith(own_ids) and is_own(incarnation, read.message_id):
        return None, ()
    hops = hops_of(read.hops)
    if hops is None or hops + 1 >= HOPS_MAX:
        raise IntakeRefused("too_many_hops", f"it has passed {HOPS_MAX} hubs or more: they make a loop")
    about: Mapping[str, str] = {HOPS_HEADER: str(hops + 1)}
    if not record.raw.headers:  # the usual case, four times as fast
        return [Draft(topic, read.body, read.key, None, {**read.headers, **about})], read.left_out
    drafts, message = await drafts_of(topic, without_private(read), about)
    # The offset is the identity: two records are two events, also with one CloudEvents id.
    return [draft._replace(idempotency_key=None) for draft in drafts], message.left_out


def refusal_of(error: Refused) -> IntakeRefused:
    """Return why a record can be no event that the database does not take."""
    text = error.message if error.is_ours else f"it holds a value that cannot be stored ({error.sqlstate})"
    return IntakeRefused("refused", text)


def _keys(record: SourceRecord, drafts: Sequence[Draft] | None) -> Set[str]:
    """Return the keys of a record's events, which are several for a batch of CloudEvents; without events, its own."""
    keys = [record.key] if drafts is None else [draft.key for draft in drafts]
    return {key for key in keys if key is not None}


def _arguments(
    place: SourcePlace, from_offset: int, to_offset: int, records: Sequence[SourceRecord], judged: _Judged
) -> tuple[object, ...]:
    drafts = judged.drafts
    refused = [(n, one) for n, one in enumerate(judged.outcomes) if isinstance(one, IntakeRefused)]
    return (
        place.source,
        place.partition,
        from_offset,
        to_offset,
        [record.offset for record in records],
        [record.digest for record in records],
        [record.raw.at for record in records],
        judged.units,
        [draft.topic for draft in drafts],
        [draft.key for draft in drafts],
        [draft.content_type for draft in drafts],
        [_flat_json(draft.headers) if draft.headers else None for draft in drafts],
        [draft.payload for draft in drafts],
        [n + 1 for n, _ in refused],
        [one.reason for _, one in refused],
        [one.detail for _, one in refused],
        [records[n].raw.key for n, _ in refused],
        [records[n].raw.value for n, _ in refused],
        [_headers_json(records[n].raw) for n, _ in refused],
        [*judged.assumed],
        [_encode(judged.lanes[n + 1]) if n + 1 in judged.lanes else "[]" for n, _ in refused],
        [n + 1 in judged.lanes for n, _ in refused],
    )


def _flat_json(headers: Mapping[str, str]) -> str:
    """Return an object of texts as JSON, in a third of the time that an encoder of any value takes."""
    return "{" + ",".join([f"{_quoted(name)}:{_quoted(value)}" for name, value in headers.items()]) + "}"


def _headers_json(raw: RawRecord) -> str:
    flat = [part for name, value in raw.headers for part in (name, base64.b64encode(value or b"").decode())]
    return json.dumps([part.replace("\0", "") for part in flat])


def _accepted(drafts: Sequence[Draft], row: Row) -> list[Accepted]:
    moment = row["accepted_at"]
    return [
        Accepted(number, draft.topic, draft.key, number if is_ordered else None, moment, replayed=False)
        for draft, number, is_ordered in zip(drafts, row["event_ids"] or (), row["ordered"] or (), strict=True)
    ]
