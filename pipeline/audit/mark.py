"""Mark: the newest commit of a table's log, which the database keeps to tell whether the log is still the same.

A log that lost its newest commits is consistent in itself, and so is one whose newest commit was replaced. Only a note
elsewhere shows it. A log that has more commits than the note is normal: a job ended before it could note them.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.lake import Table

__all__ = ["LogMark", "departure", "mark_of"]


@dataclass(frozen=True, slots=True)
class LogMark:
    """A commit: its ``version``, the ``number`` of hookwire's newest commit, its id and the SHA-256 of its bytes.

    ``commit_id`` is "" if another tool made the commit.
    """

    version: int
    number: int
    commit_id: str
    digest: str


def mark_of(table: Table) -> LogMark | None:
    """Return the mark of the newest commit; None if the table does not exist. Raises :class:`LakeDamaged`."""
    newest = table.newest()
    entry = None if newest is None else table.entry(newest[0])
    if newest is None or entry is None:  # a checkpoint may have replaced the entry
        return None
    _, number = newest
    commit_id = (entry.ours or {}).get("id", "")
    return LogMark(entry.version, number, commit_id, entry.digest)


def departure(table: Table, known: LogMark) -> str | None:
    """Return in a sentence how the table's log departs from a known commit; None if it holds it.

    A commit that a checkpoint has replaced is compared by the number alone. Raises :class:`LakeDamaged`.
    """
    last, number = table.newest() or (-1, 0)
    name = f"commit {known.version}" + (f" ({known.commit_id})" if known.commit_id else "")
    if last < known.version:
        ends = "is gone" if last < 0 else f"ends with commit {last}"
        return f"{table.name}: the log {ends}, and the database knows {name}: its newest commits were removed"
    entry = table.entry(known.version)
    if entry is not None and entry.digest != known.digest:
        there = (entry.ours or {}).get("id", "")
        words = "was altered" if there == known.commit_id else f"was overwritten by {entry.author}"
        return f"{table.name}: {name}, which the database knows, {words}"
    # A checkpoint that somebody made may lie ahead of the commits.
    if number < known.number:
        return f"{table.name}: the log knows fewer commits of hookwire than the database, which knows {known.number}"
    return None
