"""Retention: deletes whole days with their files from the lake."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime

from pipeline.delta.snapshot import Change, DataFile, Snapshot
from pipeline.lake import Table
from pipeline.storage import LakeStorage

__all__ = ["expired", "first_kept", "forgotten", "retain"]


def expired(snapshot: Snapshot, before: date, topic: str | None = None) -> tuple[DataFile, ...]:
    """Return the files of days before ``before``, of one Kafka topic or of all.

    Rows of another tool that have no day are kept.
    """
    return tuple(
        file
        for file in snapshot.files
        if "" < file.values["dt"] < before.isoformat() and (topic is None or file.values["topic"] == topic)
    )


def retain(lake: LakeStorage, table: Table, before: date, run: str, topic: str | None = None) -> tuple[DataFile, ...]:
    """Remove expired files from the table, then delete them; return them. Raises :class:`LakeConflict`."""
    gone: tuple[DataFile, ...] = ()

    def change(basis: Snapshot) -> Change | None:
        nonlocal gone
        gone = expired(basis, before, topic)
        day, kept = before.isoformat(), basis.state.kept
        state = replace(basis.state, kept={**kept, topic or "": max(day, kept.get(topic or "", day))})
        return Change("retain", run, removed=tuple(file.path for file in gone), state=state) if gone else None

    table.amend(change)
    table.discard(gone)
    return gone


def forgotten(snapshot: Snapshot) -> Callable[[str, datetime], bool]:
    """Return a test for hours of a Kafka topic that retention has deleted; the audit cannot judge them."""
    return lambda topic, hour: hour.date().isoformat() < first_kept(snapshot, topic)


def first_kept(snapshot: Snapshot, topic: str) -> str:
    """Return the first day of a Kafka topic that retention kept; "" if it has deleted none."""
    kept = snapshot.state.kept
    return max(kept.get("", ""), kept.get(topic, ""))
