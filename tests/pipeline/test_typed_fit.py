"""Which payloads fit a topic's schema, and which columns they become; it needs no Spark (GP-13)."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest

from pipeline.typed.fit import PATH, REASON, REASONS, Misfit, fit_batches, fitted
from pipeline.typed.shape import shape_of

ORDER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "order": {"type": "integer"},
        "price": {"type": ["number", "null"]},
        "paid": {"type": "boolean"},
        "placed_at": {"type": "string", "format": "date-time"},
        "due": {"type": "string", "format": "date"},
        "state": {"enum": ["new", "sent"]},
        "address": {"$ref": "#/$defs/address"},
        "lines": {"type": "array", "items": {"type": "object", "properties": {"sku": {"type": "string"}}}},
        "rest": True,
        "key": {"type": "string"},
    },
    "required": ["order"],
    "$defs": {
        "address": {
            "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
            "additionalProperties": False,
        },
    },
}  # fmt: skip
TAKEN = ("event_id", "key", "dt")
SHAPE = shape_of(ORDER, TAKEN)


def of(**members: Any) -> bytes:
    return json.dumps({"order": 1, **members}).encode()


def test_each_member_becomes_a_value_of_its_column() -> None:
    payload = of(
        price=2, paid=True, placed_at="2026-01-15T10:00:00.1234567+01:00", due="2026-02-28", state="new",
        address={"city": "Köln"}, lines=[{"sku": "a", "unknown": 1}, None], rest={"b": [1, "ö"]}, key="k", unknown=1,
    )  # fmt: skip
    assert fitted(SHAPE, payload) == {
        "order": 1, "price": 2.0, "paid": True, "placed_at": datetime(2026, 1, 15, 9, 0, 0, 123456, UTC),
        "due": date(2026, 2, 28), "state": "new", "address": {"city": "Köln"}, "lines": [{"sku": "a"}, None],
        "rest": '{"b":[1,"ö"]}', "payload_key": "k",
    }  # fmt: skip


def test_what_is_missing_or_null_is_null() -> None:
    values = fitted(SHAPE, of(price=None, lines=None))
    assert values == dict.fromkeys(values) | {"order": 1}


@pytest.mark.parametrize(
    ("members", "misfit"),
    [
        ({"order": "1"}, ("type", "$.order")),
        ({"order": True}, ("type", "$.order")),
        ({"order": 1.5}, ("type", "$.order")),
        ({"order": None}, ("required", "$.order")),
        ({"order": 2**63}, ("range", "$.order")),
        ({"order": 1e300}, ("range", "$.order")),
        ({"price": "1"}, ("type", "$.price")),
        ({"price": 10**400}, ("range", "$.price")),
        ({"paid": 1}, ("type", "$.paid")),
        ({"placed_at": 1}, ("type", "$.placed_at")),
        ({"placed_at": "2026-01-15"}, ("format", "$.placed_at")),
        ({"placed_at": "2026-01-15T10:00:00"}, ("format", "$.placed_at")),
        ({"placed_at": "2026-02-30T10:00:00Z"}, ("format", "$.placed_at")),
        ({"placed_at": "9999-12-31T23:59:59Z"}, ("format", "$.placed_at")),
        ({"placed_at": "0001-01-01T00:00:00+14:00"}, ("format", "$.placed_at")),
        ({"placed_at": "0001-01-01T23:00:00Z"}, ("format", "$.placed_at")),
        ({"due": "20260228"}, ("format", "$.due")),
        ({"due": "2026-02-30"}, ("format", "$.due")),
        ({"state": "lost"}, ("enum", "$.state")),
        ({"address": {}}, ("required", "$.address.city")),
        ({"address": {"city": "a", "name": "Ada"}}, ("additional", "$.address")),
        ({"address": []}, ("type", "$.address")),
        ({"lines": {}}, ("type", "$.lines")),
        ({"lines": [{"sku": 1}]}, ("type", "$.lines[].sku")),
        ({"key": "\ud800"}, ("text", "$.key")),
        ({"rest": ["\ud800"]}, ("text", "$.rest")),
    ],
    ids=str,
)
def test_what_does_not_fit_is_named_by_reason_and_path(members: dict[str, Any], misfit: tuple[str, str]) -> None:
    with pytest.raises(Misfit) as refused:
        fitted(SHAPE, of(**members))
    assert (refused.value.reason, refused.value.path) == misfit


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (None, "not_json"), (b"", "not_json"), (b"{", "not_json"), (b'{"order": NaN}', "not_json"),
        (b'{"order": 1e999}', "range"), (b"\xff", "not_json"), ('{"order": 1}'.encode("utf-16"), "not_json"),
        (b'{"order": ' + b"9" * 5000 + b"}", "range"), (b'{"order": 1, "rest": ' + b"[" * 100_000, "depth"),
        (b'{"order": 1, "rest": 1e999}', "range"), (b'{"order": 1, "rest": ' + b"9" * 5000 + b"}", "range"),
        (b'{"order": 1, "order": 2}', "twice"), (b'{"order": 1, "rest": {"a": 1, "a": 1}}', "twice"),
        (b"[1]", "type"), (b"5", "type"), (b"null", "type"),
    ],
    ids=lambda value: str(value)[:24],
)  # fmt: skip
def test_what_is_no_object_of_json_does_not_fit(payload: bytes | None, reason: str) -> None:
    with pytest.raises(Misfit) as refused:
        fitted(SHAPE, payload)
    assert refused.value.reason == reason


def test_a_whole_number_may_be_written_with_a_point() -> None:
    """As in JSON Schema; with all its digits."""
    written = ["1.0", "1e2", "9007199254740993.0", "9007199254740993e0", "-9223372036854775808.0", "0e-99"]
    assert [fitted(SHAPE, b'{"order": %s}' % text.encode())["order"] for text in written] == [
        1, 100, 9007199254740993, 9007199254740993, -9223372036854775808, 0,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "reason"),
    [("9223372036854775808.0", "range"), ("9007199254740993.5", "type"), ("1e-99999999999999999999", "type")],
)
def test_a_number_that_is_whole_only_to_a_float_does_not_fit(text: str, reason: str) -> None:
    with pytest.raises(Misfit) as refused:
        fitted(SHAPE, b'{"order": %s}' % text.encode())
    assert refused.value.reason == reason


def test_a_number_of_json_text_keeps_its_digits() -> None:
    payload = b'{"order": 1, "rest": {"a": [1.10, 12345678901234567890.12, 1E5, -0.0, true, null], "b": %s}}' % (
        b"9" * 99
    )
    assert fitted(SHAPE, payload)["rest"] == (
        '{"a":[1.10,12345678901234567890.12,1E5,-0.0,true,null],"b":' + "9" * 99 + "}"
    )


def test_a_member_that_no_column_reads_may_have_any_digits() -> None:
    assert fitted(SHAPE, b'{"order": 1, "unknown": %s}' % (b"9" * 5000))["order"] == 1


@pytest.mark.parametrize(
    ("enum", "value", "fits"),
    [
        ([1], "1.0", True), ([1.0], "1", True), ([1], "1.5", False), ([1], "true", False), ([True], "1", False),
        ([{"a": [1.0]}], '{"a": [1]}', True), ([{"a": 1, "b": 2}], '{"b": 2, "a": 1.0}', True), ([1], '"1"', False),
    ],
)  # fmt: skip
def test_a_listed_value_is_compared_as_a_value(enum: list[Any], value: str, fits: bool) -> None:
    """As in JSON Schema, in which 1.0 is 1."""
    shape = shape_of({"type": "object", "properties": {"a": {"enum": enum}}}, TAKEN)
    try:
        found = fitted(shape, b'{"a": %s}' % value.encode())["a"]
    except Misfit as misfit:
        found = misfit.reason
    assert (found != "enum") is fits


def test_a_list_of_texts_and_null_is_of_texts() -> None:
    shape = shape_of({"type": "object", "properties": {"a": {"enum": ["new", None]}}}, TAKEN)
    assert [fitted(shape, payload)["a"] for payload in (b'{"a": "new"}', b'{"a": null}')] == ["new", None]


def test_each_reason_is_explained() -> None:
    found = set()
    for payload in (
        b"", b"[]", b"{}", of(due="x"), of(order=2**63), of(state="x"), of(address={"city": "a", "b": 1}),
        of(key="\ud800"), b'{"order": 1, "order": 1}', b'{"order": ' + b"[" * 100_000,
    ):  # fmt: skip
        with pytest.raises(Misfit) as refused:
            fitted(SHAPE, payload)
        found.add(refused.value.reason)
    assert found == set(REASONS)


def test_a_column_never_has_the_name_of_one_of_ours() -> None:
    """Readers ignore case, so KEY is key."""
    members = dict.fromkeys(("KEY", "payload_key", "dt", "city"), True)
    shape = shape_of({"type": "object", "properties": members}, TAKEN)
    assert [member.column for member in shape.members] == ["payload_payload_KEY", "payload_key", "payload_dt", "city"]


def test_a_batch_keeps_its_columns_and_its_order() -> None:
    payloads = [of(paid=True), b"no json", of(order="x")]
    batch = pa.RecordBatch.from_pydict({"event_id": ["a", "b", "c"], "value": payloads})
    schema = pa.schema(
        [("event_id", pa.string()), ("order", pa.int64()), ("paid", pa.bool_()), (REASON, pa.string()),
         (PATH, pa.string())]
    )  # fmt: skip
    [made] = fit_batches([batch], SHAPE, schema)
    assert made.to_pylist() == [
        {"event_id": "a", "order": 1, "paid": True, REASON: None, PATH: None},
        {"event_id": "b", "order": None, "paid": None, REASON: "not_json", PATH: "$"},
        {"event_id": "c", "order": None, "paid": None, REASON: "type", PATH: "$.order"},
    ]
