"""Protocol: which tables of Delta hookwire reads and writes. It refuses any other feature by its name.

A feature changes the meaning of the log or of the files: with deletion vectors a file holds rows that are deleted.
A reader that does not know it would count wrong, in silence.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from deltalake import DeltaTable
from pyspark.sql.types import StructType

__all__ = ["refused_for_reading", "refused_for_writing"]

_READ: Final = {"timestampNtz"}
_WRITTEN: Final = _READ | {"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns"}
_OLD_READER, _OLD_WRITER = 2, 5
"""Up to these versions a protocol has no list of features. ``columnMapping`` is the only reader feature among them."""
_DROP: Final = "drop it with the tool that set it"
_COLUMN_MAPPING: Final = "delta.columnMapping.mode"


def refused_for_reading(table: DeltaTable, schema: StructType, partitions: Iterable[str]) -> str | None:
    """Return why the table's rows cannot be read as every reader of Delta reads them; None if they can."""
    features = set(table.protocol().reader_features or ())
    if table.metadata().configuration.get(_COLUMN_MAPPING, "none") != "none":
        features.add("columnMapping")
    if unknown := sorted(features - _READ):
        return f"uses Delta's feature {', '.join(unknown)}, which hookwire does not read: {_DROP}"
    if tuple(table.metadata().partition_columns) != tuple(partitions):
        return f"has the partition columns {table.metadata().partition_columns}, not {list(partitions)}"
    return _other_column(json.loads(table.schema().to_json()), json.loads(schema.json()))


def refused_for_writing(table: DeltaTable) -> str | None:
    """Return why hookwire's commit would break the table's rules for writers; None if it would not."""
    protocol, configuration = table.protocol(), table.metadata().configuration
    if unknown := sorted(set(protocol.writer_features or ()) - _WRITTEN):
        return f"uses Delta's feature {', '.join(unknown)}, which hookwire does not write: {_DROP}"
    if protocol.min_writer_version > _OLD_WRITER and not protocol.writer_features:
        return f"needs a writer of Delta's version {protocol.min_writer_version}, and hookwire's is {_OLD_WRITER}"
    if rules := sorted(name for name in configuration if name.startswith("delta.constraints.")):
        return f"has the rule {', '.join(rules)}, which hookwire does not check: drop it"
    if configuration.get("delta.appendOnly", "false") == "true":
        return "is append-only by the property delta.appendOnly: unset it"
    return None


def _other_column(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str | None:
    """Return the first column that has another type than ours. Other columns, and ours that came later, are fine."""
    types = {field["name"]: _shape(field["type"]) for field in found["fields"]}
    for field in wanted["fields"]:
        if types.get(field["name"], shape := _shape(field["type"])) != shape:
            return f"has another type in the column {field['name']}: {json.dumps(types[field['name']])}"
    return None


def _shape(kind: Any) -> Any:
    """Return a type without the parts that do not concern its values: whether it may be null, and comments."""
    if not isinstance(kind, dict):
        return kind
    ignored = ("nullable", "metadata", "containsNull", "valueContainsNull")
    shaped = {name: _shape(value) for name, value in kind.items() if name not in ignored}
    return shaped | ({"fields": [_shape(field) for field in kind["fields"]]} if "fields" in kind else {})
