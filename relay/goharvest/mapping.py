"""Mapping: how the columns of anybody's outbox table become records. Its parts are SQL expressions of an operator's.

::

    preset = "debezium"      replaces what is left out
    table  = "shop.outbox"
    order  = "created_at"    without it nothing is promised about order
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Literal

from db.mariadb.database import quoted_maria_table
from db.statements import quoted_table

__all__ = ["PRESETS", "Dialect", "MappingRefused", "OutboxMapping", "mapping_of"]

Dialect = Literal["postgresql", "mysql"]
"""Whose SQL the expressions are. MariaDB's counts as MySQL's."""

PRESETS: Final[Mapping[str, Mapping[str, str]]] = {
    "debezium": {
        "id": "id",
        "topic": "'outbox.event.' || aggregatetype",
        "key": "aggregateid",
        "payload": "payload",
        "headers": "jsonb_build_object('id', id)",
        "content_type": "'application/json'",
    },
}
"""Debezium's outbox router, with its default names: topic ``outbox.event.<aggregatetype>``, header ``id``."""
_IN_MYSQL: Final[Mapping[str, Mapping[str, str]]] = {
    "debezium": {"topic": "CONCAT('outbox.event.', aggregatetype)", "headers": "JSON_OBJECT('id', id)"},
}
"""The parts of a preset that MySQL and MariaDB write in another way."""
_EXPRESSION_MAX: Final = 2_000


class MappingRefused(ValueError):
    """The file is no mapping; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxMapping:
    """A table, and an SQL expression for each part of a record; None: the records lack it.

    ``order`` is what the rows are sorted by; None: there is no promise of order. ``mark`` is the SET clause by which a
    confirmed row is marked, and ``waits`` the condition that holds until then; without them rows are deleted.
    """

    table: str
    id: str
    topic: str
    key: str | None = None
    payload: str
    headers: str | None = None
    content_type: str | None = None
    order: str | None = None
    mark: str | None = None
    waits: str | None = None
    dialect: Dialect = "postgresql"

    @property
    def name(self) -> str:
        """Return the quoted name of the table."""
        return (quoted_table if self.dialect == "postgresql" else quoted_maria_table)(self.table)

    def parts(self, type_of_id: str = "text") -> dict[str, str]:
        """Return the texts for the words of ``mapped.sql``. ``type_of_id`` is what ids are read as, from text."""
        return {
            "mapped_table": self.name,
            "mapped_id": f"({self.id})",
            "mapped_topic": f"({self.topic})",
            "mapped_key": _or_null(self.key),
            "mapped_payload": f"({self.payload})",
            "mapped_headers": _or_null(self.headers),
            "mapped_content_type": _or_null(self.content_type),
            "mapped_order": _or_null(self.order),
            "mapped_waits": "true" if self.waits is None else f"({self.waits})",
            "mapped_mark": self.mark or "",
            "mapped_type": type_of_id,
        }


def mapping_of(values: Mapping[str, Any], dialect: Dialect = "postgresql") -> OutboxMapping:
    """Return the mapping of a file's values; raises :class:`MappingRefused`."""
    given = dict(values)
    name = given.pop("preset", None)
    if name is not None and name not in PRESETS:
        raise MappingRefused(f"there is no preset {name!r}; there is {', '.join(PRESETS)}")
    known = [field.name for field in fields(OutboxMapping) if field.name != "dialect"]
    for part, text in given.items():
        if part not in known:
            raise MappingRefused(f"there is no part {part}; there are {', '.join(known)}")
        if not isinstance(text, str) or not text.strip() or len(text) > _EXPRESSION_MAX or "\0" in text:
            raise MappingRefused(f"{part} is a text of SQL, with 1 to {_EXPRESSION_MAX} characters")
    preset = {} if name is None else {**PRESETS[name], **(_IN_MYSQL[name] if dialect == "mysql" else {})}
    parts: dict[str, Any] = {**preset, **given}
    if missing := [part for part in ("table", "id", "topic", "payload") if part not in parts]:
        raise MappingRefused(f"{missing[0]} is missing" + ("" if name else "; or choose a preset"))
    if ("mark" in parts) != ("waits" in parts):
        raise MappingRefused("mark and waits belong together: what marks a row, and what holds until it is marked")
    mapping = OutboxMapping(**parts, dialect=dialect)
    try:
        mapping.name  # noqa: B018 - it is read to be checked
    except ValueError as error:
        raise MappingRefused(str(error)) from None
    return mapping


def _or_null(expression: str | None) -> str:
    return "NULL" if expression is None else f"({expression})"
