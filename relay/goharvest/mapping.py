"""Mapping: how the columns of anybody's outbox table become records. Its parts are SQL expressions of an operator's.

::

    preset = "debezium"      replaces what is left out
    table  = "shop.outbox"
    order  = "created_at"    without it nothing is promised about order

A table whose rows may be neither deleted nor marked has an ``offset`` in place of ``order``, and a ``lag_seconds``.
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
_LAG_SECONDS_MAX: Final = 86_400


class MappingRefused(ValueError):
    """The file is no mapping; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxMapping:
    """A table, and an SQL expression for each part of a record; None: the records lack it.

    ``order`` is what the rows are sorted by; None: there is no promise of order. ``mark`` is the SET clause by which a
    confirmed row is marked, and ``waits`` the condition that holds until then; without them rows are deleted. With an
    ``offset``, a number that rises with each row, the rows stay, and a row is sent ``lag_seconds`` after it was seen.
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
    offset: str | None = None
    lag_seconds: int | None = None
    dialect: Dialect = "postgresql"

    @property
    def name(self) -> str:
        """Return the quoted name of the table."""
        return (quoted_table if self.dialect == "postgresql" else quoted_maria_table)(self.table)

    def parts(self, type_of_id: str = "text") -> dict[str, str]:
        """Return the texts for the words of ``mapped.sql``. ``type_of_id`` is what ids are read as, from text."""
        place = self.offset or self.order
        no_place = "NULL" if self.dialect == "mysql" else "NULL::bigint"
        return {
            "mapped_table": self.name,
            "mapped_id": f"({self.id})",
            "mapped_topic": f"({self.topic})",
            "mapped_key": _or_null(self.key),
            "mapped_payload": f"({self.payload})",
            "mapped_headers": _or_null(self.headers),
            "mapped_content_type": _or_null(self.content_type),
            "mapped_order": f"({place})" if place else no_place,
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
        if part == "lag_seconds":
            if type(text) is not int or not 1 <= text <= _LAG_SECONDS_MAX:
                raise MappingRefused(f"lag_seconds is a whole number, 1 to {_LAG_SECONDS_MAX}")
        elif not isinstance(text, str) or not text.strip() or len(text) > _EXPRESSION_MAX or "\0" in text:
            raise MappingRefused(f"{part} is a text of SQL, with 1 to {_EXPRESSION_MAX} characters")
    preset = {} if name is None else {**PRESETS[name], **(_IN_MYSQL[name] if dialect == "mysql" else {})}
    parts: dict[str, Any] = {**preset, **given}
    if missing := [part for part in ("table", "id", "topic", "payload") if part not in parts]:
        raise MappingRefused(f"{missing[0]} is missing" + ("" if name else "; or choose a preset"))
    if ("mark" in parts) != ("waits" in parts):
        raise MappingRefused("mark and waits belong together: what marks a row, and what holds until it is marked")
    if ("offset" in parts) != ("lag_seconds" in parts):
        raise MappingRefused("offset needs lag_seconds: how long a transaction may take that inserts a row")
    if "offset" in parts and (other := [part for part in ("order", "mark", "waits") if part in parts]):
        raise MappingRefused(f"{other[0]} does not go with offset, which is the order, and which marks nothing")
    mapping = OutboxMapping(**parts, dialect=dialect)
    try:
        mapping.name  # noqa: B018 - it is read to be checked
    except ValueError as error:
        raise MappingRefused(str(error)) from None
    return mapping


def _or_null(expression: str | None) -> str:
    return "NULL" if expression is None else f"({expression})"
