"""app/cli/pipeline/marks.py: what the database knows of a log does not follow a log that was cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from app.cli.pipeline.marks import departures, known_marks, store_marks
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
