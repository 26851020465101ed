"""Shape: a topic's JSON Schema as columns, and what a value needs to fit them.

The hub has checked the schema before it was stored: references, names and bounds. A part that gives no column of its
own becomes JSON text, so that every schema has a shape.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

__all__ = ["Kind", "Shape", "ShapeMember", "comparable", "shape_of"]

Kind = Literal["array", "boolean", "date", "integer", "json", "moment", "number", "object", "text"]

_KINDS: Final[Mapping[str, Kind]] = {"boolean": "boolean", "integer": "integer", "number": "number", "string": "text"}
_OF_TEXT: Final[Mapping[str, Kind]] = {"date": "date", "date-time": "moment"}
_DEFINITION: Final = "#/$defs/"
_PREFIX: Final = "payload_"


@dataclass(frozen=True, slots=True)
class Shape:
    """What a value is. ``members`` of an object; ``item`` of an array.

    ``allowed``: the only values, as ``comparable`` texts; none: any. ``is_closed``: an object has no other members.
    """

    kind: Kind
    members: tuple[ShapeMember, ...] = ()
    item: Shape | None = None
    allowed: frozenset[str] = frozenset()
    is_closed: bool = False


@dataclass(frozen=True, slots=True)
class ShapeMember:
    """A member of an object, and the column that it becomes."""

    name: str
    column: str
    shape: Shape
    is_required: bool


def shape_of(schema: Mapping[str, Any], taken: Iterable[str]) -> Shape:
    """Return the shape of a topic's events.

    ``taken``: columns of ours. A member of the event that has such a name gets the prefix ``payload_``.
    """
    shape = _shape(schema, schema.get("$defs", {}))
    return Shape("object", _beside(shape.members, taken), is_closed=shape.is_closed)


def comparable(value: Any) -> str:
    """Return a text that is equal for equal values of JSON: 1.0 is 1."""
    return json.dumps(_plain(value), sort_keys=True)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _shape(node: Any, definitions: Mapping[str, Any]) -> Shape:
    if node is True:
        return Shape("json")
    if "$ref" in node:
        found = definitions[node["$ref"].removeprefix(_DEFINITION)]
        node = {**found, **{word: value for word, value in node.items() if word != "$ref"}}
    allowed = frozenset(comparable(value) for value in node.get("enum", ()))
    match _types(node):
        case ["object"] if node.get("properties"):
            needed = set(node.get("required", ()))
            members = tuple(
                ShapeMember(name, name, _shape(part, definitions), is_required=name in needed)
                for name, part in node["properties"].items()
            )
            return Shape("object", members, allowed=allowed, is_closed=node.get("additionalProperties") is False)
        case ["array"] if "items" in node:
            return Shape("array", item=_shape(node["items"], definitions), allowed=allowed)
        case ["string"]:
            return Shape(_OF_TEXT.get(str(node.get("format")), "text"), allowed=allowed)
        case [one] if one in _KINDS:
            return Shape(_KINDS[one], allowed=allowed)
    return Shape("json", allowed=allowed)


def _types(node: Mapping[str, Any]) -> list[str]:
    """Return the types of a part other than null. A list of texts alone is of texts."""
    named = node.get("type", [])
    types = [one for one in ([named] if isinstance(named, str) else named) if one != "null"]
    listed = [value for value in node.get("enum", ()) if value is not None]
    if not types and listed and all(isinstance(value, str) for value in listed):
        return ["string"]
    return ["number"] if set(types) == {"integer", "number"} else types


def _beside(members: tuple[ShapeMember, ...], taken: Iterable[str]) -> tuple[ShapeMember, ...]:
    """Return the members with columns that differ from those of ours, also for readers that ignore case."""
    ours = {name.lower() for name in taken}
    used = ours | {member.name.lower() for member in members}
    made = []
    for member in members:
        column = member.name
        while column.lower() in ours or (column != member.name and column.lower() in used):
            column = _PREFIX + column
        used.add(column.lower())
        made.append(ShapeMember(member.name, column, member.shape, is_required=member.is_required))
    return tuple(made)
