"""Fit: the payload of an event as values of columns, or why it does not fit them.

It runs in the workers' Python, batch by batch. Spark's own reader of JSON takes a number for a text and for a time. It
does not say why a row does not fit.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final, Never

import pyarrow as pa

from pipeline.typed.shape import Kind, Shape, comparable

__all__ = ["PATH", "REASON", "REASONS", "Misfit", "fit_batches", "fitted"]

REASON: Final = "_hookwire_reason"
PATH: Final = "_hookwire_path"

REASONS: Final = {
    "not_json": "the payload is no JSON",
    "depth": "the payload has too many levels",
    "twice": "an object has a member twice",
    "type": "the value has another type, or the payload is no object",
    "required": "a required member is missing, or null",
    "format": "the text is no date, or no time with a zone",
    "range": "the number does not fit into 64 bits",
    "enum": "the value is not among those that the schema lists",
    "additional": "the object has a member that the schema does not name",
    "text": "the text has half of a surrogate pair, which no column holds",
}
"""Why a row is rejected, and the meanings."""

_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_INTEGER_MAX: Final = 2**63 - 1
_DIGITS_MAX: Final = 4_000
"""A longer integer counts as infinite. Python reads none of more than 4,300 digits."""
# Readers in Python cannot hold a time of these days in every zone.
_FIRST: Final = datetime(1, 1, 2, tzinfo=UTC)
_LAST: Final = datetime(9999, 12, 31, tzinfo=UTC)


class Misfit(Exception):
    """A value does not fit. ``path`` has names of the schema only, never a part of the payload."""

    def __init__(self, reason: str, path: str) -> None:
        super().__init__(reason, path)
        self.reason = reason
        self.path = path


class _Decimal(float):
    """A number with a point, an exponent or very many digits, as it was written."""

    __slots__ = ("text",)

    def __new__(cls, text: str) -> _Decimal:
        made = super().__new__(cls, text)
        made.text = text
        return made

    text: str


def fit_batches(batches: Iterable[pa.RecordBatch], shape: Shape, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield for each batch with a column ``value`` the columns of ``schema``, all others as they came.

    A row that does not fit has a reason and a path, and null in the columns of the payload.
    """
    columns = {member.column for member in shape.members}
    for batch in batches:
        judged = [_judged(shape, value) for value in batch.column("value").to_pylist()]
        made: dict[str, list[Any]] = {
            REASON: [reason for _, reason, _ in judged],
            PATH: [path for _, _, path in judged],
        }
        made |= {column: [values.get(column) for values, _, _ in judged] for column in columns}
        arrays = [
            pa.array(made[field.name], field.type) if field.name in made else batch.column(field.name).cast(field.type)
            for field in schema
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _judged(shape: Shape, payload: bytes | None) -> tuple[Mapping[str, Any], str | None, str | None]:
    try:
        return fitted(shape, payload), None, None
    except Misfit as misfit:
        return {}, misfit.reason, misfit.path


def fitted(shape: Shape, payload: bytes | None) -> dict[str, Any]:
    """Return the values of the columns. A member that is null counts as missing. Raises :class:`Misfit`."""
    try:
        value = json.loads(
            (payload or b"").decode(), object_pairs_hook=_members, parse_constant=_refuse, parse_float=_Decimal,
            parse_int=_whole,
        )  # fmt: skip
        return _object(shape, value, "$")
    except ValueError:
        raise Misfit("not_json", "$") from None
    except RecursionError:
        raise Misfit("depth", "$") from None


def _refuse(name: str) -> Never:
    raise ValueError(name)


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise Misfit("twice", "$")
    return made


def _whole(text: str) -> int | _Decimal:
    return int(text) if len(text) <= _DIGITS_MAX else _Decimal(text)


def _value(shape: Shape, value: Any, path: str) -> Any:
    if value is None:
        return None
    if shape.allowed and comparable(value) not in shape.allowed:
        raise Misfit("enum", path)
    return _BY_KIND[shape.kind](shape, value, path)


def _object(shape: Shape, value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Misfit("type", path)
    if shape.is_closed and value.keys() - {member.name for member in shape.members}:
        raise Misfit("additional", path)
    made = {}
    for member in shape.members:
        found = value.get(member.name)
        if found is None and member.is_required:
            raise Misfit("required", f"{path}.{member.name}")
        made[member.column] = _value(member.shape, found, f"{path}.{member.name}")
    return made


def _array(shape: Shape, value: Any, path: str) -> Sequence[Any]:
    if not isinstance(value, list):
        raise Misfit("type", path)
    assert shape.item is not None, "an array has items"
    return [_value(shape.item, each, f"{path}[]") for each in value]


def _text(shape: Shape, value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise Misfit("type", path)
    return _encodable(value, path)


def _encodable(text: str, path: str) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise Misfit("text", path) from None
    return text


def _json(shape: Shape, value: Any, path: str) -> str:
    return _encodable(_written(value, path), path)


def _written(value: Any, path: str) -> str:
    """Return a value as JSON text, with the digits of its numbers. Readers take no number that is infinite to them."""
    if isinstance(value, dict):
        members = (f"{_quoted(name)}:{_written(each, path)}" for name, each in value.items())
        return f"{{{','.join(members)}}}"
    if isinstance(value, list):
        return f"[{','.join(_written(each, path) for each in value)}]"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        _finite(value, path)
        return value.text if isinstance(value, _Decimal) else str(value)
    return _quoted(value)


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _integer(shape: Shape, value: Any, path: str) -> int:
    """Return a whole number: 1.0 is one, as in JSON Schema."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Misfit("type", path)
    if not -2 * _INTEGER_MAX < value < 2 * _INTEGER_MAX:
        raise Misfit("range", path)
    whole = _exact(value, path) if isinstance(value, _Decimal) else int(value)
    if not -_INTEGER_MAX - 1 <= whole <= _INTEGER_MAX:
        raise Misfit("range", path)
    return whole


def _exact(value: _Decimal, path: str) -> int:
    """Return a whole number with all its digits, of which a float has not more than sixteen."""
    try:
        number = Decimal(value.text)
    except InvalidOperation:  # it has an exponent of more than eighteen digits
        raise Misfit("type", path) from None
    if number != number.to_integral_value():
        raise Misfit("type", path)
    return int(number)


def _number(shape: Shape, value: Any, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Misfit("type", path)
    return _finite(value, path)


def _finite(value: float, path: str) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if math.isinf(number):
        raise Misfit("range", path)
    return number


def _boolean(shape: Shape, value: Any, path: str) -> bool:
    if not isinstance(value, bool):
        raise Misfit("type", path)
    return value


def _moment(shape: Shape, value: Any, path: str) -> datetime:
    """Return a time of RFC 3339, in UTC; more than six digits of a second are cut."""
    text = _text(shape, value, path)
    try:
        moment = datetime.fromisoformat(text.upper()).astimezone(UTC) if _MOMENT.fullmatch(text) else None
    except (OverflowError, ValueError):
        moment = None
    if moment is None or not _FIRST <= moment < _LAST:
        raise Misfit("format", path)
    return moment


def _date(shape: Shape, value: Any, path: str) -> date:
    text = _text(shape, value, path)
    try:
        day = date.fromisoformat(text) if _DATE.fullmatch(text) else None
    except ValueError:
        day = None
    if day is None:
        raise Misfit("format", path)
    return day


_BY_KIND: Final[Mapping[Kind, Callable[[Shape, Any, str], Any]]] = {
    "array": _array, "boolean": _boolean, "date": _date, "integer": _integer, "json": _json, "moment": _moment,
    "number": _number, "object": _object, "text": _text,
}  # fmt: skip
