"""Views: SQL that names the newest tables of each topic, for DuckDB and for Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from pipeline.storage import LakeStorage
from pipeline.typed.tables import made_tables, newest

__all__ = ["TwoViews", "statements", "view_names"]


class TwoViews(Exception):
    """Two topics would have one view."""


def _in_duckdb(name: str, uri: str) -> str:
    quoted = uri.replace("'", "''")
    return f"""CREATE OR REPLACE VIEW "{name}" AS SELECT * FROM delta_scan('{quoted}');"""  # noqa: S608 - it is quoted


def _in_spark(name: str, uri: str) -> str:
    quoted = uri.replace("`", "``")
    return f"CREATE OR REPLACE VIEW `{name}` AS SELECT * FROM delta.`{quoted}`;"  # noqa: S608 - it is quoted


_ENGINES: Final[Mapping[str, Callable[[str, str], str]]] = {"duckdb": _in_duckdb, "spark": _in_spark}


def statements(lake: LakeStorage, engine: str) -> dict[str, str]:
    """Return for each view the statement that makes it. Raises :class:`TwoViews` and StorageError."""
    scheme = "s3a://" if engine == "spark" else "s3://"
    tables = view_names(lake)
    return {
        name: _ENGINES[engine](name, lake.spark_path(table).replace("s3a://", scheme, 1))
        for name, table in tables.items()
    }


def view_names(lake: LakeStorage) -> dict[str, str]:
    """Return the name of each view, which is the topic's with underscores, and its table.

    Raises :class:`TwoViews` and StorageError.
    """
    found: dict[str, str] = {}
    for place, table in newest(made_tables(lake)).items():
        kind, _, topic = place.partition("/")
        name = re.sub(r"\W", "_", topic, flags=re.ASCII) + ("_rejected" if kind == "rejected" else "")
        if name in found:
            raise TwoViews(f"{found[name]} and {table.name} would both be the view {name}: make one of them by hand")
        found[name] = table.name
    return found
