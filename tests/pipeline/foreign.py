"""Other tools at work on a lake: deltalake's own operations, and a log that is altered by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from typer.testing import CliRunner

from app.cli.main import application
from pipeline.audit.selftest import SelftestRecord
from pipeline.delta.snapshot import Change
from pipeline.lake import Table, bronze
from pipeline.storage import LakeStorage

DAY = date(2026, 1, 15)
AT = datetime(2026, 1, 15, 9, 7, tzinfo=UTC)


def row(number: int, key: str = "a", **changes: Any) -> dict[str, Any]:
    """A row of bronze as the archive writes it."""
    return {
        "partition": 0, "offset": number, "timestamp": AT, "timestamp_type": 0, "key": key.encode(),
        "value": b"payload %d" % number, "headers": [], "event_id": f"evt_selftest_{number}", "event_number": number,
        "sequence": number, "term": 7, "accepted_at": AT, "archived_at": AT, **changes,
    }  # fmt: skip


def row_of(record: SelftestRecord) -> dict[str, Any]:
    """The row that ``bronze_of`` makes of it."""
    return row(record.number) | {
        "offset": record.offset, "key": record.key.encode() if record.key else None, "value": record.value,
        "event_id": record.event_id, "sequence": record.number if record.key else None, "term": record.term,
        "timestamp": AT + timedelta(seconds=record.delay_seconds),
    }  # fmt: skip


def batch(table: Table, *rows: dict[str, Any], topic: str = "orders", day: date = DAY) -> None:
    """A batch of the archive with these rows, without Spark."""
    table.upgrade()
    basis = table.snapshot()
    file = table.write_rows(rows, {"dt": day.isoformat(), "topic": topic}, basis.number + 1)
    table.commit(basis, Change("archive", "run", (file,)))


def delta(lake: LakeStorage) -> DeltaTable:
    """Bronze as deltalake opens it."""
    return DeltaTable(f"{lake.uri}/bronze", storage_options=lake.delta_options)


def append(lake: LakeStorage, *rows: dict[str, Any], topic: str | None = "orders", day: date | None = DAY) -> None:
    """An append by deltalake."""
    table = delta(lake)
    schema = pa.schema(table.schema().to_arrow())
    written = [each | {"topic": topic, "dt": day} for each in rows]
    write_deltalake(table, pa.Table.from_pylist(written, schema), mode="append")


def edit(lake: LakeStorage, version: int, change: Callable[[dict[str, Any]], object]) -> None:
    """Alter each action of a commit by hand."""
    path = Path(lake.uri.removeprefix("file://")) / "bronze" / "_delta_log" / f"{version:020d}.json"
    actions = [json.loads(line) for line in path.read_text().splitlines()]
    for action in actions:
        change(action)
    path.write_text("\n".join(json.dumps(action, separators=(",", ":")) for action in actions) + "\n")


def pipeline(lake: LakeStorage, *words: str) -> tuple[int, Any]:
    """Run `hookwire pipeline ...` with `--json`; return its exit code and what it printed."""
    done = CliRunner().invoke(
        application("pipeline"), ["pipeline", *words, "--lake", lake.uri, "--json"], catch_exceptions=False
    )
    return done.exit_code, json.loads(done.stdout)


def table_of(lake: LakeStorage, *batches: int) -> Table:
    """Bronze with a batch for each number of rows, whose event numbers rise from 1."""
    table, number = bronze(lake), 1
    for rows in batches:
        batch(table, *(row(n) for n in range(number, number + rows)))
        number += rows
    return table
