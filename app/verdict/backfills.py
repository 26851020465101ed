"""Backfills: runs of ``hookwire pipeline backfill`` that no process carries on.

The verdict and ``hookwire doctor`` tell them until they are resumed or cancelled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from app.verdict.facts import Row
from app.verdict.verdict import Part, PartState
from runtime.counted import counted
from webhooks.condition import format_moment

__all__ = ["backfill_parts"]

_COMMAND: Final = "hookwire pipeline backfill"


def backfill_parts(rows: Sequence[Row]) -> Iterator[Part]:
    """Yield each run that stopped or was interrupted, or runs without a process: the rows of ``verdict.backfills``."""
    for row in rows:
        name, ended_at = f"replay_{row['id']}", format_moment(row["ended_at"])
        if row["state"] == "paused":
            why = f"it stopped at {ended_at}: {row['why']}"
        elif row["lease_until"] is not None:
            why = f"its process {row['holder']} is gone since {ended_at}"
        else:
            why = f"it was resumed at {ended_at}, and no process carries it on"
        sent = f"{row['replayed']:,} of {counted(row['events'], 'event')} sent"
        cure = f"run `{_COMMAND} --resume {name}` or `--cancel {name}`"
        state: PartState = "failing" if row["state"] == "paused" else "down"
        yield Part("backfill", name, state, f"{why}; {sent}; {cure}", row["ended_at"], topic=row["topic"])
