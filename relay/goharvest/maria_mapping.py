"""The check of a mapping in MariaDB or MySQL at the start: the columns, the expressions, and what statements force."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from db.errors import Refused
from db.mariadb.database import MariaDatabase, for_mapped_outbox, quoted_identifier, table_parts
from relay.goharvest.mapping import OutboxMapping
from relay.goharvest.maria_installation import check_engine
from relay.goharvest.outbox_table import TableRefused

__all__ = ["maria_looked_at", "order_hint"]

_INTEGERS: Final = {1: "tinyint", 2: "smallint", 3: "int", 8: "bigint", 9: "mediumint"}
_OTHERS: Final = {
    0: "decimal", 4: "float", 5: "double", 6: "null", 7: "timestamp", 10: "date", 11: "time", 12: "datetime",
    13: "year", 16: "bit", 245: "json", 246: "decimal", 247: "enum", 248: "set",
}  # fmt: skip
"""The names of the driver's numbers. All others are texts or bytes: their character set tells which."""
_TYPES: Final[Mapping[str, Sequence[str]]] = {
    "topic": ("text",),
    "record_key": ("text", *_INTEGERS.values()),
    "payload": ("text", "binary", "json"),
    "headers": ("text", "json"),
    "content_type": ("text",),
    "waits": tuple(_INTEGERS.values()),
    "place": tuple(_INTEGERS.values()),
}
_NAMES: Final = {"record_key": "key", "place": "offset"}
"""The parts of a mapping whose columns have other names in the statements."""
_ID_CHARACTERS_MAX: Final = 800  # as mapped.create_parked has it


async def maria_looked_at(database: MariaDatabase, mapping: OutboxMapping) -> MariaDatabase:
    """Check the table, the column of ids, and the expressions with their types by name. Return the database with the
    statements for the table. Raise :class:`TableRefused`, DatabaseError.
    """
    parts = await _parts(database, mapping)
    await check_engine(database, mapping.table)
    made = database.with_statements(for_mapped_outbox(parts))
    await _check_types(made, mapping)
    return made


async def _parts(database: MariaDatabase, mapping: OutboxMapping) -> dict[str, str]:
    """Return the texts for the words of ``mapped.sql``."""
    column = await _column_of_id(database, mapping)
    quoted = f"{mapping.name}.{quoted_identifier(_column_name(mapping.id) or '')}"
    kind, given, shown = column["type"].lower(), "hookwire_ids.hookwire_row", f"CAST({quoted} AS CHAR)"
    if kind in _INTEGERS.values():
        read_as = "bigint unsigned" if "unsigned" in column["full_type"] else "bigint"
    elif kind in ("char", "varchar"):
        read_as = f"varchar({column['length_max']}) CHARACTER SET {column['charset']} COLLATE {column['collation']}"
    elif kind in ("binary", "varbinary"):
        read_as, given = f"varchar({2 * column['length_max']}) CHARACTER SET ascii", f"UNHEX({given})"
        shown = f"HEX({quoted})"
    elif kind == "uuid":
        read_as = "varchar(36) CHARACTER SET ascii"
    else:
        types = ", ".join((*_INTEGERS.values(), "char", "varchar", "binary", "varbinary", "uuid"))
        raise TableRefused(f"id is of the type {kind}, and has to be {types}")
    characters = (column["length_max"] or 0) * (2 if "binary" in kind else 1)
    if characters > _ID_CHARACTERS_MAX:
        raise TableRefused(
            f"the column {_column_name(mapping.id)} of {mapping.name} takes ids of up to {characters:,} characters, and"
            f" one of more than {_ID_CHARACTERS_MAX:,} could not be parked; make it shorter"
        )
    return mapping.parts(read_as) | {
        "mapped_id": shown,
        "mapped_column": quoted,
        "mapped_given": given,
        "mapped_index": quoted_identifier(column["unique_index"]),
        "mapped_hint": await order_hint(database, mapping),
    }


async def _column_of_id(database: MariaDatabase, mapping: OutboxMapping) -> Mapping[str, Any]:
    name = _column_name(mapping.id)
    if name is None:
        raise TableRefused("id has to be the name of a column, in MariaDB and MySQL")
    schema, table = table_parts(mapping.table)
    found = await database.fetch("mapped.column_of_id", database=schema, table=table, column=name)
    if not found:
        raise TableRefused(f"{mapping.name} has no column {name}, or our user may not see the table")
    if found[0]["unique_index"] is None:
        raise TableRefused(f"the column {name} of {mapping.name} needs a unique index of its own, to find rows by it")
    if found[0]["is_nullable"] == "YES":
        raise TableRefused(f"the column {name} of {mapping.name} may be NULL, and such rows could not be found again")
    return found[0]


async def _check_types(database: MariaDatabase, mapping: OutboxMapping) -> None:
    """Check the types of the expressions by name, on statements for the table. Raise :class:`TableRefused`,
    DatabaseError.
    """
    try:
        numbers, row = await database.types("mapped.types")
    except Refused as error:
        raise TableRefused(f"{mapping.name} cannot be relayed: {error.message}") from error
    for part, types in _TYPES.items():
        name = _NAMES.get(part, part)
        left_out = part != "waits" and getattr(mapping, name) is None
        found = _type_name(numbers[part], row[f"{part}_set"])
        if not left_out and found not in types:
            raise TableRefused(f"{name} is of the type {found}, and has to be {', '.join(types)}")


async def order_hint(database: MariaDatabase, mapping: OutboxMapping) -> str:
    """Return the hint that lets a claim read the rows in their order. With a mark, the server has to choose between
    that and the rows that wait.
    """
    expression = mapping.offset or mapping.order
    name = None if expression is None else _column_name(expression)
    if name is None or mapping.waits is not None:
        return ""
    schema, table = table_parts(mapping.table)
    index = await database.fetchval("mapped.index_of_order", database=schema, table=table, column=name)
    return "" if index is None else f"FORCE INDEX ({quoted_identifier(index)})"


def _column_name(expression: str) -> str | None:
    """Return the column that an expression names; None if it is anything else."""
    try:
        schema, name = table_parts(expression.strip())
    except ValueError:
        return None
    return name if schema is None else None


def _type_name(number: int, charset: str | None) -> str:
    known = _INTEGERS.get(number) or _OTHERS.get(number)
    return known or ("binary" if charset == "binary" else "text")
