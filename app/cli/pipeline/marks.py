"""The marks of a lake's logs: the database knows the newest commit of each table, so that no log is cut unseen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from datetime import date
from typing import TYPE_CHECKING, Final

from app.cli.failure import CommandFailed
from app.cli.pipeline.lake import tell
from app.settings.settings import Settings
from db.errors import DatabaseError

if TYPE_CHECKING:
    from db.pool import Session
    from pipeline.audit.held import HeldLake
    from pipeline.audit.mark import LogMark
    from pipeline.lake import Table
    from pipeline.storage import LakeStorage

__all__ = [
    "LogMarks", "answering", "departures", "departures_of", "held_lake", "known_marks", "marked", "note_bounds",
    "store_marks",
]  # fmt: skip

_CONFIRM: Final = "`hookwire pipeline retain --confirm`"
_CURE: Final = "Restore the log from a backup, or let it count as it is by `hookwire pipeline accept-log --table {}`"


class LogMarks:
    """The marks of the tables that a job writes. A database that does not answer leaves them unconfirmed.

    ``has_all``: these are all tables of the lake. A typed table that only the database knows is gone.
    """

    def __init__(
        self, settings: Settings, lake: LakeStorage, tables: Sequence[Table], *, has_all: bool = False
    ) -> None:
        self._settings = settings
        self._lake = lake
        self._tables = tables
        self._has_all = has_all
        self._has_told = False

    def departures(self) -> list[str]:
        """Return in sentences which logs lack a commit that the database knows. Raises LakeDamaged."""
        return asyncio.run(self._departures())

    def refuse_others(self) -> None:
        """Raise ``CommandFailed`` if a log lacks a commit that the database knows."""
        if found := self.departures():
            raise CommandFailed("; ".join(found), 1)

    def accept(self) -> None:
        """Let the present logs count: forget what the database knows of them, and store their newest commits.

        Raises ``CommandFailed`` if no database answers.
        """
        asyncio.run(self._accept())

    def store(self) -> None:
        """Store the newest commit of each table whose log has the commit that the database knows."""
        asyncio.run(self._store())

    async def _accept(self) -> None:
        async with answering(self._settings) as session:
            if session is None:
                raise CommandFailed("the marks are in the hub's database, and none answers here", 3)
            for table in self._tables:
                await session.execute("lake_mark.forget_mark", self._lake.uri, table.name)
            await store_marks(session, self._lake, self._tables)

    async def _departures(self) -> list[str]:
        async with answering(self._settings) as session:
            if session is None:
                if not self._has_told:
                    tell("no database answers here, so nobody confirms the logs of the lake")
                self._has_told = True
                return []
            try:
                known = await known_marks(session, self._lake)
                return await departures(known, [*self._tables, *(self._gone(known) if self._has_all else ())])
            except DatabaseError as error:
                tell(f"the database does not confirm the logs of the lake: {error}")
                return []

    def _gone(self, known: Mapping[str, LogMark]) -> list[Table]:
        from pipeline.tables import gone_tables

        return gone_tables(self._lake, self._tables, known)

    async def _store(self) -> None:
        async with answering(self._settings) as session:
            if session is not None:
                try:
                    await store_marks(session, self._lake, self._tables)
                except DatabaseError as error:
                    tell(f"the database does not know the newest commits of the lake: {error}")


@contextmanager
def marked(
    settings: Settings, lake: LakeStorage, tables: Sequence[Table], *, dry_run: bool = False
) -> Iterator[LogMarks]:
    """Refuse logs that lack a commit which the database knows; after the job store the newest commits.

    They are stored also if the job fails, because it may have committed. ``dry_run``: store nothing. Call it outside of
    an event loop.
    """
    marks = LogMarks(settings, lake, tables)
    marks.refuse_others()
    try:
        yield marks
    finally:
        if not dry_run:
            marks.store()


def note_bounds(settings: Settings, lake: LakeStorage, kept: Mapping[str, str]) -> int:
    """Note in the database the first day that retention keeps, by Kafka topic; "" stands for all. Return how many.

    A bound that is already later stays. Without a database none is noted.
    """
    return asyncio.run(_note_bounds(settings, lake, kept))


async def _note_bounds(settings: Settings, lake: LakeStorage, kept: Mapping[str, str]) -> int:
    async with answering(settings) as session:
        if session is None:
            tell(f"no database answers here, so the audit calls deleted days unconfirmed. Later, run {_CONFIRM}")
            return 0
        for topic, day in kept.items():
            await session.execute("lake_mark.bound", lake.uri, topic, date.fromisoformat(day))
    return len(kept)


async def departures(known: Mapping[str, LogMark], tables: Sequence[Table]) -> list[str]:
    """Return in sentences which logs lack a commit that the database knows, and the cure. Raises LakeDamaged.

    ``known`` comes from :func:`known_marks`, before the tables are opened.
    """
    from pipeline.audit.mark import departure

    named = [table for table in tables if table.name in known]
    found = [(table.name, await asyncio.to_thread(departure, table, known[table.name])) for table in named]
    return [f"{sentence}. {_CURE.format(name)}" for name, sentence in found if sentence is not None]


async def departures_of(session: Session, held: HeldLake) -> list[str]:
    """Return :func:`departures` of a lake that an audit judges. Raises ``DatabaseError``, LakeDamaged.

    A person may restore a log and accept it during the audit. A table that is opened after that has not lost a commit.
    """
    if not await departures(held.marks, held.tables):
        return []
    accepted = _accepted(held.marks, await known_marks(session, held.storage))
    return await departures(held.marks, [table for table in held.tables if table.name not in accepted])


def _accepted(early: Mapping[str, LogMark], known: Mapping[str, LogMark]) -> set[str]:
    """Return the tables whose mark a person has lowered, replaced or removed since; a job only raises it."""
    kept = {
        name for name, mark in early.items()
        if name in known and (known[name] == mark or known[name].version > mark.version)
    }  # fmt: skip
    return {*early} - kept


async def store_marks(
    session: Session, lake: LakeStorage, tables: Sequence[Table], early: Mapping[str, LogMark] | None = None
) -> None:
    """Store the newest commit of each table, unless a newer one is known, or its log lacks the known one.

    Such a log keeps its mark, so that it is named. ``early``: the marks that were known before the tables were opened.
    A mark that a job or a person has changed since stays as it is. Raises ``DatabaseError``, LakeDamaged.
    """
    from pipeline.audit.mark import departure, mark_of

    known = await known_marks(session, lake)
    for table in tables:
        before = known.get(table.name)
        if early is not None and before != early.get(table.name):
            continue
        mark = await asyncio.to_thread(mark_of, table)
        if mark is not None and (before is None or await asyncio.to_thread(departure, table, before) is None):
            await session.execute(
                "lake_mark.mark", lake.uri, table.name, mark.version, mark.number, mark.commit_id, mark.digest
            )


async def known_marks(session: Session, lake: LakeStorage) -> Mapping[str, LogMark]:
    """Return the mark of each table's log. Raises ``DatabaseError``.

    A job may commit and store its mark at any time, so a log that was looked at before may lack that commit.
    """
    from pipeline.audit.mark import LogMark

    return {
        row["table_name"]: LogMark(row["version"], row["number"], row["commit_id"], row["digest"])
        for row in await session.fetch("lake_mark.marks", lake.uri)
    }


async def held_lake(session: Session, lake: LakeStorage) -> HeldLake:
    """Return the lake as an audit finds it. Raises ``DatabaseError``, StorageError."""
    from pipeline.audit.held import HeldLake

    marks = await known_marks(session, lake)  # before the lake: a job may commit, and store its mark
    return await asyncio.to_thread(HeldLake, lake, marks)


@asynccontextmanager
async def answering(settings: Settings) -> AsyncIterator[Session | None]:
    """Yield a connection to the hub's database; None if it does not answer. No embedded server is started."""
    from app.cli.database import is_made
    from db.direct import connect_direct
    from db.embedded.server import EmbeddedOptions, EmbeddedServer
    from db.pool import PoolOptions

    if not is_made(settings):
        yield None
        return
    given = settings.database_url
    url = given.get_secret_value() if given is not None else EmbeddedServer(EmbeddedOptions(settings.data_dir)).dsn
    try:
        opened = await connect_direct(PoolOptions(url, application_name="hookwire pipeline"))
    except DatabaseError as error:
        tell(f"the database does not answer: {error}")
        yield None
        return
    async with aclosing(opened) as session:
        yield session
