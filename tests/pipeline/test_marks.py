"""app/cli/pipeline/marks.py: what the database knows of a log does not follow a log that was cut."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from app.cli.pipeline.marks import departures, departures_of, known_marks, store_marks
from pipeline.audit.held import HeldLake
from pipeline.lake import bronze
from pipeline.storage import LakeStorage
from tests.app.conftest import opened
from tests.pipeline.test_lake import committed


async def test_a_log_that_was_cut_keeps_its_mark_and_is_named_with_its_table(
    lake_uri: str, tmp_path: Path, database_url: str
) -> None:
    """A job that ran meanwhile, such as `archive --follow`, stored the next mark over it."""
    lake = LakeStorage(lake_uri)
    table = bronze(lake)
    version = committed(table, 2).version
    async with opened(database_url) as (database, _):
        session: Any = database
        await store_marks(session, lake, [table])
        (tmp_path / "lake" / "bronze" / "_delta_log" / f"{version:020d}.json").unlink()
        committed(table, 2)
        await store_marks(session, lake, [table])
        found = await departures(await known_marks(session, lake), [table])

    named = (f"bronze: commit {version} ", "accept-log --table bronze`")
    assert [[part in sentence for part in named] for sentence in found] == [[True, True]]


class Person:
    """Somebody who restores the log of bronze, while an audit judges it, from a backup that lacks its newest commit."""

    def __init__(self, lake: LakeStorage, folder: Path, session: Any, held: HeldLake) -> None:
        self.lake = lake
        self.session = session
        self.held = held
        self._log = folder / "lake" / "bronze" / "_delta_log"

    def restore(self) -> None:
        (self._log / f"{2:020d}.json").unlink()

    async def forget(self) -> None:
        await self.session.execute("lake_mark.forget_mark", self.lake.uri, "bronze")

    async def accept(self) -> None:
        await self.forget()
        await store_marks(self.session, self.lake, [bronze(self.lake)])

    async def accept_another(self) -> None:
        """Accept a log whose newest commit a job has made again."""
        committed(bronze(self.lake), 1)
        await self.accept()


@pytest.fixture
async def person(lake_uri: str, tmp_path: Path, database_url: str) -> AsyncIterator[Person]:
    """The person, and a lake with two commits that the database knows, as an audit begins to judge it."""
    lake = LakeStorage(lake_uri)
    committed(bronze(lake), 2)
    async with opened(database_url) as (database, _):
        session: Any = database
        await store_marks(session, lake, [bronze(lake)])
        yield Person(lake, tmp_path, session, HeldLake(lake, await known_marks(session, lake)))


ANSWERS = ["forget", "accept", "accept_another"]


@pytest.mark.parametrize("answer", ANSWERS)
async def test_an_audit_leaves_a_mark_that_a_person_lowers_or_forgets_meanwhile(person: Person, answer: str) -> None:
    """The audit stored the mark of the state that it had judged, and every job refused the log from then on."""
    lake, session, held = person.lake, person.session, person.held
    held.bronze.newest()
    person.restore()
    await getattr(person, answer)()
    present = await known_marks(session, lake)
    await store_marks(session, lake, held.tables, held.marks)
    assert await known_marks(session, lake) == present
    assert await departures(present, [bronze(lake)]) == []


@pytest.mark.parametrize("answer", ANSWERS)
async def test_a_log_that_a_person_restores_and_accepts_during_an_audit_is_not_cut(person: Person, answer: str) -> None:
    """Only what the database still knows is compared with a table that is opened late in an audit."""
    session, held = person.session, person.held
    person.restore()
    [sentence] = await departures_of(session, HeldLake(person.lake, held.marks))
    assert "bronze: the log ends with commit 1" in sentence
    await getattr(person, answer)()
    assert await departures_of(session, held) == []


@pytest.mark.parametrize("is_known", [True, False])
async def test_an_audit_of_commits_without_a_mark_leaves_the_mark_of_a_restored_log(
    lake_uri: str, tmp_path: Path, database_url: str, is_known: bool
) -> None:
    """The audit stored the mark of a commit that a restore had removed, and every job refused the log from then on."""
    lake, log = LakeStorage(lake_uri), tmp_path / "lake" / "bronze" / "_delta_log"
    committed(bronze(lake), 2)
    async with opened(database_url) as (database, _):
        session: Any = database
        if is_known:
            await store_marks(session, lake, [bronze(lake)])
        committed(bronze(lake), 2)
        held = HeldLake(lake, await known_marks(session, lake))
        assert held.bronze.newest() == (4, 4)
        for version in (2, 3, 4):
            (log / f"{version:020d}.json").unlink()
        await session.execute("lake_mark.forget_mark", lake.uri, "bronze")
        committed(bronze(lake), 2)
        await store_marks(session, lake, [bronze(lake)])
        present = await known_marks(session, lake)
        await store_marks(session, lake, held.tables, held.marks)
        assert await known_marks(session, lake) == present
        assert await departures(present, [bronze(lake)]) == []
