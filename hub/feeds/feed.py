"""Feeds: Atom and RSS, read with expat and cut by characters (WS-52, PS-13, B-42..B-45).

A feed is not built anew. The parser returns where each entry begins and ends. So a feed without known entries is the
publisher's bytes with some ranges left out. Prefixes, order, ids and white space stay as they are.

    <feed> <title/> [entry 1] [entry 2] </feed>   --entry 1 is known-->   <feed> <title/>  [entry 2] </feed>

The input is untrusted. No DOCTYPE reaches the parser (`hub.feeds.document`), so it can expand and fetch nothing. An
unknown entity such as ``&nbsp;`` is read as text. Depth, size, elements and attributes are bounded.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urljoin
from xml.parsers import expat

from hub.feeds.document import LOOSE, Document, read_document

__all__ = ["FEED_BYTES_MAX", "Entry", "Feed", "FeedRefused", "FeedScan", "read_feed", "scan_feed", "without"]

FEED_BYTES_MAX = 10 * 1024 * 1024
_DEPTH_MAX = 64
_ELEMENTS_MAX = 200_000
_ATTRIBUTES_MAX = 100
_ENTRIES_MAX = 10_000
_ATOM = "http://www.w3.org/2005/Atom"
_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_RSS1 = "http://purl.org/rss/1.0/"
_XML = "http://www.w3.org/XML/1998/namespace"
_PREFIXES = {"": "", "xml": _XML, "atom": _ATOM, "atom10": _ATOM, "rdf": _RDF}
"""The prefixes that every feed has. Some feeds use the usual ones without a declaration."""

_RSS1_FORMER = ("http://my.netscape.com/rdf/simple/0.9/", "http://channel.netscape.com/rdf/simple/0.9/")
_ENTRIES = {"feed": f"{_ATOM} entry", "rss": "item", "RDF": f"{_RSS1} item"}
_IDS = (f"{_ATOM} id", "guid")
_SECOND_CHOICE = ("link", f"{_RSS1} link")
_CONTAINERS = {f"{_ATOM} feed", "channel", f"{_RSS1} channel"}
_LINKS = {f"{_ATOM} link", "link", f"{_RSS1} link"}
_REGISTERED = "http://www.iana.org/assignments/relation/"
"""A relation's name is short for this with the name behind it (RFC 4287, 4.2.7.2)."""

_AMPERSAND = re.compile(rf"{LOOSE}(?!\w+;)")
"""An ampersand in a URL that should have been escaped, and not one that begins an entity."""

_OWN_WORDS = frozenset({"title", "subtitle", "tagline", "description", "rights", "copyright", "icon", "logo", "image"})
_OWN_LINKS = ("hub", "self", "alternate")


class FeedRefused(ValueError):
    """The content is no feed, or an unsupported one; the text says why."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a feed. ``identity`` is atom:id, guid or link, else the digest; ``start`` to ``end`` are its
    characters in the document.
    """

    identity: str
    digest: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Feed:
    """A feed: its document, its media type, its entries in order, and its own links, (rel, href). ``digest`` is that of
    its own title, description, rights, pictures and links, and not of its dates.
    """

    document: Document
    media_type: str
    entries: tuple[Entry, ...]
    links: tuple[tuple[str, str], ...]
    digest: str


@dataclass(frozen=True, slots=True)
class FeedScan:
    """The links of a feed before its end or its first fault, and the fault."""

    links: tuple[tuple[str, str], ...]
    fault: str | None


def read_feed(content: bytes, content_type: str | None = None) -> Feed:
    """Read Atom, RSS 2.0 or RSS 1.0; raises `FeedRefused`."""
    if len(content) > FEED_BYTES_MAX:
        raise FeedRefused(f"the content is larger than {FEED_BYTES_MAX} bytes")
    document = read_document(content, content_type)
    if document.unknown is not None:
        raise FeedRefused(f"the content declares the unknown encoding {document.unknown[:40]!r}")
    reader = _Reader(document)
    if reader.fault is not None:
        raise FeedRefused(reader.fault)
    return Feed(document, reader.media_type, tuple(reader.entries), tuple(reader.links), reader.digest())


def scan_feed(document: Document) -> FeedScan:
    """Read the links of a feed up to its end or to its first fault."""
    reader = _Reader(document)
    return FeedScan(tuple(reader.links), reader.fault)


def without(feed: Feed, known: Callable[[Entry], bool]) -> bytes:
    """Return the feed without the known entries; new and changed ones stay, in their order."""
    text, kept, position = feed.document.text, [], 0
    for entry in feed.entries:
        if known(entry):
            kept.append(text[position : entry.start])
            position = entry.end
    kept.append(text[position:])
    return feed.document.encode("".join(kept))


@dataclass(slots=True)
class _Open:
    """The entry that is being read; ``start`` in characters."""

    start: int
    depth: int
    has_children: bool = False
    identity: str = ""
    link: str = ""


@dataclass(slots=True)
class _Scope:
    """The namespaces by prefix, and the base of links, inside an element."""

    namespaces: Mapping[str, str]
    base: str

    def inner(self, attributes: Mapping[str, str]) -> _Scope:
        """Return the scope inside an element with these attributes."""
        declared = {n.partition(":")[2]: uri for n, uri in attributes.items() if n == "xmlns" or n.startswith("xmlns:")}
        if not declared and "xml:base" not in attributes:
            return self
        return _Scope({**self.namespaces, **declared}, _joined(self.base, attributes.get("xml:base", "")))

    def name(self, tag: str) -> str:
        """Return the namespace and the local name, apart by a blank; the local name alone if there is no namespace."""
        prefix, colon, local = tag.rpartition(":")
        namespace = self.namespaces.get(prefix, prefix)
        return f"{namespace} {local if colon else tag}" if namespace else tag


