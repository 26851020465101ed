"""What a topic says about itself: headers before content, and only where links belong."""

import pytest

from hub.feeds.discovery import Discovered, discover

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
        ("application/xml", b'<!DOCTYPE feed [<!ENTITY h "https://h/">]><feed><link rel="hub" href="&h;"/></feed>'),
        ("application/xml", b'<!DOCTYPE feed [<!ATTLIST link rel CDATA "hub">]><feed><link href="https://h/"/></feed>'),
        ("application/json", b'{"rel": "hub"}'),
        (None, b"<link rel=hub href=https://h/>"),
        ("text/html", b"<head><![foo[ <link rel=hub href=https://h/>"),
        ("text/html", b"<![%]>x<link rel=hub href=https://h/>"),
        ("text/html", b"<title><link rel=hub href=https://h/></title><template><link rel=hub href=https://h/>"),
        ("text/html", b"<head><style><link rel=hub href=https://h/></style><!-- <link rel=hub href=https://h/> -->"),
        ("text/html", b"Text<link rel=hub href=https://h/>"),
        ("text/xml", b'<rss xmlns:m="http://m/"><channel><m:link rel="hub" href="https://h/"/></channel></rss>'),
        ("application/json", b'{"hubs": [{"type": "WebSub", "url": "https://h/"}]}'),
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


def test_an_ampersand_that_is_not_escaped_is_part_of_the_url() -> None:
    """GW-05."""
    content = b"<feed><link rel='hub' href='https://h/?a=1&b=2&amp;c=3'/></feed>"

    assert discover([], None, content, BASE).hubs == ("https://h/?a=1&b=2&c=3",)


LINKS = b'<link rel="hub" href="https://hub.example/"/><link rel="self" href="https://t.example/self"/>'
HOST = b"https://t.example"
ATOM = b'<feed xmlns="http://www.w3.org/2005/Atom"><title>t</title>%s%s</feed>'
HTML = b"<html><head>%s%s</head><body></body></html>"
RSS = b'<rss xmlns:atom="http://www.w3.org/2005/Atom"><channel><title>t</title>%s%s</channel></rss>'
ENTRY = b"<entry><id>1</id><summary>" + b"x" * 1000 + b"</summary></entry>"


def encoded(codec: str) -> bytes:
    text = ATOM.replace(b"<title>t", "<title>日本中国 \\ ｿ".encode()) % (LINKS, ENTRY)
    return f'<?xml version="1.0" encoding="{codec}"?>{text.decode()}'.encode(codec, "replace")


