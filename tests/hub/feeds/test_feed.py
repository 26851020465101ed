"""Feeds: entries by their bytes, and everything hostile refused at its first byte."""

import pytest

from hub.feeds.feed import FeedRefused, read_feed, without

ATOM = (
    '<?xml version="1.0"?>\n<a:feed xmlns:a="http://www.w3.org/2005/Atom" xml:lang="de">\n <a:title>é</a:title>\n'
    " <a:entry><a:id>urn:1</a:id><a:link href='x'/></a:entry>\n <a:entry><a:id> urn:2 </a:id></a:entry>\n</a:feed>\n"
)
RSS = (
    "<rss><channel><title>t</title><item><title>1</title><guid>g1</guid></item>"
    "<item><link>http://t/2</link></item><item/></channel></rss>"
)


@pytest.mark.parametrize(
    ("content", "media_type", "identities"),
    [
        (ATOM.encode(), "application/atom+xml", ["urn:1", "urn:2"]),
        (ATOM.encode("utf-16"), "application/atom+xml", ["urn:1", "urn:2"]),
        (RSS.encode(), "application/rss+xml", ["g1", "http://t/2"]),
    ],
    ids=["atom", "utf-16", "rss"],
)
def test_entries_are_known_by_their_own_names(content: bytes, media_type: str, identities: list[str]) -> None:
    """PS-13, B-44."""
    feed = read_feed(content)

    assert (feed.media_type, [entry.identity for entry in feed.entries]) == (media_type, identities)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_what_is_known_is_cut_out_and_nothing_else_is_touched(encoding: str) -> None:
    """WS-52, PS-13: the publisher's own bytes, prefixes and white space."""
    content = ATOM.encode(encoding)
    feed = read_feed(content)
    second = feed.entries[1]

    assert without(feed, lambda entry: entry == second) == ATOM.replace(
        "<a:entry><a:id> urn:2 </a:id></a:entry>", ""
    ).encode(encoding)


@pytest.mark.parametrize(
    "content",
    [
        b'<!DOCTYPE rss [<!ENTITY a "b>]><rss/>',
        b"<!DOCTYPE rss><!DOCTYPE rss><rss/>",
        b"<rss>" + b"<a>" * 100 + b"</a>" * 100 + b"</rss>",
        b"<rss " + b" ".join(b'a%d="1"' % n for n in range(1000)) + b"/>",
        b"<rss>" + b"<a/>" * 300_000 + b"</rss>",
        b"<rss><channel></rss>",
        b"<html/>",
        b"",
        b"\x00\x01",
        b" " * (11 * 1024 * 1024),
        b'<?xml version="1.0" encoding="klingon"?><rss/>',
        b'<?xml version="1.0" encoding="punycode"?><rss/>',
    ],
    ids=[
        "unreadable-type",
        "two-types",
        "deep",
        "attributes",
        "elements",
        "ill-formed",
        "html",
        "empty",
        "binary",
        "large",
        "unknown-encoding",
        "encoding-of-names",
    ],
)
def test_hostile_and_foreign_xml_is_refused(content: bytes) -> None:
    """B-42, B-43, B-45: no entity is ever expanded and nothing is fetched."""
    with pytest.raises(FeedRefused):
        read_feed(content)


@pytest.mark.parametrize(
    "doctype",
    [
        '<!DOCTYPE rss PUBLIC "-//Netscape//DTD RSS 0.91//EN" "http://169.254.169.254/rss.dtd">',
        '<!doctype rss [<!ENTITY m "lol"> <!ENTITY % p SYSTEM "file:///etc/passwd"> %p; <!-- it\'s ]> --> <?p ]> ?>]>',
        '<!DOCTYPE rss [<!ENTITY l "lol"><!ENTITY m "&l;&l;&l;&l;&l;&l;&l;&l;">]>',
        '<!DOCTYPE rss [<!ENTITY m SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE rss [<!ATTLIST item m CDATA "x"><!ENTITY m "</guid></item><item><guid>">] >',
    ],
    ids=["public", "subset", "laughs", "external", "markup"],
)
def test_a_document_type_is_neither_read_nor_in_the_way(doctype: str) -> None:
    """GW-05, B-42, B-43: no entity is declared; a reference to one is text."""
    content = f"\n<?xml version='1.0'?>\n{doctype}\n<rss><channel><item><guid>a&m;</guid></item></channel></rss>"

    assert [entry.identity for entry in read_feed(content.encode()).entries] == ["a\ufffdm;"]


