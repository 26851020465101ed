"""What is wrong with a record is said before it reaches a transaction."""

import json
from typing import Any

import asyncpg
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
        {"headers": {"x-a": "a" * 16_384}},
        {"headers": {f"x-{n}": "" for n in range(65)}},
        {"headers": {"hookwire-link": "x"}},
        {"headers": {"hookwire-ttl": "0"}},
        {"headers": {"hookwire-retry": "always"}},
        {"headers": {"authorization": "x"}},
        {"headers": {"x-forwarded-for": "x"}},
    ],
    ids=lambda wrong: str(wrong)[:60],
)
def test_what_no_hub_would_take_is_refused(wrong: dict[str, Any]) -> None:
    """FS-03, FS-13: as ``hookwire.publish`` refuses it."""
    with pytest.raises(ValueError, match=r"."):
        Record(**{"topic": "t", **wrong})


def test_a_payload_without_a_form_in_json_is_refused() -> None:
    with pytest.raises(TypeError):
        Record("t", object())


@pytest.mark.parametrize("character", ["a", "\u00e9", '"', "\\"], ids=ascii)
async def test_headers_at_the_limit_are_taken_by_record_and_database_alike(database_url: str, character: str) -> None:
    """FS-03: a record that the database refuses would abort its transaction."""
    longest = next(n for n in range(16_384, 0, -1) if _is_taken({"x-a": character * n}))
    connection = await asyncpg.connect(database_url)
    call = "SELECT hookwire.publish('t', ''::bytea, headers => $1::jsonb)"
    await connection.execute(call, Record("t", headers={"x-a": character * longest}).arguments()[4])
    with pytest.raises(asyncpg.InvalidParameterValueError, match="at most 16384"):
        await connection.execute(call, json.dumps({"x-a": character * (longest + 1)}))
    await connection.close()


def _is_taken(headers: dict[str, str]) -> bool:
    try:
        Record("t", headers=headers)
    except ValueError:
        return False
    return True