@pytest.mark.parametrize(
    "content",
    [
        ATOM % (LINKS, ENTRY * 750),
        (ATOM % (LINKS, ENTRY * 3000))[:2_200_000],
        (ATOM % (LINKS, ENTRY * 4))[:-900] + b"\x08\xff</feed>",
        ATOM % (LINKS, b"<entry><unclosed></entry>"),
        b"\n\r\n " + ATOM % (LINKS, b""),
        b"\xef\xbb\xbf\xef\xbb\xbf" + ATOM % (LINKS, b""),
        b"\xef\xbb\xbf\n<?xml version='1.0'?>\n<!-- c -->" + ATOM % (LINKS, b""),
        ATOM % (b"<subtitle>a&nbsp;b&copy; &</subtitle>" + LINKS, b"&nbsp;"),
        b'<?xml version="1.0"?><!DOCTYPE feed PUBLIC "-//x" "http://x/x" [<!ENTITY a "b">]>' + ATOM % (LINKS, b"&a;"),
        encoded("Shift_JIS"),
        encoded("GB2312"),
        encoded("UTF-16"),
        RSS % (LINKS, b""),
        RSS.replace(b' xmlns:atom="http://www.w3.org/2005/Atom"', b"") % (LINKS.replace(b"<l", b"<atom:l"), b""),
        RSS % (b"<item><guid>1</guid></item>", LINKS.replace(b"<l", b"<atom:l")),
        ATOM % (LINKS.replace(b'"hub"', b'"http://www.iana.org/assignments/relation/hub"'), b""),
        ATOM.replace(b"<feed", b'<feed xml:base="https://t.example/x/"') % (LINKS.replace(HOST, b""), b""),
        HTML % (b"<style>" + b"a{b:c}\n" * 90_000 + b"</style>", LINKS),
        HTML % (LINKS, b"<style>" + b"a{b:c}\n" * 90_000),
        HTML % (b"<base href='https://t.example/x/'>", LINKS.replace(HOST, b"..")),
        b"<!-- c --><!DOCTYPE html>" + HTML % (b"<![if !IE]><title>t&nbsp;</title>", LINKS),
        HTML.replace(b"<html", b"<?xml version='1.0'?><html xmlns='http://www.w3.org/1999/xhtml'") % (LINKS, b""),
        (HTML % (b"", LINKS)).decode().encode("utf-16"),
        b'{"version": "https://jsonfeed.org/version/1.1", "feed_url": "https://t.example/self", "items": [],'
        b' "hubs": [{"type": "rssCloud", "url": "https://r/"}, {"type": "WebSub", "url": "https://hub.example/"}]}',
    ],
    ids=[
        "750-kb", "cut", "bad-character", "not-well-formed", "blank-line", "two-marks", "blank-declaration", "nbsp",
        "doctype", "shift-jis", "gb2312", "utf-16", "no-namespace", "no-declaration", "links-last", "relation-iri",
        "xml-base", "html-style", "html-style-behind", "html-base", "html-section", "xhtml", "html-utf-16", "json",
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "content_type", ["application/xml", "text/html; charset", "text/plain", "application/octet-stream", None]
)
def test_links_are_read_from_the_head_whatever_its_size_its_type_and_the_faults_behind(
    content_type: str | None, content: bytes
) -> None:
    """GW-05."""
    assert discover([], content_type, content, BASE) == FOUND


NO_HEADER = "it has no Link header"
NEITHER = "neither Atom, RSS, JSON Feed nor HTML"


@pytest.mark.parametrize(
    ("fields", "content_type", "content", "searched"),
    [
        ([], None, b"", f"{NO_HEADER}; the content (no type) is {NEITHER}: it is empty"),
        (["<x>; rel=next"], "Text/Plain; a=b", b"\nhello",
         f"its Link headers name none; the content (type text/plain) is {NEITHER}: it begins with 'hello'"),
        ([], "text/xml", ATOM % (b"", b""), f"{NO_HEADER}; Atom was read to its end"),
        ([], "text/xml", b"<rss><channel>\n<a></b>", f"{NO_HEADER}; RSS was read up to a fault: the content is not"
         " well-formed XML: mismatched tag: line 2, column 5"),
        ([], "text/html", HTML % (b"", b""), f"{NO_HEADER}; in HTML, its head was read to its end"),
        ([], "text/html", b"<html><style>" + b"x" * 3_000_000,
         f"{NO_HEADER}; in HTML, its head has no end; only the first 2097152 bytes were read"),
        ([], "text/html", b"<html><link " + b"a " * 70_000,
         f"{NO_HEADER}; in HTML, its head was read up to line 1, where the parser gave up:"
         " a tag is longer than 65536 characters"),
        ([], None, b"[1", f"{NO_HEADER}; the content (no type) is {NEITHER}: it begins with '[1'"),
        ([], None, b'{"a": 1}',
         f"{NO_HEADER}; the content is JSON, but no JSON Feed: it has no version of jsonfeed.org"),
    ],
    ids=["empty", "text", "feed", "fault", "html", "too-large", "long-tag", "list", "json"],
)  # fmt: skip
def test_a_search_says_where_it_looked_and_why_it_stopped(
    fields: list[str], content_type: str | None, content: bytes, searched: str
) -> None:
    """GW-05."""
    found = discover(fields, content_type, content, BASE)

    assert (found, found.searched) == (Discovered(), searched)
