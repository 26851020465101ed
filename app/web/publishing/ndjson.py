"""Ndjson: the lines of a batch, bounded in number and in JSON values."""

from __future__ import annotations

from typing import Final

from app.web.problem import Problem
from event.strict_json import NODES_MAX, nodes_of

__all__ = ["BATCH_NODES_MAX", "LINES_MAX", "MEDIA_TYPE", "lines_of"]

MEDIA_TYPE: Final = "application/x-ndjson"
LINES_MAX: Final = 1_000
BATCH_NODES_MAX: Final = 4 * NODES_MAX
"""JSON values of all lines together."""


def lines_of(body: bytes, things: str) -> list[tuple[int, bytes]]:
    """Return the lines that are not blank, with their numbers. A line is as it came, without its end.

    Raise ``Problem`` for too many lines, or too many values in them.

    ``things`` is the word for the lines in messages.
    """
    lines = [(number, line.removesuffix(b"\r")) for number, line in enumerate(body.split(b"\n"), 1) if line.strip()]
    if len(lines) > LINES_MAX:
        raise Problem("malformed-batch", f"A batch holds at most {LINES_MAX} {things}; this one has {len(lines)}.")
    if sum(nodes_of(line, enough=BATCH_NODES_MAX // len(lines)) for _, line in lines) > BATCH_NODES_MAX:
        detail = f"A batch holds at most {BATCH_NODES_MAX} JSON values in all its {things}; send it in parts."
        raise Problem("malformed-batch", detail)
    return lines
