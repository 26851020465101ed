"""Conversion: makes Delta tables of a lake's old tables, which have a numbered log; no data file is copied (ADR 44).

::

    <table>/log/000000000007.json ... --read--> one commit of a Delta table with the same files, offsets and days
                                  --move--> <lake>/before-delta/<table>/log/

After a kill between the two steps, run it again: a table that exists already keeps its commit.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from pipeline.delta.snapshot import Change, DataFile, Snapshot, State
from pipeline.lake import LakeDamaged, Table
from pipeline.storage import LakeStorage

__all__ = ["Converted", "convert", "old_log"]


@dataclass(frozen=True, slots=True)
class Converted:
    """A table as its old log describes it."""

    table: str
    files: tuple[DataFile, ...]
    state: State

    @property
    def rows(self) -> int:
        """Return the number of rows in all files."""
        return sum(file.rows for file in self.files)


@dataclass(slots=True)
class _Replay:
    """The old log, entry by entry."""

    files: dict[str, DataFile] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)
    days: dict[str, int] = field(default_factory=dict)

    def apply(self, entry: dict[str, Any]) -> None:
        for path in () if entry["whole"] else entry["removed"]:
            self.files.pop(path, None)
        self.files |= {file["path"]: DataFile(**file) for file in entry["added"]}
        notes = entry["notes"]
        if entry["job"] == "retain":
            topic = notes["topic"] or ""
            self.kept[topic] = max(notes["before"], self.kept.get(topic, ""))
        self.days |= notes.get("days", {})
        for path, _, _ in notes.get("quarantined", ()):
            self.days.pop(DataFile(path, 0, 0).values["dt"], None)


def old_log(lake: LakeStorage, table: Table) -> Converted | None:
    """Return the table that the old log describes; None if there is no old log. Raises :class:`LakeDamaged`."""
    paths = sorted(lake.files(f"{table.name}/log"))
    entries = [_entry(lake, path) for path in paths if not path.rpartition("/")[2].startswith(".")]
    if not entries:
        return None
    numbers = [entry["version"] for entry in entries]
    if numbers != list(range(numbers[0], numbers[-1] + 1)) or not (numbers[0] == 1 or entries[0]["whole"]):
        raise LakeDamaged(f"{table.name}/log has a gap: restore its missing entry from a backup")
    replay, newest = _Replay(), entries[-1]
    for entry in entries:
        replay.apply(entry)
    state = {"offsets": newest["offsets"], "incarnations": newest.get("incarnations", {})}
    stored = State.of(state | {"kept": replay.kept, "days": replay.days})
    return Converted(table.name, tuple(replay.files.values()), stored)


def convert(lake: LakeStorage, table: Table, run: str) -> Converted | None:
    """Create the Delta table, then move the old log away. Return the converted table, or None if there is no old log.

    Raises :class:`LakeDamaged` and ``LakeConflict``.
    """
    found = old_log(lake, table)
    if found is None:
        return None
    if not table.is_made():
        table.commit(Snapshot(), Change("convert", run, tuple(found.files), state=found.state))
    for path in lake.files(f"{table.name}/log"):
        lake.move(path, f"before-delta/{path}")
    return found


def _entry(lake: LakeStorage, path: str) -> dict[str, Any]:
    try:
        sealed = json.loads(lake.read(path))
        entry: dict[str, Any] = sealed["entry"]
        text = json.dumps(entry, sort_keys=True)
        if hashlib.sha256(text.encode()).hexdigest() != sealed["sha256"]:
            raise ValueError("its checksum does not match")
    except (ValueError, KeyError, TypeError) as error:
        raise LakeDamaged(f"{path} is damaged ({error}): restore it from a backup") from error
    return entry
