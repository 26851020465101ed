"""Retention: whole days leave the lake, files and all (PL-09)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime

from pipeline.exchange import amend
from pipeline.lake import Change, DataFile, Snapshot, Table
from pipeline.storage import LakeStorage

__all__ = ["expired", "forgotten", "retain"]


def expired(snapshot: Snapshot, before: date, topic: str | None = None) -> tuple[DataFile, ...]:
    """The files of days before ``before``, of one Kafka topic or of all."""
    return tuple(
        file
        for file in snapshot.files
        if file.values["dt"] < before.isoformat() and (topic is None or file.values["topic"] == topic)
    )


def retain(lake: LakeStorage, table: Table, before: date, run: str, topic: str | None = None) -> tuple[DataFile, ...]:
    """Take them out of the table, then delete them. Raises :class:`LakeConflict`."""
    gone: tuple[DataFile, ...] = ()

    def change(basis: Snapshot) -> Change | None:
        nonlocal gone
        gone = expired(basis, before, topic)
        notes = {"before": before.isoformat(), "topic": topic}
        return Change("retain", run, removed=tuple(file.path for file in gone), notes=notes) if gone else None

    amend(table, change)
    lake.delete(f"{table.name}/{file.path}" for file in gone)
    return gone


def forgotten(table: Table) -> Callable[[str, datetime], bool]:
    """Whether the hour of a Kafka topic lies before what was kept, by the table's log: no audit can judge it."""
    kept: dict[str | None, str] = {}
    for entry in table.entries():
        if entry["job"] == "retain":
            topic, before = entry["notes"]["topic"], entry["notes"]["before"]
            kept[topic] = max(before, kept.get(topic, before))
    return lambda topic, hour: hour.date().isoformat() < max(kept.get(None, ""), kept.get(topic, ""))
