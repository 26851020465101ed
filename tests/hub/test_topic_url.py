"""Topic URLs and pairs: WS-20, WS-21, WS-23, WS-53, B-28, TG-G."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.topic_url import ForeignTopic, TopicUrlRefused, hub_url, identity, matching_text, topic_of, url_of
from webhooks.message import link_header

PUBLIC = "https://hub.example/base"


@pytest.mark.parametrize(
    ("url", "topic"),
    [
        ("https://hub.example/base/topics/orders.paid", "orders.paid"),
        ("HTTPS://Hub.EXAMPLE/base/topics/orders.paid", "orders.paid"),
        ("https://hub.example/base/topics/%6frders%2Epaid", "orders.paid"),
        ("https://hub.example/%62ase/%74opics/A-Z_0", "A-Z_0"),
        ("https://hub.example/base/topics/%61%5f%5F", "a__"),
    ],
)
def test_a_topic_url_is_compared_after_one_decoding_of_unreserved_characters(url: str, topic: str) -> None:
    """WS-23."""
    assert topic_of(PUBLIC, url) == topic


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "data:text/plain,x",
        "ftp://hub.example/base/topics/a",
        "/topics/a",
        "hub.example/base/topics/a",
        "https://",
        "https://u:p@hub.example/base/topics/a",
        "https://hub.example/base/topics/a#f",
        "https://hub.example/base/topics/a\r\nX: y",
        "https://hub.example/base/topics/a b",
        "https://hub.example/base/topics/" + "a" * 2048,
        "https://hub.example/base",
        "https://hub.example/base/hub",
        "https://hub.example/base/topics/",
        "https://hub.example/base/topics/a/events",
        "https://hub.example/base/topics/a%2Fb",
        "https://hub.example/base/topics/%2561",
        "https://hub.example/base/topics/a..b",
        "https://hub.example/base/topics/a?x=1",
        "https://hub.example/base/topics/" + "a" * 250,
        "https://hub.example/base/topics/%C3%A9",
        "https://hub.example/base/topics/hookwire.operator",
        "https://hub.example/base/topics/%68ookwire",
    ],
)
def test_what_can_be_no_topic_is_refused(url: str) -> None:
    """WS-21, WS-27, B-28."""
    with pytest.raises(TopicUrlRefused):
        topic_of(PUBLIC, url)


@pytest.mark.parametrize(
    "url",
    [
        "http://hub.example/base/topics/a",
        "https://hub.example/topics/a",
        "https://hub.example/baseline/topics/a",
        "https://hub.example:8443/base/topics/a",
        "https://blog.example/feed?x=1,2",
        "https://hub.example.evil.example/base/topics/a",
    ],
)
def test_other_addresses_are_foreign_topics(url: str) -> None:
    with pytest.raises(ForeignTopic):
        topic_of(PUBLIC, url)


@given(st.text(string.ascii_letters + string.digits + "_-", min_size=1, max_size=30), st.data())
def test_every_spelling_of_a_topic_means_it(topic: str, data: st.DataObject) -> None:
    """WS-23: any subset of its characters escaped, in any case of the digits."""
    escaped = data.draw(
        st.lists(st.sampled_from(["plain", "lower", "upper"]), min_size=len(topic), max_size=len(topic))
    )
    spelling = "".join(
        {"plain": character, "lower": f"%{ord(character):02x}", "upper": f"%{ord(character):02X}"}[how]
        for character, how in zip(topic, escaped, strict=True)
    )

    assert topic_of(PUBLIC, url_of(PUBLIC, spelling)) == topic


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("http://T.Example/%7Euser?Q=%2f%41", "http://t.example/~user?Q=%2FA"),
        ("http://t/%257Euser", "http://t/%257Euser"),
        ("http://t?A=%zz%", "http://t?A=%zz%"),
        ("http://t/a%2Fb", "http://t/a%2Fb"),
    ],
)
def test_reserved_characters_and_case_of_the_path_stay_different(url: str, text: str) -> None:
    """WS-23."""
    assert matching_text(url) == text


def test_the_pair_is_topic_and_callback_with_its_query() -> None:
    """WS-20."""
    pairs = [("a", "http://c/?x=1"), ("a", "http://c/?x=2"), ("b", "http://c/?x=1"), ("a", "http://c/?x=%31")]

    assert [identity(*pair) == identity("a", "http://c/?x=1") for pair in pairs] == [True, False, False, True]


def test_the_link_header_is_the_one_that_simple_clients_can_read() -> None:
    """WS-53, WS-71."""
    assert (
        link_header(hub_url("http://h"), url_of("http://h", "a.b"))
        == '<http://h/hub>; rel="hub", <http://h/topics/a.b>; rel="self"'
    )
