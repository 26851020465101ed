"""app/web/api/work/report_route.py: a result that cannot be stored becomes the beginning of its source."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest

from app.web.api.work.report_route import with_text
from event.strict_json import loads

_NOTE = "the result cannot be stored: why; the beginning of its text is kept"


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        (b'{"receipt": "r", "result": [NaN]}', {"note": _NOTE, "receipt": "r", "result": "[NaN]"}),
        (b'{ "result" : {"}": [] } , "receipt":"r"}', {"note": _NOTE, "receipt": "r", "result": '{"}": [] }'}),
        (b'{"note": "n", "result": "a\\u0000"}', {"note": "n", "result": "a\ufffd"}),
        (b'{"result": ["\xff"]}', {"note": _NOTE, "result": '["\ufffd"]'}),
        (b'{"result": "%b"}' % ("\u20ac" * 70_000).encode(), {"note": _NOTE, "result": "\u20ac" * 65_536}),
        (b'{"result": ["%b"]}' % ("\U0001f600" * 70_000).encode(),
         {"note": _NOTE, "result": '["' + "\U0001f600" * 65_534}),
    ],
    ids=["receipt first", "result first", "own note", "no UTF-8", "long text", "long list"],
)  # fmt: skip
def test_only_the_result_becomes_text(body: bytes, kept: dict[str, Any]) -> None:
    """GB-06."""
    assert loads(with_text(body, "why") or b"") == kept


@pytest.mark.parametrize(
    "body",
    [
        b"[]", b"{}", b'{"receipt": "r"}', b'{"result": ', b'{"result": [', b'{"result": "',
        b'{%b"result": [NaN]}' % (b'"a": 1, ' * 200),
    ],
)  # fmt: skip
def test_a_body_without_a_result_stays_refused(body: bytes) -> None:
    assert with_text(body, "why") is None


@pytest.mark.parametrize("element", [b"[]", b"{}", b"[[[[[[[[[]]]]]]]]]", b'{"a":[]}', b'""'])
def test_a_result_of_too_many_values_is_never_built(element: bytes) -> None:
    """Four megabytes of empty lists would be a million objects, made before the receipt is looked at."""
    result = b"[%b]" % b",".join([element] * (4_000_000 // (len(element) + 1)))
    body = b'{"receipt":"r","result":%b}' % result
    tracemalloc.start()
    try:
        kept = with_text(body, "why")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert json.loads(kept or b"")["result"] == result[:65_536].decode()
    assert peak < 10_000_000, f"{peak:,} bytes of memory for a body of {len(body):,}"
