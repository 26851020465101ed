"""Which JSON Schemas give columns to the lake (GP-13)."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from event.topic_schema import TopicSchemaError, columns_text, ignored_keywords


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def nested(levels: int) -> dict[str, Any]:
    return of(a=nested(levels - 1)) if levels else of()


def test_a_schema_of_all_that_gives_columns_has_no_remark() -> None:
    schema = of(
        order={"type": "integer"}, price={"type": ["number", "null"]}, at={"type": "string", "format": "date-time"},
        state={"enum": ["new", "sent"]}, address={"$ref": "#/$defs/address"}, lines={"type": "array", "items": of()},
        rest=True,
    )  # fmt: skip
    schema |= {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "An order", "required": ["order"],
               "additionalProperties": False, "$defs": {"address": of(city={"type": "string"})}}  # fmt: skip
    assert ignored_keywords(schema) == []


def test_a_keyword_that_gives_no_column_is_named_with_its_place() -> None:
    schema = of(name={"type": "string", "minLength": 1, "format": "email"}, at={"format": []}) | {"allOf": []}
    assert ignored_keywords(schema) == [
        "#/allOf", "#/properties/name/minLength", "#/properties/name/format", "#/properties/at/format",
    ]  # fmt: skip


def test_at_most_fifty_places_are_named() -> None:
    assert len(ignored_keywords(of(a=True) | {f"x-{number}": 1 for number in range(60)})) == 50


def test_places_are_not_kept_beyond_fifty() -> None:
    """A schema of 60 KB has a million places if a definition with many unknown keywords is named often."""
    definition = {"type": "object"} | {f"x{number}": 0 for number in range(1_000)}
    schema = of(**{f"a{number}": {"$ref": "#/$defs/a"} for number in range(190)}) | {"$defs": {"a": definition}}
    tracemalloc.start()
    assert len(ignored_keywords(schema)) == 50
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4_000_000


def test_a_keyword_without_effect_at_its_place_is_named() -> None:
    """What becomes JSON text has no members, and only a text has a format."""
    schema = of(
        a={"properties": {"b": True}, "required": ["b"]}, c={"type": ["object", "array"], "items": True},
        d={"type": "integer", "format": "date"}, e={"type": "object", "additionalProperties": False},
    ) | {"enum": [{}]}  # fmt: skip
    assert ignored_keywords(schema) == [
        "#/enum", "#/properties/a/properties", "#/properties/a/required", "#/properties/c/items",
        "#/properties/d/format", "#/properties/e/additionalProperties",
    ]  # fmt: skip


def test_schemas_that_give_the_same_columns_have_one_text() -> None:
    schema = of(a={"type": "string"}, b=True)
    titled = {"title": "x", "properties": {"a": {"minLength": 1, "type": "string"}, "b": True}, "type": "object"}
    others = [of(b=True, a={"type": "string"}), of(a={"type": "number"}, b=True), schema | {"required": ["a"]}]
    assert [columns_text(one) == columns_text(schema) for one in (titled, *others)] == [True, False, False, False]


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({}, '#/type: it is "object"'),
        ({"type": "array"}, '#/type: it is "object"'),
        ({"type": ["object", "array"], "properties": {"a": True}}, '#/type: it is "object"'),
        (of(), "#/properties: there is none"),
        (of(a={"type": "int"}), "#/properties/a/type: it is one or several of"),
        (of(a={"type": [["string"]]}), "#/properties/a/type: it is one or several of"),
        (of(a={"type": 5}), "#/properties/a/type: it is one or several of"),
        (of(a=5), "#/properties/a: a schema is an object, or true"),
        (of(a=False), "#/properties/a: a schema is an object, or true"),
        (of(a={"type": "array", "items": [{}]}), "#/properties/a/items: a schema is an object"),
        (of(a={"enum": []}), "#/properties/a/enum"),
        ({"type": "object", "properties": []}, "#/properties: it is an object"),
        (of() | {"required": "a"}, "#/required: it is a list of names"),
        (of() | {"required": ["a"]}, "#/required: 'a' is not among the properties"),
        (of(a={"$ref": "https://else.example/a"}), "#/properties/a/$ref: it names a definition"),
        (of(a={"$ref": "#/$defs/a"}), "#/properties/a/$ref: it names a definition"),
        (of(a={"$ref": "#/$defs/b"}) | {"$defs": {"a": {}}}, "#/properties/a/$ref: there is no such definition"),
        (of(a={"$ref": "#/$defs/a"}) | {"$defs": {"a": of(a={"$ref": "#/$defs/a"})}}, "a reference to itself"),
        (of(**{"a.b": True}), "#/properties: 'a.b' cannot be the name of a column"),
        (of(**{"": True}), "cannot be the name of a column"),
        (of(**{"a" * 129: True}), "cannot be the name of a column"),
        (of(Id=True, id=True), "#/properties: 'id' differs from another one by case only"),
        (nested(9), "deeper than 8 levels"),
        (of(**{f"a{number}": True for number in range(201)}), "more than 200 in all"),
        (of() | {"description": "x" * 65_536}, "more than 65,536 bytes"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, str) else "",
)
def test_what_gives_no_columns_is_refused_with_its_place(schema: dict[str, Any], said: str) -> None:
    with pytest.raises(TopicSchemaError) as refused:
        ignored_keywords(schema)
    assert said in str(refused.value)


def test_a_definition_that_is_named_often_counts_each_time() -> None:
    """So a short text does not become thousands of columns."""
    wide = of(**{f"a{number}": True for number in range(50)})
    schema = of(**{f"b{number}": {"$ref": "#/$defs/wide"} for number in range(5)}) | {"$defs": {"wide": wide}}
    with pytest.raises(TopicSchemaError, match="more than 200 in all"):
        ignored_keywords(schema)


def test_the_deepest_schema_that_is_taken_has_eight_levels() -> None:
    assert ignored_keywords(nested(8)) == []
