"""Filters: choose events of a subscription's topics, in a small JSON language (WH-A05).

::

    {"data": {"amount": {"$gte": 100}, "currency": {"$in": ["EUR", "CHF"]}}, "key": {"$startsWith": "customer-"}}

A filter names fields and a condition for each; all conditions must hold. A plain value means equal. ``$eq $ne $gt $gte
$lt $lte $in $nin $startsWith $exists`` compare, ``$and $or $not`` combine. It is translated, once, into an SQL/JSON
path predicate that PostgreSQL evaluates in the fan-out. This evaluator is written in C, has no regular expressions and
no loops, and never raises (RR-10). A text and a number, or a missing field, cannot be compared: they are neither equal
nor less nor greater. ``$not`` and ``$ne`` are then true. Where a field is a list, one matching element is enough.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["FIELDS", "FilterError", "compile_filter"]

FIELDS: Final = ("topic", "key", "time", "content_type", "headers", "data")
_COMPARISONS: Final = {"$eq": "==", "$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
_CONDITIONS_MAX = 64
_DEPTH_MAX = 16
_TEXT_MAX = 1_000


class FilterError(ValueError):
    """The filter is invalid; the text says where and why, and may be shown to the caller."""


def compile_filter(given: Mapping[str, Any]) -> str | None:
    """Return the filter as an SQL/JSON path predicate; None for the empty filter, which matches everything.

    Raises :class:`FilterError`.
    """
    if not given:
        return None
    for name in given:
        if name not in FIELDS and not name.startswith("$"):
            raise FilterError(f"{name[:40]} is no part of an event; a filter is about {', '.join(FIELDS)}")
    return _Compiler().fields(given, "$", 1)


class _Compiler:
    def __init__(self) -> None:
        self._conditions = 0

    def fields(self, given: Mapping[str, Any], path: str, depth: int) -> str:
        if depth > _DEPTH_MAX:
            raise FilterError(f"a filter is at most {_DEPTH_MAX} levels deep")
        if not given:
            raise FilterError(f"{path} has an empty condition")
        return " && ".join(f"({self._entry(name, value, path, depth)})" for name, value in given.items())

    def _entry(self, name: str, value: Any, path: str, depth: int) -> str:
        if name in ("$and", "$or"):
            return self._several(name, value, path, depth)
        if name == "$not":
            # A filter inside a path turns "unknown" into "no", so that "not" turns it into "yes".
            return f"!exists($ ? ({self._value(value, path, depth)}))"
        if name.startswith("$"):
            return self._operator(name, value, path)
        return self._value(value, f"{path}.{_quoted(name)}", depth)

    def _several(self, name: str, value: Any, path: str, depth: int) -> str:
        if not isinstance(value, list) or not value or not all(isinstance(one, dict) for one in value):
            raise FilterError(f"{name} takes a list of conditions")
        word = " && " if name == "$and" else " || "
        return word.join(f"({self.fields(one, path, depth + 1)})" for one in value)

    def _value(self, value: Any, path: str, depth: int) -> str:
        if isinstance(value, dict):
            return self.fields(value, path, depth + 1)
        return self._operator("$eq", value, path)

    def _operator(self, name: str, value: Any, path: str) -> str:
        self._count()
        if name in _COMPARISONS:
            if name != "$eq" and (isinstance(value, bool) or value is None):
                raise FilterError(f"{name} compares numbers or texts")
            return f"{path} {_COMPARISONS[name]} {_literal(value)}"
        if name == "$ne":
            return f"!exists($ ? ({path} == {_literal(value)}))"
        if name in ("$in", "$nin"):
            return self._one_of(name, value, path)
        if name == "$startsWith":
            if not isinstance(value, str):
                raise FilterError("$startsWith takes a text")
            return f"{path} starts with {_literal(value)}"
        if name == "$exists":
            if not isinstance(value, bool):
                raise FilterError("$exists takes true or false")
            return f"{'' if value else '!'}exists({path})"
        known = ", ".join((*_COMPARISONS, "$ne", "$in", "$nin", "$startsWith", "$exists", "$and", "$or", "$not"))
        raise FilterError(f"{name[:40]} is no operator; there are {known}")

    def _one_of(self, name: str, value: Any, path: str) -> str:
        if not isinstance(value, list) or not value:
            raise FilterError(f"{name} takes a list of values")
        for _ in value[1:]:
            self._count()
        found = " || ".join(f"{path} == {_literal(one)}" for one in value)
        return found if name == "$in" else f"!exists($ ? ({found}))"

    def _count(self) -> None:
        self._conditions += 1
        if self._conditions > _CONDITIONS_MAX:
            raise FilterError(f"a filter has at most {_CONDITIONS_MAX} conditions")


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return _quoted(value)
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int | float):
        try:
            finite = math.isfinite(float(value))
        except OverflowError:
            finite = False
        if finite:
            return json.dumps(value)
    raise FilterError("values are texts, finite numbers, true, false and null")


def _quoted(text: str) -> str:
    if len(text) > _TEXT_MAX or "\x00" in text:
        raise FilterError(f"names and texts have at most {_TEXT_MAX} characters, and no NUL")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise FilterError("names and texts are valid Unicode") from None
    return json.dumps(text, ensure_ascii=False)
