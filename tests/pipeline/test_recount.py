"""app/cli/pipeline/auditing/recount.py: how much is read of the cells that differ, without a database or a lake."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.cli.pipeline.auditing import recount
from app.cli.pipeline.auditing.recount import Recount, recounted

HOUR = datetime(2026, 1, 15, tzinfo=UTC)


class Rows:
    """Stands for the database: three cells of three events each."""

    async def fetch(self, name: str, *arguments: Any) -> Sequence[dict[str, Any]]:
        if name == "lake.recount":
            about = {"tenant": "default", "topic": "a", "kafka_topic": "a", "hour": HOUR, "count": 1, "id": None}
            return [{**about, "bucket": bucket, "fault": "deleted"} for bucket in range(3)]
        if name == "lake.cell_events":
            above, page = arguments[-2:]
            return [{"id": number, "digest": "d", "is_sent": True} for number in range(above + 1, 4)][:page]
        return []


class Audit:
    """Notes which events are compared with the lake."""

    def __init__(self) -> None:
        self.compared: list[int] = []

    def sides(self, _places: object, events: Sequence[Any]) -> dict[Any, Any]:
        self.compared += [event.place.bucket for event in events]
        return {}


async def test_all_cells_together_hold_a_bounded_number_of_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound was one of each cell, and up to 500 cells are held together. A cell beyond it is told without ids."""
    monkeypatch.setattr(recount, "_EVENTS_MAX", 4)
    monkeypatch.setattr(recount, "_PAGE", 2)
    rows: Any = Rows()
    audit: Any = Audit()
    found = await recounted(rows, audit, Recount(HOUR, HOUR + timedelta(hours=1), "", "x", 3))

    assert (audit.compared, len(found)) == ([0, 0, 0], 3)