@pytest.mark.parametrize(
    ("encoding", "content_type", "word"),
    [
        ("Shift_JIS", None, "日本"),
        ("GB2312", "text/xml", "中国"),
        ("ISO-2022-JP", None, "日本"),
        ("windows-1252", None, "“é”"),
        ("iso-8859-1", 'text/xml; Charset="UTF-8"', "é"),
        ("klingon", "text/xml; charset=EUC-KR", "한국"),
        ("UTF-16", "text/xml; charset=utf-8", "é"),
    ],
)
def test_an_encoding_is_that_of_the_mark_else_of_the_header_else_of_the_declaration(
    encoding: str, content_type: str | None, word: str
) -> None:
    """GW-05, B-44: and what is left of the feed is in it too."""
    codec = encoding if encoding == "UTF-16" or "harset" not in (content_type or "") else content_type.split("=")[1]  # type: ignore[union-attr]
    rest = f'<?xml version="1.0" encoding="{encoding}"?><rss><channel><title>{word}</title></channel></rss>'
    whole = rest.replace("</channel>", f"<item><guid>{word}</guid></item></channel>")
    feed = read_feed(whole.encode(codec.strip('"')), content_type)

    assert ([entry.identity for entry in feed.entries], without(feed, lambda _: True)) == (
        [word], rest.encode(codec.strip('"')),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("title", "guid"),
    [
        (b"\xff", b"1"),
        (b"\x08\x00", b"1"),
        (b"a&nbsp;b & c", b"1"),
        (b"&#233;&amp;&#xe9;", b"<![CDATA[1]]>"),
        (b"<![CDATA[&nbsp;<b>]]>", b"1"),
    ],
    ids=["byte", "control", "ampersand", "references", "cdata"],
)
def test_a_feed_with_a_bad_character_is_a_feed(title: bytes, guid: bytes) -> None:
    """GW-03, GW-05: its bytes stay as they came."""
    begin, end = b"\xef\xbb\xbf\xef\xbb\xbf\n<rss><channel><title>" + title + b"</title>", b"</channel></rss><!-- >"
    feed = read_feed(begin + b"<item><title>" + title + b"</title><guid>" + guid + b"</guid></item>" + end)

    assert ([entry.identity for entry in feed.entries], without(feed, lambda _: True)) == (["1"], begin + end)


@pytest.mark.parametrize(
    ("content", "identities"),
    [
        (b"<feed><link rel='hub' href='h'/><entry><id>1</id></entry></feed>", ["1"]),
        (b"<feed xmlns='http://purl.org/atom/ns#'><link rel='hub' href='h'/><entry><id>1</id></entry></feed>", ["1"]),
        (b"<rss xmlns='u'><channel><link rel='hub' href='h'/><item><guid>1</guid></item></channel></rss>", ["1"]),
        (b"<rss><channel><atom:link rel='hub' href='h'/><item><guid>1</guid></item></channel></rss>", ["1"]),
        (b"<rdf:RDF xmlns='http://my.netscape.com/rdf/simple/0.9/'><channel><atom:link rel='hub' href='h'/></channel>"
         b"<item><link>1</link></item></rdf:RDF>", ["1"]),
        (b"<rdf:RDF xmlns='http://purl.org/rss/1.0/'><channel><atom:link rel='hub' href='h'/></channel>"
         b"<item><link>1</link></item></rdf:RDF>", ["1"]),
    ],
    ids=["atom", "atom-0.3", "rss-with-namespace", "rss", "rss-0.9", "rss-1.0"],
)  # fmt: skip
def test_namespaces_that_are_left_out_or_out_of_date_are_understood(content: bytes, identities: list[str]) -> None:
    """GW-05."""
    feed = read_feed(content)

    assert (feed.links, [entry.identity for entry in feed.entries]) == ((("hub", "h"),), identities)


@pytest.mark.parametrize(
    ("after", "is_same"),
    [
        (RSS.replace("<title>t</title>", "<title>t</title>\n<pubDate>today</pubDate><generator>g</generator>"), True),
        (RSS.replace("<item><link>http://t/2</link></item>", ""), True),
        (RSS.replace("<title>t</title>", "<title>u</title>"), False),
        (RSS.replace("<title>t</title>", "<title>t</title><atom:link rel='hub' href='http://h/'/>"), False),
    ],
    ids=["date", "entry", "title", "hub"],
)
def test_the_digest_of_a_feed_is_of_what_it_says_of_itself(after: str, is_same: bool) -> None:
    """GW-08."""
    assert (read_feed(RSS.encode()).digest == read_feed(after.encode()).digest) is is_same
