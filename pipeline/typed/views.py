"""Views: SQL that names the newest tables of each topic, for DuckDB and for Spark."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Final

from pipeline.storage import LakeStorage
from pipeline.typed.tables import made_tables, newest

__all__ = ["statements"]


def _in_duckdb(name: str, uri: str) -> str:
    quoted = uri.replace("'", "''")
    return f"""CREATE OR REPLACE VIEW "{name}" AS SELECT * FROM delta_scan('{quoted}');"""  # noqa: S608 - it is quoted


def _in_spark(name: str, uri: str) -> str:
    quoted = uri.replace("`", "``")
    return f"CREATE OR REPLACE VIEW `{name}` AS SELECT * FROM delta.`{quoted}`;"  # noqa: S608 - it is quoted


_ENGINES: Final[Mapping[str, Callable[[str, str], str]]] = {"duckdb": _in_duckdb, "spark": _in_spark}


def statements(lake: LakeStorage, engine: str) -> tuple[dict[str, str], list[str]]:
    """Return for each view the statement that makes it, and in sentences which tables have none.

    The name of a view is the topic's with underscores. Both engines ignore its case. Raises StorageError.
    """
    scheme = "s3a://" if engine == "spark" else "s3://"
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for place, table in newest(made_tables(lake)).items():
        kind, _, topic = place.partition("/")
        name = re.sub(r"\W", "_", topic, flags=re.ASCII) + ("_rejected" if kind == "rejected" else "")
        found[name.lower()].append((name, table.name))
    made = {
        name: _ENGINES[engine](name, lake.spark_path(table).replace("s3a://", scheme, 1))
        for (name, table), *others in found.values()
        if not others
    }
    unnamed = [
        f"{' and '.join(table for _, table in tables)} would be one view, {name}: make views of them by hand"
        for name, tables in found.items()
        if len(tables) > 1
    ]
    return made, unnamed
