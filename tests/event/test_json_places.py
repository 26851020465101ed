"""event/json_places.py: where the members of an object are, without a value of them."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from event.json_places import member_places

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | _TEXTS,
    lambda children: st.lists(children, max_size=4) | st.dictionaries(_TEXTS, children, max_size=4),
    max_leaves=20,
)


@settings(deadline=None)
@given(st.dictionaries(_TEXTS, _VALUES, max_size=5), st.booleans(), st.sampled_from([None, 2]))
def test_the_source_of_each_member_is_its_value(value: dict[str, object], ascii_only: bool, indent: int | None) -> None:
    data = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode()

    found = {name: repr(json.loads(data[start:end])) for name, start, end in member_places(data)}
    assert found == {name: repr(one) for name, one in value.items()}


@pytest.mark.parametrize("members", [1, 40_000])
@pytest.mark.parametrize(
    "element", [b"[]", b'"]"', b'{"a}": ["\\"]"]}', b"[" * 200 + b"]" * 200, b'"' + b"x" * 200 + b'"', b"1"]
)
def test_a_value_of_many_windows_ends_with_its_own_bracket(element: bytes, members: int) -> None:
    count = min(members, 4_000_000 // len(element))
    value = b"[%b]" % b",".join([element] * count)
    data = b'{"a": %b, "b": [2]}' % value

    assert [(name, data[start:end]) for name, start, end in member_places(data)] == [("a", value), ("b", b"[2]")]


@pytest.mark.parametrize(
    "data",
    [
        b"", b"[]", b"{", b'{"a', b'{"a"', b'{"a":', b'{"a":}', b'{"a":[', b'{"a":["]}', b'{"a":1 "b":2}', b"{1:2}",
        b'{"a":1', b'{"a":[}', b'{"a":"',
    ],
)  # fmt: skip
def test_what_is_no_object_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"expecting|not closed"):
        [*member_places(data)]


def test_no_value_is_built() -> None:
    data = b'{"a":[%b[]]}' % (b"[]," * 1_300_000)
    tracemalloc.start()
    try:
        [*member_places(data)]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 5_000_000, f"{peak:,} bytes of memory for the places of a body of {len(data):,}"
