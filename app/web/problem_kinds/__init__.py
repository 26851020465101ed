"""The table of problem kinds: refusals of requests, with cause and cure.

One row makes a kind: its `type` in answers, its page under /problems, its place in the index and its tests follow. Rows
stand in one module for each part of the product. Causes and cures are written for the person who reads the page,
without names of tables, hosts or modules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from app.web.problem_kind import ProblemKind
from app.web.problem_kinds import callers, content, events, server, work

KINDS: Final[Mapping[str, ProblemKind]] = {
    row.slug: row for part in (content, events, work, callers, server) for row in part.ROWS
}


def kinds_in_order() -> list[ProblemKind]:
    """Return the table in the order of the index page: by status, then by slug."""
    return sorted(KINDS.values(), key=lambda kind: (kind.status, kind.slug))
