"""Forgotten events: Kafka has them and this database does not, because a failover or a restore took them back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from app.assembly.sinks import kafka_options
from app.assembly.storage import incarnation_of
from app.settings.settings import Settings
from db.direct import Direct
from event.identity import format_event_id, name_of, parse_event_id
from relay.kafka.options import KafkaOptions
from relay.kafka.tail import TailRecord, existing_topics, read_tail
from relay.sink import SinkUnavailable

__all__ = ["Comparison", "ForgottenEvent", "compare_with_kafka"]

_IDS_MAX: Final = 2_000


class ForgottenEvent(NamedTuple):
    """An event that this database does not know, and where it lies in Kafka."""

    event_id: str
    partition: int
    offset: int


@dataclass(slots=True)
class Comparison:
    """One topic, by its name in Kafka. Counts are numbers of events, each counted once.

    ``both``: known here and in the tail. ``again``: these wait here all the same, and will be sent once more.
    ``only_here``: wait here, and are not in the tail. ``only_there`` are in Kafka alone. ``others`` have ids of another
    installation, or were forgotten before this database got its present name. ``too_old``: retention may have deleted
    them here. ``unread`` says why the topic could not be read; empty: it was.
    """

    topic: str
    both: int = 0
    again: int = 0
    only_here: int = 0
    only_there: list[ForgottenEvent] = field(default_factory=list)
    others: int = 0
    too_old: int = 0
    unread: str = ""

    @property
    def has_ours(self) -> bool:
        """Return whether a record of a hub was found."""
        return bool(self.both or self.only_there or self.others or self.too_old)


async def compare_with_kafka(settings: Settings, connection: Direct, records_max: int) -> list[Comparison]:
    """Compare the newest records of each partition with the database; one comparison for each topic of Kafka.

    Read are the topics that the database names, and all whose names begin with the prefix of the settings. Without a
    prefix these are all of Kafka, because a topic that was made after a backup is known to Kafka alone. Such a
    topic has a comparison if records of a hub are in it, or if it could not be read.

    Raise ``db.errors.DatabaseError``, ``relay.sink.SinkUnavailable`` and ``SettingsRefused``.
    """
    incarnation = await incarnation_of(connection)
    options = kafka_options(settings, incarnation)
    topics = await connection.fetch("forgotten.topics")
    prefix = settings.kafka_topic_prefix
    in_kafka = {topic["name"]: topic["kafka_topic"] or prefix + topic["name"] for topic in topics}
    kept_days = {in_kafka[topic["name"]]: topic["retention_days"] for topic in topics}
    waiting = {one["topic"]: int(one["events"]) for one in await connection.fetch("forgotten.waiting")}
    existing = await existing_topics(options)
    names = {name for name in existing if name in kept_days or name.startswith(prefix)}
    found = []
    owing = {in_kafka.get(topic, prefix + topic) for topic in waiting}
    for name in sorted(names | owing):
        days = kept_days.get(name)
        judge = _Judge(connection, incarnation, settings.retention_days if days is None else days)
        is_named = bool(prefix) or name in kept_days or name in owing
        try:
            one = await judge.compare(options, name, records_max) if name in existing else Comparison(name)
        except SinkUnavailable as error:
            if is_named:
                raise
            one = Comparison(name, unread=str(error))
        if not (is_named or one.has_ours or one.unread):
            continue
        owed = sum(count for topic, count in waiting.items() if in_kafka.get(topic, prefix + topic) == name)
        one.only_here = owed - one.again
        found.append(one)
    return found


class _Judge:
    """Compares one topic; an event that lies in Kafka twice counts once. ``kept_days``: 0 is for ever."""

    def __init__(self, connection: Direct, incarnation: str, kept_days: int) -> None:
        self._connection = connection
        self._incarnation = incarnation
        self._kept_days = kept_days
        self._seen: set[int] = set()

    async def compare(self, options: KafkaOptions, topic: str, records_max: int) -> Comparison:
        found = Comparison(topic)
        kept_after = 0
        if self._kept_days:
            kept_after = int(await self._connection.fetchval("forgotten.kept_after", self._kept_days))
        async for page in read_tail(options, topic, records_max):
            places = self._own(page, found)
            ids = list(places)
            for start in range(0, len(ids), _IDS_MAX):
                for row in await self._connection.fetch("forgotten.judge", ids[start : start + _IDS_MAX]):
                    self._note(found, row, places[row["id"]], kept_after)
        found.only_there.sort(key=lambda one: (one.partition, one.offset))
        return found

    def _own(self, page: Sequence[TailRecord], found: Comparison) -> dict[int, TailRecord]:
        """Return the records of this installation by their event's number, without those that were seen before."""
        places: dict[int, TailRecord] = {}
        for record in page:
            try:
                incarnation, number = parse_event_id(record.event_id)
            except ValueError:
                continue  # not written by a hub
            if incarnation != name_of(self._incarnation, number):
                found.others += 1
            elif number not in self._seen:
                self._seen.add(number)
                places[number] = record
        return places

    def _note(self, found: Comparison, row: Mapping[str, object], place: TailRecord, kept_after: int) -> None:
        number = place.event_id.rpartition("_")[2]
        if row["is_known"]:
            found.both += 1
            found.again += bool(row["waits"])
        elif int(number) <= kept_after:
            found.too_old += 1
        else:
            event_id = format_event_id(self._incarnation, int(number))
            found.only_there.append(ForgottenEvent(event_id, place.partition, place.offset))
