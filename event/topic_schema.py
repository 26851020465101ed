"""The JSON Schema of a topic's events, of which the lake makes columns.

Only what gives columns is judged, and every other keyword is kept and ignored. A schema refuses no event.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

__all__ = ["SCHEMA_BYTES_MAX", "TopicSchemaError", "columns_text", "ignored_keywords"]

SCHEMA_BYTES_MAX: Final = 65_536
_DEPTH_MAX: Final = 8
_PROPERTIES_MAX: Final = 200
_REMARKS_MAX: Final = 50

_TYPES: Final = {"string", "integer", "number", "boolean", "object", "array", "null"}
_READ: Final = {"type", "properties", "required", "items", "format", "enum", "additionalProperties", "$ref", "$defs"}
_ANYWHERE: Final = {"type", "enum", "$ref", "$defs"}
_BY_TYPE: Final = {
    "object": {"properties", "required", "additionalProperties"}, "array": {"items"}, "string": {"format"},
}  # fmt: skip
_SAYS_NOTHING: Final = {"$schema", "$id", "$comment", "title", "description", "default", "examples", "deprecated"}
_FORMATS: Final = ("date-time", "date")
_DEFINITION: Final = "#/$defs/"
# What every reader of the lake takes as the name of a column.
_NAME: Final = re.compile(r"""[^\x00-\x20\x7f.,;*{}()=`"\\]{1,128}""")


class TopicSchemaError(ValueError):
    """The schema gives no columns; the text names the place in it and the keyword."""


def ignored_keywords(schema: Mapping[str, Any]) -> list[str]:
    """Return the places of keywords that change no column, the first 50. Raises :class:`TopicSchemaError`."""
    if len(json.dumps(schema, ensure_ascii=False).encode()) > SCHEMA_BYTES_MAX:
        raise TopicSchemaError(f"the schema has more than {SCHEMA_BYTES_MAX:,} bytes")
    walk = _Walk(schema)
    walk.visit(schema, "#", 0)
    root = walk.resolved(schema, "#")
    if _types(root, "#") - {"null"} != {"object"}:
        raise TopicSchemaError('#/type: it is "object", because the members of the event become columns')
    if not root.get("properties"):
        raise TopicSchemaError("#/properties: there is none, so the table would have no column of the event")
    return walk.ignored


def columns_text(schema: Mapping[str, Any]) -> str:
    """Return a text that is equal for schemas that give the same columns and refuse the same rows.

    Titles and the order of keywords do not change it; the order of properties does.
    """
    return json.dumps(_read_part(schema), ensure_ascii=False)


def _read_part(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    made = {}
    for word in sorted(_READ & node.keys()):
        value = node[word]
        if word in ("properties", "$defs") and isinstance(value, dict):
            value = [[name, _read_part(part)] for name, part in value.items()]
        made[word] = _read_part(value) if word == "items" else value
    return made


class _Walk:
    """Visits each part of a schema that gives columns; a reference is followed each time that it is met."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.ignored: list[str] = []
        self._root = schema
        self._properties = 0

    def visit(self, node: Any, place: str, depth: int) -> None:
        """Judge a part and all that is in it. Raises :class:`TopicSchemaError`."""
        if node is True:
            return
        if depth > _DEPTH_MAX:
            raise TopicSchemaError(f"{place}: deeper than {_DEPTH_MAX} levels, or a reference to itself")
        node = self.resolved(node, place)
        self._judge_words(node, place)
        self._judge_properties(node, place, depth)
        if "items" in node:
            self.visit(node["items"], f"{place}/items", depth + 1)

    def resolved(self, node: Any, place: str) -> Mapping[str, Any]:
        """Return a part with the definition that its ``$ref`` names. Raises :class:`TopicSchemaError`."""
        if not isinstance(node, dict):
            raise TopicSchemaError(f"{place}: a schema is an object, or true")
        if "$ref" not in node:
            return node
        name, definitions = node["$ref"], self._root.get("$defs")
        if not (isinstance(name, str) and name.startswith(_DEFINITION) and isinstance(definitions, dict)):
            raise TopicSchemaError(f"{place}/$ref: it names a definition of this schema, as {_DEFINITION}address")
        found = definitions.get(name.removeprefix(_DEFINITION))
        if not isinstance(found, dict) or "$ref" in found:
            raise TopicSchemaError(f"{place}/$ref: there is no such definition, or it is a reference itself")
        return {**found, **{word: value for word, value in node.items() if word != "$ref"}} if len(node) > 1 else found

    def _judge_words(self, node: Mapping[str, Any], place: str) -> None:
        _types(node, place)
        if "enum" in node and not (isinstance(node["enum"], list) and node["enum"]):
            raise TopicSchemaError(f"{place}/enum: it is a list of values")
        if len(self.ignored) < _REMARKS_MAX:  # a short schema has a million places, if a definition is named often
            unread = islice(_unread(node, is_root=place == "#"), _REMARKS_MAX - len(self.ignored))
            self.ignored += [f"{place}/{word}" for word in unread]

    def _judge_properties(self, node: Mapping[str, Any], place: str, depth: int) -> None:
        properties, required = node.get("properties", {}), node.get("required", [])
        if not isinstance(properties, dict):
            raise TopicSchemaError(f"{place}/properties: it is an object")
        if not (isinstance(required, list) and all(isinstance(name, str) for name in required)):
            raise TopicSchemaError(f"{place}/required: it is a list of names")
        if missing := sorted(set(required) - properties.keys()):
            raise TopicSchemaError(f"{place}/required: {missing[0]!r} is not among the properties")
        self._properties += len(properties)
        if self._properties > _PROPERTIES_MAX:
            raise TopicSchemaError(f"{place}/properties: more than {_PROPERTIES_MAX} in all")
        seen: set[str] = set()
        for name, part in properties.items():
            if not _NAME.fullmatch(name):
                raise TopicSchemaError(f"{place}/properties: {name[:128]!r} cannot be the name of a column")
            if name.lower() in seen:
                raise TopicSchemaError(f"{place}/properties: {name!r} differs from another one by case only")
            seen.add(name.lower())
            self.visit(part, f"{place}/properties/{name}", depth + 1)


def _unread(node: Mapping[str, Any], *, is_root: bool) -> Iterator[str]:
    """Yield the keywords of a part that change no column and refuse no row."""
    read = _SAYS_NOTHING | _with_effect(node)
    if is_root:
        read -= {"enum"}
    return (word for word in node if word not in read)


def _with_effect(node: Mapping[str, Any]) -> set[str]:
    """Return the keywords that a part reads. One of several types becomes JSON text, with any members or items."""
    types = _types(node, "") - {"null"}
    read = {word for one in types for word in _BY_TYPE.get(one, ())} if len(types) == 1 else set()
    if node.get("format") not in _FORMATS:
        read -= {"format"}
    if not node.get("properties"):
        read -= {"required", "additionalProperties"}
    if not isinstance(node.get("additionalProperties", True), bool):
        read -= {"additionalProperties"}
    return _ANYWHERE | read


def _types(node: Mapping[str, Any], place: str) -> set[str]:
    """Return the types that a part permits; none: all of them. Raises :class:`TopicSchemaError`."""
    named = node.get("type", [])
    found = [named] if isinstance(named, str) else named
    if not (isinstance(found, list) and all(isinstance(one, str) and one in _TYPES for one in found)):
        raise TopicSchemaError(f"{place}/type: it is one or several of {', '.join(sorted(_TYPES))}")
    return set(found)
