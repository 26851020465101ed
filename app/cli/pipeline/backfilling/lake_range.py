"""LakeRange: the events of a lake that a backfill chooses, each once, in the order of their numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from app.cli.entry import tell
from app.cli.failure import CommandFailed
from app.cli.pipeline.backfilling.batch import event_of
from app.cli.pipeline.lake import session
from app.settings.settings import Settings
from db.pool import Database
from event.event import Event
from event.identity import Incarnation, format_event_id, is_own, parse_event_id

if TYPE_CHECKING:
    from pipeline.lake import Table
    from pipeline.storage import LakeStorage

__all__ = ["Chosen", "LakeRange", "numbers_of", "refuse_unknown", "topics_in", "topics_of"]

_NAMED: Final = 20


@dataclass(frozen=True, slots=True)
class Chosen:
    """What was chosen: topics of the hub by their Kafka topics, numbers of events, and times of acceptance.

    ``above`` and ``through`` are the bounds of a run that has begun.
    """

    topics: Mapping[str, str]
    numbers: Sequence[int] = ()
    since: datetime | None = None
    until: datetime | None = None
    above: int = 0
    through: int | None = None


class LakeRange:
    """The chosen events of a lake. Its methods call Spark, so that they run beside the loop."""

    def __init__(self, settings: Settings, lake: LakeStorage, incarnation: Incarnation, chosen: Chosen) -> None:
        self._spark = session("backfill", settings)
        self._lake = lake
        self._incarnation = incarnation
        self._chosen = chosen

    def counted(self) -> Mapping[str, Any]:
        """Return the number of events, their least and greatest number, and the times of the oldest and newest."""
        from pipeline.selection import count

        return count(self._there())

    def events(self, above: int) -> Iterator[Event]:
        """Yield the events above this number; few of them are in memory at a time."""
        from pipeline.selection import archived, in_slices

        for one in archived(in_slices(self._there(above))):
            yield event_of(one, self._incarnation, self._chosen.topics)

    def numbers(self) -> Iterator[int]:
        """Yield the numbers of the chosen events in order."""
        from pipeline.selection import numbers

        return numbers(self._there())

    def erased(self) -> Iterator[int]:
        """Yield the numbers of chosen events that the lake notes as erased, in order."""
        from pipeline.erasure import erased_table
        from pipeline.selection import numbers

        return numbers(self._rows(erased_table(self._lake)))

    def count_erased(self, first: int, last: int) -> int:
        """Return how many of those lie between these numbers, both included."""
        return sum(first <= number <= last for number in self.erased())

    def _there(self, above: int | None = None) -> Any:
        """Return the chosen events. One that the lake notes as erased may have come back from Kafka; it is left out."""
        from pipeline.erasure import erased_table
        from pipeline.lake import bronze

        rows, notes = self._rows(bronze(self._lake), above), erased_table(self._lake)
        if not notes.snapshot().files:
            return rows
        return rows.join(self._rows(notes, above).select("event_number"), "event_number", "left_anti")

    def _rows(self, table: Table, above: int | None = None) -> Any:
        from pipeline.selection import Selection, files_of, own

        chosen = self._chosen
        selection = Selection(
            topics=tuple(chosen.topics),
            event_ids=tuple(format_event_id(self._incarnation, number) for number in chosen.numbers),
            since=chosen.since, until=chosen.until, above=chosen.above, through=chosen.through,
        )  # fmt: skip
        if above is not None:
            selection = replace(selection, above=max(above, selection.above))
        former = self._incarnation.former
        bounds = [0, *(through for through, _ in former)]
        names = dict(zip(bounds, [*(name for _, name in former), str(self._incarnation)], strict=True))
        return own(table.read(self._spark, files_of(table.snapshot(), selection)), selection, names)


def numbers_of(texts: Sequence[str], incarnation: Incarnation) -> list[int]:
    """Return the numbers of these ids. Raises ``CommandFailed`` for one that is no event of this installation."""
    for text in texts:
        if not is_own(incarnation, text):
            raise CommandFailed(f"--event {text}: this is no id of an event of this installation", 2)
    return sorted({parse_event_id(text)[1] for text in texts})


async def topics_of(
    database: Database, subscription: int, prefix: str, named: Sequence[str] | None, there: Sequence[str]
) -> dict[str, str]:
    """Return the chosen topics of a subscription by their Kafka topics; ``named`` None: all of its topics.

    ``there``: the Kafka topics of the lake. A pattern also chooses those of topics that the hub has forgotten.
    Raises ``CommandFailed`` if the subscription does not have a topic, or if the lake cannot tell it from another.
    """
    rows = await database.fetch(
        "backfill.topics", subscription, prefix, None if named is None else list(named), list(there)
    )
    for row in rows:
        if not row["is_chosen"]:
            raise CommandFailed(f"--topic {row['name']}: the subscription does not have this topic", 2)
        if row["others"]:
            raise CommandFailed(
                f"{row['name']} shares the Kafka topic {row['kafka_topic']} with other topics, so the lake does not "
                "tell their events apart",
                2,
            )
        if row["may_be"] is not None:
            tell(
                f"{row['name']} has the Kafka topic {row['kafka_topic']}: events that a topic {row['may_be']} has put "
                "there would go as its own"
            )
    if not rows:
        raise CommandFailed("the hub has no topic that the subscription chooses: name one by --topic", 2)
    if named is None and (unknown := await database.fetch("backfill.unknown_topics", prefix, list(there))):
        tell(f"left out, of no topic of the hub: {', '.join(row['kafka_topic'] for row in unknown[:_NAMED])}")
    return {row["kafka_topic"]: row["name"] for row in rows}


def topics_in(lake: LakeStorage) -> list[str]:
    """Return the Kafka topics of a lake."""
    from pipeline.lake import bronze

    return sorted({file.values["topic"] for file in bronze(lake).snapshot().files})


async def refuse_unknown(database: Database, incarnation: Incarnation, last: int | None) -> None:
    """Raise ``CommandFailed`` for an id that the hub has not given yet: a later event would get it, too."""
    given = await database.fetchval("backfill.last_id")
    if last is not None and last > given:
        raise CommandFailed(
            f"the range has {format_event_id(incarnation, last)}, and this database has given ids up to {given}: a "
            "record of the lake was forged, or the database is older than the lake",
            1,
        )
