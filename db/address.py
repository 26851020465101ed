"""Addresses: the servers that a database's URL names, one or several."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import parse_qs, unquote

__all__ = ["PORT", "ServerAddress", "UrlParts", "addresses", "split_url", "without_hosts"]

PORT = 5432
# Not urlsplit: some versions of Python refuse an IPv6 address beside another host.
_URL = re.compile(r"([^:/?#]+)://([^/?#]*)([^?#]*)(?:\?([^#]*))?")


class UrlParts(NamedTuple):
    """The parts of a database's URL, as ``urllib.parse.urlsplit`` names them."""

    scheme: str
    netloc: str
    path: str
    query: str


class ServerAddress(NamedTuple):
    """A host, or the folder of a Unix socket. ``port`` is None where the URL leaves it out."""

    host: str
    port: int | None = None

    def __str__(self) -> str:
        """Return the form of a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"


def split_url(url: str) -> UrlParts:
    """Return the parts; empty ones for a text that is no URL."""
    found = _URL.match(url)
    return UrlParts(found[1], found[2], found[3], found[4] or "") if found else UrlParts("", "", "", "")


def without_hosts(url: str) -> str:
    """Return the URL without the servers in its authority, for a client that is told the server apart."""
    parts = split_url(url)
    hosts = parts.netloc.rpartition("@")[2]
    start = len(parts.scheme) + 3 + len(parts.netloc) - len(hosts)
    return url[:start] + url[start + len(hosts) :]


def addresses(url: str) -> tuple[ServerAddress, ...]:
    """Return the servers of ``postgresql://user:secret@one:5432,two/name`` in their order, none where it names none.

    They may also stand in the query, as libpq has it: ``?host=/run/postgresql&port=5432``. Raise ValueError for a wrong
    port.
    """
    parts = split_url(url)
    if hosts := parts.netloc.rpartition("@")[2]:
        return tuple(_address(unquote(text)) for text in hosts.split(","))
    return tuple(_from_query(parse_qs(parts.query)))


def _from_query(query: dict[str, list[str]]) -> Iterator[ServerAddress]:
    hosts = query.get("host", [""])[-1]
    ports = query.get("port", [""])[-1].split(",")
    found = [_address(text) for text in hosts.split(",") if text]
    for number, address in enumerate(found):
        port = ports[number if len(ports) == len(found) else 0]
        yield ServerAddress(address.host, _port(port)) if port else address


def _address(text: str) -> ServerAddress:
    """Read "host", "host:port", "[::1]:port" or a folder."""
    if text.startswith("/"):
        return ServerAddress(text)
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        return ServerAddress(host, _port(rest[1:]) if rest.startswith(":") else None)
    host, colon, port = text.partition(":")
    if not host:
        raise ValueError("a host's name is empty")
    return ServerAddress(host, _port(port) if colon else None)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 2**16):
        raise ValueError(f"{text!r} is not a port")
    return int(text)
