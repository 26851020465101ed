import hashlib
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from event.topic import (
    TopicError,
    compile_pattern,
    covers,
    key_or_digest,
    matches,
    validate_key,
    validate_pattern,
    validate_topic,
)
from tests.examples import examples

WORDS = st.sampled_from(["a", "b", "ab", "A-1", "_", "hookwire", "hookwirex"])
TOPICS = st.lists(WORDS, min_size=1, max_size=6).map(".".join)
PATTERNS = st.lists(st.one_of(WORDS, st.sampled_from(["*", "#"])), min_size=1, max_size=6).map(".".join)


@pytest.mark.parametrize("name", ["a", "a.b", "A-Z_0.9", "-", "_", "x" * 249])
def test_a_topic_is_dot_separated_words(name: str) -> None:
    assert validate_topic(name) == name


@pytest.mark.parametrize("name", ["", ".", "..", ".a", "a.", "a..b", "a b", "a/b", "ä", "a\n", "a.*", "#", "x" * 250])
def test_anything_else_is_no_topic(name: str) -> None:
    with pytest.raises(TopicError):
        validate_topic(name)


@pytest.mark.parametrize("key", ["k", " ", "ключ", "e\u0301", "k" * 1024, "é" * 512, "\u2028"])
def test_a_key_is_any_text_and_stays_as_it_is(key: str) -> None:
    """PA-05, B-38."""
    assert validate_key(key) == key


@pytest.mark.parametrize("key", ["", "a\x00b", "\n", "\x7f", "\x85", "\ud800", "k" * 1025, "é" * 513])
def test_a_key_has_bounds_and_no_control_characters(key: str) -> None:
    """PA-05, B-38."""
    with pytest.raises(TopicError):
        validate_key(key)


def test_what_is_no_key_is_ordered_by_its_hash() -> None:
    given = ["k", "", "k" * 1_025, "a\nb", "\ud800"]
    hashes = [hashlib.sha256(one.encode(errors="surrogatepass")).hexdigest() for one in given]
    assert [key_or_digest(one) for one in given] == ["k", *(f"sha256-{one}" for one in hashes[1:])]


@pytest.mark.parametrize(
    ("pattern", "canonical"),
    [
        ("a.b", "a.b"),
        ("a.*", "a.*"),
        ("#.#", "#"),
        ("#.*.#.*", "*.*.#"),
        ("a.#.#.b.*.#", "a.#.b.*.#"),
        ("*.*.*.*.*.*.*.*", "*.*.*.*.*.*.*.*"),
    ],
)
def test_a_pattern_has_one_canonical_form(pattern: str, canonical: str) -> None:
    assert validate_pattern(pattern) == canonical


@pytest.mark.parametrize(
    "pattern",
    ["", ".", "a..#", "a*", "a.b#", "**", "a b", ".#", "#.", "#.a.#.a.#.a.#", "*.*.*.*.*.*.*.*.#", "x." * 124 + "yy"],
)
def test_a_pattern_is_bounded_in_form_length_and_wildcards(pattern: str) -> None:
    """WH-A06: no expressions of strangers."""
    with pytest.raises(TopicError):
        validate_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "chosen", "not_chosen"),
    [
        ("a.#", ["a", "a.b", "a.b.c"], ["b", "ab", "b.a"]),
        ("#.a", ["a", "b.a", "c.b.a"], ["b", "ba", "a.b"]),
        ("a.#.b", ["a.b", "a.x.b", "a.x.y.b", "a.b.b"], ["a", "b", "ab", "a.b.c"]),
        ("#", ["a", "a.b.c"], []),
        ("*", ["a", "b"], ["a.b"]),
        ("a.*", ["a.b", "a.-"], ["a", "a.b.c", "b.a"]),
        ("*.#", ["a", "a.b", "a.b.c"], []),
        ("#.a.#", ["a", "b.a", "a.b", "b.a.b", "a.a"], ["b", "ba.b"]),
        ("#", ["hookwirex", "a.hookwire"], ["hookwire", "hookwire.operator"]),
        ("*.#", ["hookwire-a.b"], ["hookwire", "hookwire.job.done"]),
        ("#.operator", ["a.operator"], ["hookwire.operator"]),
        ("hookwire.#", ["hookwire", "hookwire.operator"], ["hookwirex", "a.hookwire"]),
    ],
)
def test_a_star_is_one_word_and_a_hash_any_number(pattern: str, chosen: list[str], not_chosen: list[str]) -> None:
    topics = chosen + not_chosen

    assert [topic for topic in topics if matches(pattern, topic)] == chosen


@pytest.mark.parametrize("pattern", ["a", "a.b-c"])
def test_an_exact_name_needs_no_expression(pattern: str) -> None:
    assert compile_pattern(pattern) is None


@settings(deadline=None, max_examples=examples(500))
@given(PATTERNS, TOPICS)
def test_the_compiled_pattern_agrees_with_the_reference(pattern: str, topic: str) -> None:
    try:
        expression = compile_pattern(pattern)
    except TopicError:
        return
    by_expression = topic == pattern if expression is None else re.search(expression, topic) is not None

    assert (by_expression, matches(validate_pattern(pattern), topic)) == (matches(pattern, topic),) * 2


def test_the_worst_legal_pattern_ends_on_the_longest_topic() -> None:
    """WH-A06: backtracking is bounded by the number of #: this would not end with eight of them."""
    expression = compile_pattern("#.a.*.#.a.*.#.b")
    topic = ".".join(["a"] * 124) + "b"

    assert expression is not None
    assert (re.search(expression, topic), matches("#.a.*.#.a.*.#.b", topic)) == (None, False)


@pytest.mark.parametrize(
    ("outer", "inner", "expected"),
    [
        ("#", "#", True),
        ("#", "a.*.b", True),
        ("a.#", "a", True),
        ("a.#", "a.#", True),
        ("a.*", "a.*", True),
        ("a.*", "a.b", True),
        ("a.*", "a.#", False),
        ("a.*", "a", False),
        ("a.b", "a.*", False),
        ("*.#", "#", False),
        ("a.#", "ab", False),
        ("#", "hookwire", False),
        ("#", "hookwire.#", False),
        ("*.*", "hookwire.operator", False),
        ("#", "hookwirex.#", True),
        ("hookwire.#", "hookwire.job.*", True),
        ("hookwire.#", "#", False),
    ],
)
def test_covers_tells_whether_a_pattern_is_within_another(outer: str, inner: str, expected: bool) -> None:
    """AB-04."""
    assert covers(outer, inner) is expected


@given(PATTERNS, PATTERNS, TOPICS)
def test_what_is_covered_is_never_outside(outer: str, inner: str, topic: str) -> None:
    """AB-04: a key's patterns are never wrongly wide."""
    assert not (covers(outer, inner) and matches(inner, topic)) or matches(outer, topic)
