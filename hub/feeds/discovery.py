"""Discovery: which hubs and which canonical URL a topic advertises (W3C WebSub 4.1; WS-87..WS-89, WS-99).

    Link header fields --none--> links in the content, if it is Atom, RSS, JSON Feed or HTML --none--> nothing

The first of the two that names a hub counts alone: headers and content are never mixed. In HTML only links in the head
count, in feeds only those of the feed itself. A quoted link must not redirect subscribers. The content itself says what
it is: many servers send a feed as text/html or without a type. Links before a fault count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import islice
from typing import Final
from urllib.parse import urljoin

from typing_extensions import override

from egress.client import ReadLimits
from event.strict_json import StrictJsonError, loads
from hub.feeds.document import Document, read_document
from hub.feeds.feed import scan_feed

__all__ = ["DISCOVERY_LIMITS", "Discovered", "discover"]

_BYTES_MAX = 2 * 1024 * 1024
"""The number of bytes of a page that are searched. Feeds and HTML have their links in the first part."""

DISCOVERY_LIMITS: Final = ReadLimits(32 * 1024, read_bytes_max=_BYTES_MAX + 128 * 1024, keep_bytes_max=_BYTES_MAX + 1)

_PIECE_CHARACTERS = 64 * 1024
"""The longest tag that is read. A tag is one match of a regular expression, during which no other thread runs."""

_LINKS_MAX = 100
_ADVERTISED = ("hub", "self")
# One link-value of RFC 8288: a target, then parameters, whose quoted values may hold any character.
_PARAMETER = r';\s*+([\w!#$&+.^`|~*-]++)(?:\s*+=\s*+(?:"((?:[^"\\]|\\.)*+)"|([^\s,;"]*+)))?'
_LINK = re.compile(rf"<([^<>]*+)>((?:\s*+{_PARAMETER})*+)")
_PARAMETERS = re.compile(_PARAMETER)
_USABLE = re.compile(r"https?://[\x21\x23-\x3b\x3d\x3f-\x7e]+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Discovered:
    """The advertised links: ``hubs`` in the order given, https first (WS-99); ``self_url`` None where none is
    advertised. ``searched`` says where links were looked for, and why the search stopped.
    """

    hubs: tuple[str, ...] = ()
    self_url: str | None = None
    searched: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class _Found:
    """Links of the content, the base that it gives them, and where the search stopped."""

    links: Iterable[tuple[str, str]]
    searched: str
    base: str = ""


def discover(link_fields: Sequence[str], content_type: str | None, content: bytes, base_url: str) -> Discovered:
    """Read the links that a topic advertises.

    Args:
        link_fields: values of its ``Link`` fields.
        content_type: its type; it decides how the content is read only where the content does not.
        content: the body, or the beginning of it.
        base_url: where it was fetched; relative links are resolved against it.
    """
    found = _chosen(_header_links(link_fields), base_url, "")
    if found.hubs:
        return found
    inside = _content_links(content_type, content[:_BYTES_MAX])
    cut = f"; only the first {_BYTES_MAX} bytes were read" if len(content) > _BYTES_MAX else ""
    where = "its Link headers name none" if link_fields else "it has no Link header"
    return _chosen(inside.links, _joined(base_url, inside.base), f"{where}; {inside.searched}{cut}")


def _chosen(links: Iterable[tuple[str, str]], base_url: str, searched: str) -> Discovered:
    hubs: list[str] = []
    selves: list[str] = []
    advertised = (link for link in links if link[0] in _ADVERTISED)
    for relation, href in islice(advertised, _LINKS_MAX):
        url = _resolved(base_url, href)
        if url is not None:
            (hubs if relation == "hub" else selves).append(url)
    # A stable sort keeps the publisher's order among equals.
    secure_first = sorted(dict.fromkeys(hubs), key=lambda url: not url.lower().startswith("https://"))
    return Discovered(tuple(secure_first), selves[0] if selves else None, searched)


def _joined(base_url: str, base: str) -> str:
    try:
        return urljoin(base_url, base.strip())
    except ValueError:
        return base_url


def _resolved(base_url: str, href: str) -> str | None:
    """Return a URL that may stand in a Link field and be dialled later; absolute ones stay byte for byte (WS-53)."""
    href = href.strip()
    try:
        url = href if "://" in href else urljoin(base_url, href)
    except ValueError:
        return None
    return url if _USABLE.fullmatch(url) and "#" not in url else None


def _header_links(fields: Iterable[str]) -> Iterator[tuple[str, str]]:
    for link in _LINK.finditer(", ".join(fields)):
        parameters = ((m[1].lower(), m[2] or m[3] or "") for m in _PARAMETERS.finditer(link[2]))
        relations = next((value for name, value in parameters if name == "rel"), "")
        for word in relations.lower().split():
            if word in _ADVERTISED:
                yield word, link[1]


_ROOT = re.compile(r"<(?:[A-Za-z_][\w.-]*+:)?(feed|rss|RDF)(?=[\s/>])")
_HTML = re.compile(r"<(?:!doctype\s++html|(?:html|head|title|meta|style|script|body)(?=[\s/>]))", re.IGNORECASE)
_BLANKS = re.compile(r"[\s\ufeff\0]*+")


def _content_links(content_type: str | None, content: bytes) -> _Found:
    document = read_document(content, content_type)
    root = document.root()
    begin = _BLANKS.match(document.text).end()  # type: ignore[union-attr]
    media_type = (content_type or "").partition(";")[0].strip().lower()
    if feed := _ROOT.match(document.text, root):
        return _feed_links(document, "Atom" if feed[1] == "feed" else "RSS")
    if document.text.startswith("{", begin):
        return _json_links(document.text[begin:])
    is_html = _HTML.match(document.text, root) or _HTML.match(document.text, begin)
    if is_html or media_type in ("text/html", "application/xhtml+xml"):
        return _html_links(document.text[begin:])
    sent_as = f"type {media_type[:80]}" if media_type else "no type"
    start = f"begins with {document.text[root : root + 20]!r}" if len(document.text) > root else "is empty"
    return _Found((), f"the content ({sent_as}) is neither Atom, RSS, JSON Feed nor HTML: it {start}")


def _feed_links(document: Document, format_name: str) -> _Found:
    scan = scan_feed(document)
    stopped = f"up to a fault: {scan.fault}" if scan.fault else "to its end"
    return _Found(scan.links, f"{format_name} was read {stopped}")


def _json_links(text: str) -> _Found:
    """Return the links of JSON Feed 1.1: ``hubs`` and ``feed_url``."""
    try:
        feed = loads(text.encode("utf-8", "replace"), nodes_max=_BYTES_MAX)
    except StrictJsonError as error:
        return _Found((), f"JSON was read up to a fault: {error.reason}")
    if not isinstance(feed, dict) or not str(feed.get("version")).startswith("https://jsonfeed.org/version/"):
        return _Found((), "the content is JSON, but no JSON Feed: it has no version of jsonfeed.org")
    hubs = feed["hubs"] if isinstance(feed.get("hubs"), list) else []
    links = [("hub", hub.get("url")) for hub in hubs if _is_websub(hub)] + [("self", feed.get("feed_url"))]
    return _Found([(relation, url) for relation, url in links if isinstance(url, str)], "JSON Feed was read to its end")


def _is_websub(hub: object) -> bool:
    return isinstance(hub, Mapping) and str(hub.get("type")).lower() == "websub"


class _HeadEnded(Exception):
    """The head of the page was read; nothing behind it matters."""


class _Head(HTMLParser):
    """Collects the links of a page's head; the first element or text of a body ends it."""

    _BELONGS_TO_HEAD = frozenset(
        {"html", "head", "title", "base", "link", "meta", "style", "script", "noscript", "template"}
    )
    _HAS_NO_LINKS = frozenset({"title", "style", "script", "template"})

    def __init__(self) -> None:
        super().__init__()
        self.links: list[tuple[str, str]] = []
        self.base = ""
        self._inside = ""

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._inside:
            return
        if tag not in self._BELONGS_TO_HEAD:
            raise _HeadEnded
        named = {name: value or "" for name, value in reversed(attrs)}  # the first of equal attributes counts
        if tag in self._HAS_NO_LINKS:
            self._inside = tag
        elif tag == "base":
            self.base = self.base or named.get("href", "")
        elif tag == "link" and named.get("href"):
            self.links += [(word, named["href"]) for word in named.get("rel", "").lower().split()]

    @override
    def handle_endtag(self, tag: str) -> None:
        if tag == self._inside:
            self._inside = ""
        elif tag == "head" and not self._inside:
            raise _HeadEnded

    @override
    def handle_data(self, data: str) -> None:
        if data.strip() and not self._inside:
            raise _HeadEnded

    def read(self, text: str) -> None:
        """Read a page in pieces; a tag that is longer than one ends it with an AssertionError."""
        for begin in range(0, len(text), _PIECE_CHARACTERS):
            self.feed(text[begin : begin + _PIECE_CHARACTERS])
            assert not self._is_in_a_long_tag(), f"a tag is longer than {_PIECE_CHARACTERS} characters"

    def _is_in_a_long_tag(self) -> bool:
        """Tell whether what has no end yet is a tag, and neither a comment nor the text of a script or style."""
        return len(self.rawdata) > _PIECE_CHARACTERS and self.cdata_elem is None and self.rawdata[1] not in "!?"

    @override
    def parse_marked_section(self, i: int, report: bool = True) -> int:
        """Read ``<![if IE]>`` as HTML does: as a comment up to the next ``>``."""
        return self.parse_bogus_comment(i)


def _html_links(text: str) -> _Found:
    """Return the links up to the end of the head, or to where the parser gives up.

    The parser raises ValueError at a character reference of thousands of digits.
    """
    head = _Head()
    try:
        head.read(text)
        stopped = "its head has no end"
    except _HeadEnded:
        stopped = "its head was read to its end"
    except (AssertionError, ValueError) as error:
        stopped = f"its head was read up to line {head.getpos()[0]}, where the parser gave up: {str(error)[:100]}"
    return _Found(head.links, f"in HTML, {stopped}", head.base)
