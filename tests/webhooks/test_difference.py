"""webhooks/incidents/difference.py: an edit is told by its places, and no value of a content is in it."""

from __future__ import annotations

import json
import tracemalloc
from datetime import UTC, datetime

import pytest

from egress.guard import GuardPolicy
from egress.url import parse_target
from event.event import Event
from webhooks.incidents.difference import DIFFERENCE_MAX, difference
from webhooks.incidents.probe import Edit


def event(payload: bytes, **headers: str) -> Event:
    return Event(7, "abcd2345", "a", None, "application/json", headers, payload, datetime.now(UTC), None)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            b'{"a": {"b": 1}, "c": 2}', b'{"a": {"b": 3}, "d": 2}',
            "content of 23 B sent as 23 B: ~$.a.b, -$.c, +$.d",
        ),
        (b"[1]", b"[2]", "content of 3 B sent as 3 B: ~$"),
        (b'{"a":1}', b'{ "a": 1 }', "content of 7 B sent as 10 B: the same values"),
        (b"secret one", b"secret two", "content of 10 B sent as 10 B, from byte 7 on"),
        (b"secret", b"secret more", "content of 6 B sent as 11 B, from byte 6 on"),
        (b'{"a\\u0000": 1}', b"{}", "content of 14 B sent as 2 B: -$.a"),
        (
            b'{"ann@a.example": {"4711": 1}, "\\u00fc": 1}', b'{"ann@a.example": {}}',
            "content of 43 B sent as 21 B: -$.ADDRESS.N, -$.\\xfc",
        ),
        (b"[" * 100_000, b"{}", "content of 100000 B sent as 2 B, from byte 0 on"),
    ],
    ids=["members", "list", "spaces", "text", "longer", "control character", "personal names", "deep"],
)  # fmt: skip
def test_a_content_is_told_by_its_places(old: bytes, new: bytes, told: str) -> None:
    """CN-04: the audit outlives an erasure."""
    assert difference(event(old), Edit(new), None) == told


def test_headers_and_the_address_are_named_without_values_and_the_line_is_bounded() -> None:
    """CN-04."""
    target = parse_target("http://a.example/x?token=secret", GuardPolicy(allow_high_ports=True))
    edit = Edit(None, {"x-a": "secret", "x-b": "secret"}, target)
    many = Edit(b"{%s}" % b",".join(b'"%d": 1' % number for number in range(1000)))

    assert difference(event(b"", **{"x-a": "1"}), edit, "http://a.example/x?token=secret") == (
        "headers ~x-a, +x-b; sent to http://a.example/x"
    )
    assert len(difference(event(b"{}"), many, None)) <= DIFFERENCE_MAX


def test_many_places_below_long_names_are_not_all_named_before_the_cut() -> None:
    """Contents of 150 KB would become 40 MB of places."""
    old: object = {str(number): 1 for number in range(10_000)}
    for _ in range(18):
        old = {"\u4e00" * 40: old}
    made = event(json.dumps(old).encode())
    edit = Edit(made.payload.replace(b": 1,", b": 2,"))
    tracemalloc.start()
    try:
        told = difference(made, edit, None)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(told) == DIFFERENCE_MAX
    assert peak < 20_000_000, f"{peak:,} bytes of memory for one line"