@dataclass(slots=True)
class _Reader:
    """One pass of expat over the document, to its end or its first fault."""

    document: Document
    media_type: str = ""
    entries: list[Entry] = field(default_factory=list)
    links: list[tuple[str, str]] = field(default_factory=list)
    fault: str | None = None
    _xml: bytes = b""
    _path: list[str] = field(default_factory=list)
    _scopes: list[_Scope] = field(default_factory=lambda: [_Scope(_PREFIXES, "")])
    _own_namespace: tuple[str, str] = ("", "")
    _elements: int = 0
    _entry_name: str = ""
    _entry: _Open | None = None
    _text: list[str] | None = None
    _own_text: list[str] = field(default_factory=list)
    _own_depth: int = 0
    _counted: tuple[int, int] = (0, 0)
    _parser: expat.XMLParserType = field(init=False)

    def __post_init__(self) -> None:
        self._xml = self.document.xml()
        self._parser = expat.ParserCreate("utf-8")
        self._parser.StartDoctypeDeclHandler = _refuse_doctype
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters
        try:
            self._parser.Parse(self._xml, True)
        except FeedRefused as refused:
            self.fault = str(refused)
        except (expat.ExpatError, ValueError) as error:
            if self._elements and not self._path:  # the feed ended before the fault
                return
            self.fault = f"the content is not well-formed XML: {error}"

    def digest(self) -> str:
        """Return the digest of the texts and links of the feed itself."""
        own_links = sorted(link for link in self.links if link[0] in _OWN_LINKS)
        return hashlib.sha256(repr((self._own_text, own_links)).encode()).hexdigest()

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._elements += 1
        if len(self._path) >= _DEPTH_MAX or self._elements > _ELEMENTS_MAX or len(attributes) > _ATTRIBUTES_MAX:
            raise FeedRefused("the content is nested too deep, or has too many elements or attributes")
        scope = self._scopes[-1].inner(attributes)
        self._scopes.append(scope)
        name = scope.name(tag)
        if not self._path:
            name = self._begin(name)
        name = self._canonical(name)
        parent = self._path[-1] if self._path else ""
        self._path.append(name)
        if self._entry is None and name == self._entry_name:
            self._entry = _Open(self._characters_before(self._parser.CurrentByteIndex), len(self._path))
        elif self._entry is not None:
            self._start_in_entry(self._entry, name, attributes)
        elif parent in _CONTAINERS:
            self._start_in_feed(name, attributes, scope)

    def _begin(self, name: str) -> str:
        """Read the root. Any namespace counts as that of its format."""
        namespace, _, local = name.rpartition(" ")
        if local not in _ENTRIES:
            raise FeedRefused("the content is neither Atom nor RSS")
        self._entry_name = _ENTRIES[local]
        self.media_type = "application/atom+xml" if local == "feed" else "application/rss+xml"
        if local != "RDF":
            self._own_namespace = namespace, _ATOM if local == "feed" else ""
        return name

    def _canonical(self, name: str) -> str:
        namespace, _, local = name.rpartition(" ")
        own, canonical = self._own_namespace
        if namespace in _RSS1_FORMER:
            canonical = _RSS1
        elif namespace != own or own == canonical:
            return name
        return f"{canonical} {local}" if canonical else local

    def _start_in_entry(self, entry: _Open, name: str, attributes: Mapping[str, str]) -> None:
        if len(self._path) != entry.depth + 1:
            return
        entry.has_children = True
        self._text = [] if name in _IDS + _SECOND_CHOICE else None
        if name == f"{_ATOM} link" and not entry.link:
            entry.link = attributes.get("href", "")

    def _start_in_feed(self, name: str, attributes: Mapping[str, str], scope: _Scope) -> None:
        if name in _LINKS and "href" in attributes:
            href = _joined(scope.base, _AMPERSAND.sub("&", attributes["href"]))
            for word in attributes.get("rel", "alternate").lower().split():
                self.links.append((word.removeprefix(_REGISTERED), href))
        if name.rpartition(" ")[2] in _OWN_WORDS:
            self._own_depth = len(self._path)
            self._own_text.append(name)

    def _characters(self, text: str) -> None:
        if self._text is not None:
            self._text.append(text)
        if self._own_depth and text.strip():
            self._own_text.append(text.strip())

    def _end(self, _tag: str) -> None:
        depth = len(self._path)
        name = self._path.pop()
        self._scopes.pop()
        if depth == self._own_depth:
            self._own_depth = 0
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
        end = self._characters_before(self._xml.index(b">", self._parser.CurrentByteIndex) + 1)
        digest = hashlib.sha256(self.document.encode(self.document.text[entry.start : end])).hexdigest()
        self.entries.append(Entry(entry.identity or entry.link or digest, digest, entry.start, end))

    def _characters_before(self, byte: int) -> int:
        """Return the number of characters before a byte that is behind the one asked for before."""
        bytes_before, characters = self._counted
        self._counted = byte, characters + len(self._xml[bytes_before:byte].decode())
        return self._counted[1]


def _joined(base: str, href: str) -> str:
    try:
        return urljoin(base, href.strip()) if base else href
    except ValueError:
        return href


def _refuse_doctype(*_declaration: object) -> None:
    raise FeedRefused("the content has a DOCTYPE that cannot be read")
