"""The one strict reader of JSON (PA-02)."""

import json
import math
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from event.strict_json import DEPTH_MAX, Member, StrictJsonError, loads, loads_array_members, loads_members

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda children: st.lists(children, max_size=4) | st.dictionaries(TEXTS, children, max_size=4),
    max_leaves=20,
)


@settings(deadline=None)
@given(VALUES, st.booleans(), st.sampled_from([None, 2]))
def test_legal_json_reads_as_the_standard_library_reads_it(value: object, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)

    assert loads(text.encode()) == json.loads(text)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        pytest.param(b"[" * 100_000, 400, id="B-30 deep"),
        pytest.param(b'{"a":' * 100_000, 400, id="B-30 deep objects"),
        pytest.param(b"[" * (DEPTH_MAX + 1) + b"]" * (DEPTH_MAX + 1), 400, id="B-30 one too deep"),
        pytest.param(b"[" + b"0," * 100_000 + b"0]", 400, id="too many values"),
        pytest.param(b"1" * 5_000, 400, id="B-31 digits"),
        pytest.param(b"[-" + b"1" * 5_000 + b"]", 400, id="B-31 negative digits"),
        pytest.param(b"NaN", 400, id="B-32 NaN"),
        pytest.param(b'{"a":Infinity}', 400, id="B-32 Infinity"),
        pytest.param(b"[-Infinity]", 400, id="B-32 -Infinity"),
        pytest.param(b'{"a":1,"a":1}', 400, id="B-33 duplicate"),
        pytest.param(b'[{"a":1,"\\u0061":2}]', 400, id="B-33 duplicate under an escape"),
        pytest.param(b'"\\ud800"', 422, id="B-34 surrogate"),
        pytest.param(b'{"\\udfff":1}', 422, id="B-34 surrogate in a key"),
        pytest.param(b'[["\\u0000"]]', 422, id="B-34 U+0000"),
        pytest.param(b'{"a\\u0000":1}', 422, id="B-34 U+0000 in a key"),
        pytest.param(b'"\x00"', 400, id="raw U+0000"),
        pytest.param(b'"\xff"', 400, id="B-35 invalid UTF-8"),
        pytest.param(b'"\xed\xa0\x80"', 400, id="B-35 surrogate in UTF-8"),
        pytest.param('"a"'.encode("utf-16"), 400, id="B-37 UTF-16"),
        pytest.param(b"1e400", 400, id="B-36 overflow"),
        pytest.param(b"[-1e400]", 400, id="B-36 negative overflow"),
        pytest.param(b"", 400, id="empty"),
        pytest.param(b" ", 400, id="blank"),
        pytest.param(b"{}{}", 400, id="two values"),
        pytest.param(b"{'a':1}", 400, id="single quotes"),
        pytest.param(b"[1,]", 400, id="trailing comma"),
        pytest.param(b"\xef\xbb\xbf{}", 400, id="byte order mark"),
        pytest.param(b'["' + b'\\"' * 500_000, 400, id="unfinished string of escaped quotes"),
    ],
)
def test_what_python_would_let_through_is_refused(data: bytes, status: int) -> None:
    with pytest.raises(StrictJsonError) as caught:
        loads(data)

    assert caught.value.status_hint == status


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b'"\\ud83d\\ude00"', "😀"),
        (b'"\\\\u0000"', "\\u0000"),
        (b"[" * DEPTH_MAX + b"]" * DEPTH_MAX, None),
        (b'"' + b"[{," * 200_000 + b'"', "[{," * 200_000),
        (b"1e-400", 0.0),
        (b" [1] \r\n", [1]),
    ],
)
def test_what_only_looks_dangerous_is_read(data: bytes, value: object) -> None:
    assert loads(data) == (value if value is not None else json.loads(data))


def test_a_caller_deep_in_the_stack_gets_an_answer_instead_of_a_recursion_error() -> None:
    """B-30: RecursionError is no ValueError. Since Python 3.12 the parser's own depth does not count as frames."""

    def descend(frames: int) -> object:
        return descend(frames - 1) if frames else loads(b"[" * 60 + b"]" * 60)

    def frames_left() -> int:
        depth, frame = 0, sys._getframe()
        while frame.f_back is not None:
            depth, frame = depth + 1, frame.f_back
        return sys.getrecursionlimit() - depth

    def answer() -> str:
        try:
            return json.dumps(descend(frames_left() - 30))
        except StrictJsonError as error:
            return error.reason

    assert answer() == ("nested too deep" if sys.version_info < (3, 12) else "[" * 60 + "]" * 60)


def test_members_keep_the_exact_text_of_their_values() -> None:
    data = '{ "a" : [1, 2.50] ,\n"ö":"\\u00f6", "n":1e2}'.encode()

    assert loads_members(data) == {
        "a": Member([1, 2.5], "[1, 2.50]"),
        "ö": Member("ö", '"\\u00f6"'),
        "n": Member(100.0, "1e2"),
    }


@settings(deadline=None)
@given(st.lists(st.dictionaries(TEXTS, VALUES, max_size=4), max_size=4), st.sampled_from([None, 2]))
def test_members_agree_with_the_whole_value(elements: list[dict[str, object]], indent: int | None) -> None:
    data = json.dumps(elements, indent=indent).encode()

    batch = loads_array_members(data)

    assert [{name: json.loads(member.source) for name, member in members.items()} for members in batch] == elements


@pytest.mark.parametrize(
    "data",
    [
        b"[]", b"1", b"", b"{", b'{"a"', b'{"a":', b'{"a":1', b'{"a":1,', b'{"a":1,}', b'{"a" 1}', b"{a:1}", b"{1:1}",
        b'{"a":1} x', b'{"a":1,"a":1}', b'{"a":{"b":1,"b":1}}', b'{"a":NaN}',
    ],
)  # fmt: skip
def test_only_a_whole_legal_object_has_members(data: bytes) -> None:
    with pytest.raises(StrictJsonError) as caught:
        loads_members(data)

    assert caught.value.status_hint == 400


@pytest.mark.parametrize("data", [b"{}", b"[", b"[1]", b"[{}", b"[{},", b"[{},]", b"[{} {}]", b"[{}]]", b"[[]]"])
def test_only_a_whole_legal_array_of_objects_is_a_batch(data: bytes) -> None:
    with pytest.raises(StrictJsonError) as caught:
        loads_array_members(data)

    assert caught.value.status_hint == 400


def test_members_hold_no_text_that_cannot_be_stored() -> None:
    """B-34."""
    with pytest.raises(StrictJsonError) as caught:
        loads_members(b'{"a":["\\u0000"]}')

    assert caught.value.status_hint == 422


def test_a_float_never_becomes_infinite() -> None:
    assert math.isfinite(loads(b"1.7976931348623157e308"))  # type: ignore[arg-type]
