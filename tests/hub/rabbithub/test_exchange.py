"""Exchanges: what a binding chooses, judged by the reference of topic patterns."""

import pytest

from event.topic import matches, validate_topic
from hub.rabbithub.exchange import RoutingError, bind, parse_headers, topic_of_key


@pytest.mark.parametrize(
    ("exchange_type", "binding", "key", "chosen"),
    [
        ("direct", "a.b", "a.b", True),
        ("direct", "a.*", "a.b", False),
        ("direct", "", "", True),
        ("direct", "a_b", "a.b", False),
        ("fanout", "ignored", "a.b", True),
        ("fanout", "ignored", "", True),
        ("topic", "eu.*", "eu.x", True),
        ("topic", "eu.*", "eu.x.y", False),
        ("topic", "eu.#", "eu", True),
        ("topic", "*.#.é ü", "x.y.z.é ü", True),
        ("topic", "#", "", True),
        ("topic", "eu*", "eux", False),
        ("headers", "", "any.key", True),
    ],
)
def test_a_binding_chooses_what_amqp_says(exchange_type: str, binding: str, key: str, chosen: bool) -> None:
    """RH-06, RH-25: as direct, fanout and topic exchanges do; one exchange's keys are never another's."""
    pattern = bind(7, exchange_type, binding).topic

    assert matches(pattern, validate_topic(topic_of_key(7, key))) is chosen
    assert not matches(pattern, topic_of_key(77, key))


@pytest.mark.parametrize("key", ["a", "a.b", "a..b", "_", ".", "a_2Eb", "é", "x y", "*"])
def test_different_keys_are_different_topics(key: str) -> None:
    """RH-06, RD-08."""
    others = {"a", "a.b", "a..b", "_", ".", "a_2Eb", "é", "x y", "*"} - {key}

    assert topic_of_key(7, key) not in {topic_of_key(7, other) for other in others}


@pytest.mark.parametrize(
    ("text", "headers"),
    [
        ("", {}),
        ("k=v", {"k": "v"}),
        ('K=v , k2="a, b=\\"c\\"",k3=', {"k": "v", "k2": 'a, b="c"', "k3": ""}),
    ],
)
def test_headers_are_read_with_their_white_space_and_quotes(text: str, headers: dict[str, str]) -> None:
    """RH-09, RD-07."""
    assert parse_headers(text) == headers


def test_the_value_of_a_header_ends_before_its_blanks() -> None:
    """FS-01: the value takes all blanks in one piece, and gives those behind it away."""
    assert parse_headers("a = b c \t , d=e\t") == {"a": "b c", "d": "e"}


@pytest.mark.parametrize("text", [f'a={" " * 4_094}"', f"a={'b' * 4_095}"], ids=["blanks", "long"])
def test_a_list_of_headers_that_is_too_long_is_refused(text: str) -> None:
    """FS-01: the first one took the old expression more than a minute."""
    with pytest.raises(RoutingError, match="at most 4096 characters"):
        parse_headers(text)


@pytest.mark.parametrize(
    "text", [",".join(f"a{n}=1" for n in range(70)), f"a={'b' * 1_001}"], ids=["many", "long value"]
)
def test_a_list_of_headers_that_is_no_filter_is_refused(text: str) -> None:
    with pytest.raises(RoutingError, match="cannot be a filter"):
        bind(1, "headers", text)


@pytest.mark.parametrize("text", ["k", "=v", "k v", 'k="v', "k=v w=x, \u00fc=1"])
def test_what_is_no_list_of_headers_is_refused(text: str) -> None:
    """RH-09."""
    with pytest.raises(RoutingError):
        parse_headers(text)


@pytest.mark.parametrize(
    ("binding", "bad"), [("x-match=some, a=1", "headers"), ("#.a.#.b.#.c.#", "topic"), ("a" * 300, "direct")]
)
def test_a_binding_that_is_none_is_refused(binding: str, bad: str) -> None:
    """RH-25."""
    with pytest.raises(RoutingError):
        bind(7, bad, binding)
