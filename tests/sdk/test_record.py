"""What is wrong with a record is said before it reaches a transaction."""

from typing import Any

import pytest

from hookwire import Record


@pytest.mark.parametrize(
    ("payload", "content_type", "encoded"),
    [
        (b"\x00\xff", None, (b"\x00\xff", None)),
        (bytearray(b"x"), "a/b", (b"x", "a/b")),
        ("gr\u00fc\u00dfe", None, ("gr\u00fc\u00dfe".encode(), "text/plain; charset=utf-8")),
        ({"a": [1, None]}, None, (b'{"a":[1,null]}', "application/json")),
        ([], "application/vnd.x+json", (b"[]", "application/vnd.x+json")),
        (None, None, (b"null", "application/json")),
    ],
)
def test_a_payload_has_its_bytes_and_its_type(payload: Any, content_type: str | None, encoded: object) -> None:
    assert Record("t", payload, content_type=content_type).encoded() == encoded


@pytest.mark.parametrize(
    "wrong",
    [
        {"topic": ""},
        {"topic": "a..b"},
        {"topic": "a b"},
        {"topic": "a" * 250},
        {"key": ""},
        {"key": "a\nb"},
        {"key": "\u00fc" * 513},
        {"content_type": "a\r\nb"},
        {"headers": {"Upper": "x"}},
        {"headers": {"x": "a\nb"}},
        {"payload": float("nan")},
    ],
    ids=str,
)
def test_what_no_hub_would_take_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        Record(**{"topic": "t", **wrong})


def test_a_payload_without_a_form_in_json_is_refused() -> None:
    with pytest.raises(TypeError):
        Record("t", object())
