"""Feeds: entries by their bytes, and everything hostile refused at its first byte."""

import pytest

from hub.feed import FeedRefused, read_feed, without

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

    assert without(content, feed, {second.identity: second.digest, "urn:1": "another"}) == ATOM.replace(
        "<a:entry><a:id> urn:2 </a:id></a:entry>", ""
    ).encode(encoding)


@pytest.mark.parametrize(
    "content",
    [
        b'<!DOCTYPE x [<!ENTITY a "b">]><rss/>',
        b'<!DOCTYPE rss SYSTEM "http://169.254.169.254/"><rss/>',
        b'<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY l "lol"><!ENTITY m "&l;&l;&l;">]><rss>&m;</rss>',
        b"<rss>" + b"<a>" * 100 + b"</a>" * 100 + b"</rss>",
        b"<rss " + b" ".join(b'a%d="1"' % n for n in range(1000)) + b"/>",
        b"<rss>" + b"<a/>" * 300_000 + b"</rss>",
        b"<rss><channel></rss>",
        b"<html/>",
        b"",
        b"\x00\x01",
        b" " * (11 * 1024 * 1024),
        b'<?xml version="1.0" encoding="Shift_JIS"?><rss/>',
        b'<?xml version="1.0" encoding="klingon"?><rss/>',
        b'<?xml version="1.0" encoding="punycode"?><rss/>',
    ],
    ids=[
        "entity",
        "external",
        "laughs",
        "deep",
        "attributes",
        "elements",
        "ill-formed",
        "html",
        "empty",
        "binary",
        "large",
        "multi-byte",
        "unknown-encoding",
        "encoding-of-names",
    ],
)
def test_hostile_and_foreign_xml_is_refused(content: bytes) -> None:
    """B-42, B-43, B-45: no entity is ever expanded and nothing is fetched."""
    with pytest.raises(FeedRefused):
        read_feed(content)
