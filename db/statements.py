"""Named statements: ``db/sql/outbox.sql`` holding ``-- name: claim`` is called as ``outbox.claim``.

The files are read once, at import; a doubled name or an empty body is a programming error and raises then.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

__all__ = ["STATEMENTS", "load"]

_NAME = re.compile(r"^-- name: ([a-z0-9_]+)[ \t]*$", re.MULTILINE)


def load(folder: Path) -> Mapping[str, str]:
    """Read every ``*.sql`` of a folder into a mapping from ``<file>.<name>`` to SQL text."""
    statements: dict[str, str] = {}
    for path in sorted(folder.glob("*.sql")):
        parts = _NAME.split(path.read_text(encoding="utf-8"))
        for name, body in zip(parts[1::2], parts[2::2], strict=True):
            full = f"{path.stem}.{name}"
            if full in statements:
                raise ValueError(f"statement {full} is defined twice")
            if not body.strip():
                raise ValueError(f"statement {full} is empty")
            statements[full] = body.strip().rstrip(";")
    return MappingProxyType(statements)


STATEMENTS = load(Path(__file__).parent / "sql")
