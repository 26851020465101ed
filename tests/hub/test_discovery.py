"""What a topic says about itself: headers before content, and only where links belong."""

import pytest

from hub.discovery import Discovered, discover

BASE = "http://t.example/a/page"
HUB = "https://hub.example/"
FOUND = Discovered((HUB,), "https://t.example/self")


@pytest.mark.parametrize(
    "fields",
    [
        ['<https://hub.example/>; rel="hub", <https://t.example/self>; rel="self"'],
        ["<https://t.example/self>; rel=self", "<https://hub.example/>; rel=hub"],
        ['<https://hub.example/>; title="a, <b>; rel=self"; REL="HUB" , <https://t.example/self>;rel="other SELF"'],
        ["<https://x/>; rel=next, <https://hub.example/>; rel=hub;x=1", "<//t.example/self>; rel=self"],
    ],
    ids=["combined", "several", "odd", "others-between"],
)
def test_links_in_headers_are_read_in_every_form(fields: list[str]) -> None:
    """WS-87."""
    found = discover(fields, "text/html", b"<head><link rel=hub href=https://evil.example/></head>", BASE)

    assert (found.hubs, (found.self_url or "").removeprefix("http").removeprefix("s")) == (
        (HUB,), "://t.example/self",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("content_type", "content"),
    [
        ("text/html; charset=utf-8", b'<!doctype html><title>t</title><LINK rel="hub" href="https://hub.example/">'
         b'<link rel="alternate self" href="https://t.example/self"></head><body><link rel=hub href=https://evil/>'),
        ("application/atom+xml", b'<feed xmlns="http://www.w3.org/2005/Atom"><link rel="hub" href="https://hub.example/"/>'
         b'<link rel="self" href="https://t.example/self"/><entry><id>1</id><link rel="hub" href="https://evil/"/></entry></feed>'),
        ("text/xml", b'<rss xmlns:a="http://www.w3.org/2005/Atom"><channel><a:link rel="hub" href="https://hub.example/"/>'
         b'<a:link rel="self" href="https://t.example/self"/><item><a:link rel="hub" href="https://evil/"/></item>'
         b'</channel></rss>'),
    ],
    ids=["html", "atom", "rss"],
)  # fmt: skip
def test_links_in_content_count_only_in_its_head(content_type: str, content: bytes) -> None:
    """WS-72, WS-87."""
    assert discover([], content_type, content, BASE) == FOUND


@pytest.mark.parametrize(
    ("content_type", "content"),
    [
        ("text/html", b"<body><link rel=hub href=https://evil/></body>"),
        ("text/html", b"<p>x<link rel=hub href=https://evil/>"),
        ("text/html", b"\xff\xfe<link rel=hub href=ftp://h/><link rel=hub><link rel=hub href='http://a b'>"),
        ("application/xml", b'<!DOCTYPE x><feed xmlns="http://www.w3.org/2005/Atom"><link rel="hub" href="https://h/"/></feed>'),
        ("application/json", b'{"rel": "hub"}'),
        (None, b"<link rel=hub href=https://h/>"),
        ("text/html", b"<head><![foo[ <link rel=hub href=https://h/>"),
        ("text/html", b"<![%]><link rel=hub href=https://h/>"),
        pytest.param("text/html", b"<link rel=hub href='&#" + b"9" * 5000 + b";'>", id="long-reference"),
        ("text/xml", b'<?xml version="1.0" encoding="Shift_JIS"?><rss/>'),
    ],
)  # fmt: skip
def test_other_links_and_broken_content_are_nothing(content_type: str | None, content: bytes) -> None:
    """WS-87, B-42."""
    assert discover([], content_type, content, BASE) == Discovered()


def test_a_hub_over_https_is_preferred() -> None:
    """WS-99."""
    assert discover(["<http://a/>; rel=hub, <https://b/>; rel=hub, <https://a/>; rel=hub"], None, b"", BASE).hubs == (
        "https://b/", "https://a/", "http://a/",
    )  # fmt: skip
