"""What a program passes as data, as bytes and content type (FD-05)."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
from cloudevents.core.v1.event import CloudEvent
from pydantic import BaseModel

from hookwire.client.payload import NOTHING, Payload, encode_payload


@dataclasses.dataclass
class Order:
    number: int
    lines: list[Any]


class Total(BaseModel):
    total: float


CLOUDEVENT = CloudEvent({"id": "1", "source": "/s", "type": "t", "specversion": "1.0"}, {"a": 1})


@pytest.mark.parametrize(
    ("data", "content_type", "expected"),
    [
        ({"a": "é"}, None, Payload('{"a":"é"}'.encode(), "application/json")),
        ([1, 2.5, True, None], None, Payload(b"[1,2.5,true,null]", "application/json")),
        ("text", None, Payload(b'"text"', "application/json")),
        (None, None, Payload(b"null", "application/json")),
        ("text", "text/plain", Payload(b"text", "text/plain")),
        ({"a": 1}, "application/vnd.x+json", Payload(b'{"a":1}', "application/vnd.x+json")),
        (b"\x00", None, Payload(b"\x00", "application/octet-stream")),
        (memoryview(b"x"), "image/png", Payload(b"x", "image/png")),
        (NOTHING, None, Payload(b"", None)),
        (Order(1, [Total(total=1.5)]), None, Payload(b'{"number":1,"lines":[{"total":1.5}]}', "application/json")),
        (Total(total=2), None, Payload(b'{"total":2.0}', "application/json")),
    ],
)
def test_data_becomes_bytes_with_a_type(data: Any, content_type: str | None, expected: Payload) -> None:
    assert encode_payload(data, content_type) == expected


def test_a_cloudevent_keeps_its_attributes() -> None:
    payload = encode_payload(CLOUDEVENT, None)

    assert (payload.body, payload.content_type) == (b'{"a":1}', "application/json")
    assert {**payload.attributes, "time": ""} == {
        "id": "1",
        "source": "/s",
        "type": "t",
        "specversion": "1.0",
        "time": "",
    }


@pytest.mark.parametrize("data", [math.nan, math.inf, {1, 2}, object(), {"a": {1}}, "\ud800", {(1, 2): 3}])
def test_what_json_cannot_express_is_refused_before_anything_is_sent(data: Any) -> None:
    with pytest.raises(TypeError):
        encode_payload(data, None)


def test_an_object_is_no_text() -> None:
    with pytest.raises(TypeError, match="data for text/plain is bytes or str, not dict"):
        encode_payload({}, "text/plain")
