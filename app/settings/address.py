"""Addresses in settings and options: host:port, and the URLs of servers."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

from runtime.loopback import at_loopback

__all__ = ["LISTEN", "address_of", "amqp_place", "check_amqp_url", "check_database_url", "own_url"]

LISTEN: Final = at_loopback(8080)
"""The address of the HTTP API where no setting names another."""
_ALL: Final = ("0.0.0.0", "[::]")  # noqa: S104 - to be recognised, not to be bound
_ESCAPES: Final = "in user and secret @ is %40, / is %2F, # is %23, ? is %3F, % is %25"
_WRITABLE: Final = ("read-write", "primary", "any")


def address_of(text: str) -> tuple[str, int] | None:
    """Return the host, without the brackets of IPv6, and the port, 0 to 65535. Return None for any other text."""
    host, _, port = text.rpartition(":")
    if not (host and re.fullmatch("[0-9]{1,5}", port) and int(port) < 2**16):
        return None
    return host.strip("[]"), int(port)


def own_url(listen: str, port: int) -> str:
    """Return the URL of a server that listens there. All addresses (0.0.0.0, [::]) are no address to call."""
    host = listen.rpartition(":")[0]
    return f"http://{'localhost' if host in _ALL else host}:{port}"


def check_amqp_url(url: str) -> None:
    """Raise ValueError, without the URL, unless it names one server."""
    try:
        parts = urlsplit(url)
        named = parts.scheme in ("amqp", "amqps") and parts.netloc.count("@") < 2 and parts.port != 0
    except ValueError:
        named = False
    if not named:
        raise ValueError(f"must be a URL of one server, amqp://user:secret@host:port/name; {_ESCAPES}")


def amqp_place(url: str) -> tuple[str, int, str]:
    """Return the host, the port and the virtual host of a checked AMQP URL, with their defaults."""
    parts = urlsplit(url)
    port = parts.port or (5671 if parts.scheme == "amqps" else 5672)
    return parts.hostname or "localhost", port, unquote(parts.path[1:]) or "/"


def check_database_url(url: str) -> None:
    """Raise ValueError, without the URL, unless it names one server or several that take writes."""
    from db.address import addresses, split_url

    try:
        parts = split_url(url)
        named = parts.scheme in ("postgresql", "postgres") and parts.netloc.count("@") < 2
        addresses(url)
    except ValueError:
        named = False
    if not named:
        form = "postgresql://user:secret@host:port,host:port/name"
        raise ValueError(f"must be a URL of one server or several, {form}; {_ESCAPES}")
    if parse_qs(parts.query).get("target_session_attrs", ["any"])[-1] not in _WRITABLE:
        raise ValueError("target_session_attrs must be read-write, primary or any: the hub writes")
