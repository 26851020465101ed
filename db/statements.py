"""Named statements: ``-- name: claim`` in ``db/sql/outbox.sql`` is called as ``outbox.claim``.

A noun with many statements has several files, ``db/sql/<noun>.<part>.sql``; a statement's name does not have the part.
The files are read once, at import. A repeated name or an empty body is a programming error and raises then.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

__all__ = ["STATEMENTS", "column", "for_mapped", "for_outbox", "for_partition", "load", "quoted_table"]

_NAME = re.compile(r"^-- name: ([a-z0-9_]+)[ \t]*$", re.MULTILINE)
_IDENTIFIER = r'(?:[A-Za-z_][A-Za-z0-9_$]*|"(?:[^"\x00]|"")+")'
_TABLE = re.compile(rf"{_IDENTIFIER}(?:\.{_IDENTIFIER})?", re.ASCII)
_PLACEHOLDER = re.compile(r"\bcompat_outbox\b")
_MAPPED = re.compile(r"\bmapped_[a-z_]+\b")
_PARTITION = re.compile(r"\b(?:parent|partition)_table\b")


def column(values: list[Any]) -> list[Any]:
    """Return the array for a column of ``unnest``, empty where all values are NULL, as many are for successes.

    ``unnest`` pads a shorter array with NULLs. asyncpg looks at each element of an array.
    """
    return values if values.count(None) < len(values) else []


def load(folder: Path) -> Mapping[str, str]:
    """Read every ``*.sql`` of a folder into a mapping from ``<noun>.<name>`` to SQL text."""
    statements: dict[str, str] = {}
    for path in sorted(folder.glob("*.sql")):
        noun = path.name.partition(".")[0]
        parts = _NAME.split(path.read_text(encoding="utf-8"))
        for name, body in zip(parts[1::2], parts[2::2], strict=True):
            full = f"{noun}.{name}"
            if full in statements:
                raise ValueError(f"statement {full} is defined twice")
            if not body.strip():
                raise ValueError(f"statement {full} is empty")
            statements[full] = body.strip().rstrip(";")
    return MappingProxyType(statements)


def quoted_table(table: str) -> str:
    """Return a table's name, with its schema if any, quoted as PostgreSQL reads it.

    ``Shop.outbox`` becomes ``"shop"."outbox"``; a part in quotes keeps its case. Raise ValueError for any other text.
    """
    if not _TABLE.fullmatch(table):
        raise ValueError(f"{table!r} is not a table's name: outbox, schema.outbox, or either part in double quotes")
    parts = re.findall(_IDENTIFIER, table)
    return ".".join(part if part.startswith('"') else f'"{part.lower()}"' for part in parts)


def for_outbox(table: str) -> Mapping[str, str]:
    """Return all statements, those of ``compat.sql`` for this goharvest table; raise ValueError as
    :func:`quoted_table`.
    """
    quoted = quoted_table(table)
    return MappingProxyType(
        {
            name: _PLACEHOLDER.sub(lambda _: quoted, text) if name.startswith("compat.") else text
            for name, text in STATEMENTS.items()
        }
    )


def for_mapped(parts: Mapping[str, str]) -> Mapping[str, str]:
    """Return all statements, those of ``mapped.sql`` for this table. ``parts`` has a text of SQL for each word there
    that begins with "mapped"; the texts are an operator's own.
    """
    return MappingProxyType(
        {
            name: _MAPPED.sub(lambda found: parts[found[0]], text) if name.startswith("mapped.") else text
            for name, text in STATEMENTS.items()
        }
    )


def for_partition(partition: str, parent: str = "") -> Mapping[str, str]:
    """Return the statements of ``partition.sql`` for a partition and its parent; raise ValueError as
    :func:`quoted_table`.
    """
    names = {"partition_table": quoted_table(partition)} | ({"parent_table": quoted_table(parent)} if parent else {})
    return MappingProxyType(
        {
            name: _PARTITION.sub(lambda found: names.get(found[0], found[0]), text)
            for name, text in STATEMENTS.items()
            if name.startswith("partition.")
        }
    )


STATEMENTS = load(Path(__file__).parent / "sql")
