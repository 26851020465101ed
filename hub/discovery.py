"""Discovery: which hubs and which canonical URL a topic advertises (W3C WebSub 4.1; WS-87..WS-89, WS-99).

    Link header fields --none--> links in the content, if it is Atom, RSS or HTML --none--> nothing

The first of the two that names a hub counts alone: headers and content are never mixed. In HTML only links in the head
count, in feeds only those of the feed itself. A quoted link must not redirect subscribers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from html.parser import HTMLParser
from urllib.parse import urljoin

from typing_extensions import override

from hub.feed import FeedRefused, feed_links

__all__ = ["Discovered", "discover"]

_CONTENT_BYTES_MAX = 512 * 1024
"""The number of bytes of a page that are searched; links are in its first part."""

_ADVERTISED = ("hub", "self")
# One link-value of RFC 8288: a target, then parameters, whose quoted values may hold any character.
_PARAMETER = r';\s*+([\w!#$&+.^`|~*-]++)(?:\s*+=\s*+(?:"((?:[^"\\]|\\.)*+)"|([^\s,;"]*+)))?'
_LINK = re.compile(rf"<([^<>]*+)>((?:\s*+{_PARAMETER})*+)")
_PARAMETERS = re.compile(_PARAMETER)
_USABLE = re.compile(r"https?://[\x21\x23-\x3b\x3d\x3f-\x7e]+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Discovered:
    """The advertised links: ``hubs`` in the order given, https first (WS-99); ``self_url`` None where none is
    advertised.
    """

    hubs: tuple[str, ...] = ()
    self_url: str | None = None


def discover(link_fields: Sequence[str], content_type: str | None, content: bytes, base_url: str) -> Discovered:
    """Read the links that a topic advertises.

    Args:
        link_fields: values of its ``Link`` fields.
        content_type: its type; decides how the content is read.
        content: the body, or the beginning of it.
        base_url: where it was fetched; relative links are resolved against it.
    """
    found = _chosen(_header_links(link_fields), base_url)
    if found.hubs:
        return found
    return _chosen(_content_links(content_type, content), base_url)


def _chosen(links: Iterable[tuple[str, str]], base_url: str) -> Discovered:
    hubs: list[str] = []
    selves: list[str] = []
    for relation, href in links:
        url = _resolved(base_url, href)
        if url is not None:
            (hubs if relation == "hub" else selves).append(url)
    # A stable sort keeps the publisher's order among equals.
    secure_first = sorted(dict.fromkeys(hubs), key=lambda url: not url.lower().startswith("https://"))
    return Discovered(tuple(secure_first), selves[0] if selves else None)


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


def _content_links(content_type: str | None, content: bytes) -> Iterable[tuple[str, str]]:
    media_type = (content_type or "").partition(";")[0].strip().lower()
    if media_type in ("text/html", "application/xhtml+xml"):
        return _html_links(content[:_CONTENT_BYTES_MAX])
    if media_type.endswith(("/xml", "+xml")):
        try:
            return [(relation, href) for relation, href in feed_links(content) if relation in _ADVERTISED]
        except FeedRefused:
            return ()
    return ()


class _Head(HTMLParser):
    """Collects the links of a page's head; the first element of a body ends it."""

    _BELONGS_TO_HEAD = frozenset(
        {"html", "head", "title", "base", "link", "meta", "style", "script", "noscript", "template"}
    )

    def __init__(self) -> None:
        super().__init__()
        self.links: list[tuple[str, str]] = []
        self._open = True

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self._BELONGS_TO_HEAD:
            self._open = False
        if tag == "link" and self._open:
            named = dict(attrs)
            for word in (named.get("rel") or "").lower().split():
                if word in _ADVERTISED and named.get("href"):
                    self.links.append((word, named["href"] or ""))

    @override
    def handle_endtag(self, tag: str) -> None:
        if tag == "head":
            self._open = False


def _html_links(content: bytes) -> list[tuple[str, str]]:
    """Return the links up to the end of the head, or to where the parser gives up.

    The parser raises AssertionError at an unknown marked section such as ``<![if IE]``. It raises ValueError at a
    character reference of thousands of digits.
    """
    head = _Head()
    with suppress(AssertionError, ValueError):
        head.feed(content.decode("utf-8", "replace"))
    return head.links
