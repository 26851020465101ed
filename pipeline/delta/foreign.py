"""Foreign commits: commits of other tools to a table of the lake, which may have changed rows.

A commit that rearranges (``OPTIMIZE``, ``VACUUM``, a property, a column more) leaves every row as it was. It is a note.
A commit that adds or removes rows is a finding, until a person accepts it by ``hookwire pipeline accept-commit``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

__all__ = ["ForeignCommit", "foreign_commit", "remembered"]

_NOTES_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class ForeignCommit:
    """A commit of another tool. ``tool`` and ``operation`` are that tool's own words; ``at`` is ISO 8601.

    ``changes_rows``: by its own account it changed data, which the protocol calls ``dataChange``.
    """

    version: int
    at: str
    tool: str
    operation: str
    changes_rows: bool

    @property
    def name(self) -> str:
        """Return the commit's name in a sentence."""
        return f"commit {self.version}, {self.operation} by {self.tool}"


def foreign_commit(version: int, actions: Sequence[Mapping[str, Any]]) -> ForeignCommit | None:
    """Return the commit that has these actions; None if it only created the table."""
    info: Mapping[str, Any] = next((action["commitInfo"] for action in actions if action.get("commitInfo")), {})
    files = [action.get("add") or action.get("remove") for action in actions]
    changes_rows = any(file.get("dataChange", True) for file in files if file)
    operation = str(info.get("operation", "an unnamed operation"))
    if operation.startswith("CREATE TABLE") and not any(files):
        return None
    at = datetime.fromtimestamp(info.get("timestamp", 0) / 1000, UTC).isoformat()
    return ForeignCommit(version, at, str(info.get("engineInfo", "an unnamed tool")), operation, changes_rows)


def remembered(commits: Sequence[ForeignCommit]) -> tuple[ForeignCommit, ...]:
    """Return those that the next commit of hookwire carries, oldest first: all changes, and the newest notes."""
    notes = [commit for commit in commits if not commit.changes_rows][-_NOTES_MAX:]
    return tuple(commit for commit in commits if commit.changes_rows or commit in notes)
