"""Feeds: Atom and RSS, read with expat and cut by bytes (WS-52, PS-13, B-42..B-45).

A feed is not built anew. The parser returns where each entry begins and ends in the bytes. So a feed without known
entries is the publisher's bytes with some ranges left out. Prefixes, order, ids and white space stay as they are.

    <feed> <title/> [entry 1] [entry 2] </feed>   --entry 1 is known-->   <feed> <title/>  [entry 2] </feed>

The input is untrusted. Any DOCTYPE is refused at its first byte, which leaves nothing to expand and nothing to fetch.
Depth, size, elements and attributes are bounded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from xml.parsers import expat

__all__ = ["FEED_BYTES_MAX", "Entry", "Feed", "FeedRefused", "feed_links", "read_feed", "without"]

FEED_BYTES_MAX = 10 * 1024 * 1024
_DEPTH_MAX = 64
_ELEMENTS_MAX = 200_000
_ATTRIBUTES_MAX = 100
_ENTRIES_MAX = 10_000
_ATOM = "http://www.w3.org/2005/Atom"
_RSS1 = "http://purl.org/rss/1.0/"
_ROOTS = {
    f"{_ATOM} feed": f"{_ATOM} entry",
    "rss": "item",
    "http://www.w3.org/1999/02/22-rdf-syntax-ns# RDF": f"{_RSS1} item",
}
_IDS = (f"{_ATOM} id", "guid")
_SECOND_CHOICE = ("link", f"{_RSS1} link")
_CONTAINERS = {f"{_ATOM} feed", "channel", f"{_RSS1} channel"}


class FeedRefused(ValueError):
    """The content is no feed, or an unsupported one; the text says why."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a feed. ``identity`` is atom:id, guid or link, else the digest; ``start`` to ``end`` are its bytes in
    the content.
    """

    identity: str
    digest: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Feed:
    """A feed: its media type, its entries in order, and its own links, (rel, href)."""

    media_type: str
    entries: tuple[Entry, ...]
    links: tuple[tuple[str, str], ...]

    def digests(self) -> dict[str, str]:
        """Return the digests by identity."""
        return {entry.identity: entry.digest for entry in self.entries}


def read_feed(content: bytes) -> Feed:
    """Read Atom 1.0, RSS 2.0 or RSS 1.0; raises `FeedRefused`."""
    reader = _Reader(content)
    if reader.media_type is None:
        raise FeedRefused("the content is neither Atom nor RSS")
    return Feed(reader.media_type, tuple(reader.entries), tuple(reader.links))


def feed_links(content: bytes) -> tuple[tuple[str, str], ...]:
    """Return the ``atom:link`` elements of the feed itself, in order, (rel, href). Raises `FeedRefused`."""
    return read_feed(content).links


def without(content: bytes, feed: Feed, known: Mapping[str, str]) -> bytes:
    """Return the content without the entries whose digest is known already; new and changed ones stay, in their
    order.
    """
    kept, position = [], 0
    for entry in feed.entries:
        if known.get(entry.identity) == entry.digest:
            kept.append(content[position : entry.start])
            position = entry.end
    kept.append(content[position:])
    return b"".join(kept)


@dataclass(slots=True)
class _Open:
    """The entry that is being read."""

    start: int
    depth: int
    has_children: bool = False
    identity: str = ""
    link: str = ""


@dataclass(slots=True)
class _Reader:
    """One pass of expat over the content."""

    content: bytes
    media_type: str | None = None
    entries: list[Entry] = field(default_factory=list)
    links: list[tuple[str, str]] = field(default_factory=list)
    _path: list[str] = field(default_factory=list)
    _elements: int = 0
    _entry_name: str = ""
    _entry: _Open | None = None
    _text: list[str] | None = None
    _parser: expat.XMLParserType = field(init=False)

    def __post_init__(self) -> None:
        if len(self.content) > FEED_BYTES_MAX:
            raise FeedRefused(f"the content is larger than {FEED_BYTES_MAX} bytes")
        self._parser = expat.ParserCreate(namespace_separator=" ")
        self._parser.StartDoctypeDeclHandler = _refuse_doctype
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters
        try:
            self._parser.Parse(self.content, True)
        except FeedRefused:
            raise
        except (expat.ExpatError, LookupError, ValueError) as error:
            # Besides its own error the parser raises Python's errors about an encoding that is unknown or uses several
            # bytes a character, such as Shift JIS.
            raise FeedRefused(f"the content is not well-formed XML: {error}") from None

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._elements += 1
        if len(self._path) >= _DEPTH_MAX or self._elements > _ELEMENTS_MAX or len(attributes) > _ATTRIBUTES_MAX:
            raise FeedRefused("the content is nested too deep, or has too many elements or attributes")
        if not self._path:
            self._begin(name)
        parent = self._path[-1] if self._path else ""
        self._path.append(name)
        if self._entry is None and name == self._entry_name:
            self._entry = _Open(self._parser.CurrentByteIndex, len(self._path))
        elif self._entry is not None and len(self._path) == self._entry.depth + 1:
            self._entry.has_children = True
            self._text = [] if name in _IDS + _SECOND_CHOICE else None
            if name == f"{_ATOM} link" and not self._entry.link:
                self._entry.link = attributes.get("href", "")
        elif name == f"{_ATOM} link" and parent in _CONTAINERS and "href" in attributes:
            for word in attributes.get("rel", "alternate").lower().split():
                self.links.append((word, attributes["href"]))

    def _begin(self, name: str) -> None:
        if name not in _ROOTS:
            raise FeedRefused("the content is neither Atom nor RSS")
        self._entry_name = _ROOTS[name]
        self.media_type = "application/atom+xml" if name.startswith(_ATOM) else "application/rss+xml"

    def _characters(self, text: str) -> None:
        if self._text is not None:
            self._text.append(text)

    def _end(self, name: str) -> None:
        depth = len(self._path)
        self._path.pop()
        if self._entry is None:
            return
        if self._text is not None and depth == self._entry.depth + 1:
            self._identify("".join(self._text).strip(), name)
            self._text = None
        if depth == self._entry.depth:
            self._close(self._entry)

    def _identify(self, text: str, element: str) -> None:
        assert self._entry is not None
        if element in _IDS:
            self._entry.identity = text
        else:
            self._entry.link = self._entry.link or text

    def _close(self, entry: _Open) -> None:
        self._entry = None
        if not entry.has_children:  # it may be an empty element, which has no end tag
            return
        if len(self.entries) >= _ENTRIES_MAX:
            raise FeedRefused(f"the feed has more than {_ENTRIES_MAX} entries")
        end = self._end_of_tag()
        digest = hashlib.sha256(self.content[entry.start : end]).hexdigest()
        self.entries.append(Entry(entry.identity or entry.link or digest, digest, entry.start, end))

    def _end_of_tag(self) -> int:
        """Return the position behind the end tag that is being read."""
        closing = ">".encode(self._encoding())
        at = self.content.index(closing, self._parser.CurrentByteIndex)
        return at + len(closing)

    def _encoding(self) -> str:
        if self.content[:2] == b"\xff\xfe":
            return "utf-16-le"
        return "utf-16-be" if self.content[:2] == b"\xfe\xff" else "ascii"


def _refuse_doctype(*_declaration: object) -> None:
    raise FeedRefused("the content has a DOCTYPE")
