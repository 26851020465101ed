"""Options of the AMQP sink, checked before it connects."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self
from urllib.parse import quote, unquote, urlsplit

from event.carrier import AttributePrefixes
from relay.tls import TlsFiles

__all__ = ["AmqpOptions"]


@dataclass(frozen=True, slots=True)
class AmqpOptions:
    """Where and how to publish. Raise ValueError for unsafe values.

    * ``incarnation``: the installation's name, which is part of the lock queue's name.
    * ``lock_seconds``: how long ``open`` waits for a predecessor's lock. A dead relay keeps it for two to three
      heartbeats.
    * ``blocked_seconds``: how long a send waits for a broker that is short of memory or disk.
    * ``own_headers``: whether messages have the ``hookwire-*`` headers.
    * ``attributes``: the prefixes of headers with CloudEvents attributes.
    * ``tls``: the files for ``amqps://``.
    """

    url: str = field(repr=False)
    incarnation: str
    exchange: str = "hookwire"
    heartbeat_seconds: int = 3
    connect_seconds: float = 5.0
    publish_seconds: float = 5.0
    lock_seconds: float = 5.0
    blocked_seconds: float = 2.0
    window_records_max: int = 500
    own_headers: bool = True
    attributes: AttributePrefixes = "cloudEvents_"
    tls: TlsFiles = field(default_factory=lambda: TlsFiles("HOOKWIRE_AMQP_TLS"))

    def __post_init__(self) -> None:
        if not self.url.startswith(("amqp://", "amqps://")):
            raise ValueError("the AMQP URL must start with amqp:// or amqps://")
        if self.url.startswith("amqps://"):
            self.tls.context()
        elif self.tls.given:
            raise ValueError(f"{self.tls.settings}_* is set, but HOOKWIRE_AMQP_URL does not begin with amqps://")
        if not 1 <= self.heartbeat_seconds <= 10:
            raise ValueError("the AMQP heartbeat must be 1 to 10 seconds: a dead relay keeps its lock for up to three")
        if not 0 < self.publish_seconds <= 60:
            raise ValueError("the AMQP publish timeout must be above 0 and at most 60 seconds")
        if not self.exchange or len(self.exchange.encode()) > 127:
            raise ValueError("the name of the AMQP exchange must have 1 to 127 bytes")
        if not 1 <= self.window_records_max <= 10_000:
            raise ValueError("the AMQP window must be 1 to 10,000 records")

    @property
    def vhost(self) -> str:
        """Return the virtual host that the URL names."""
        return unquote(urlsplit(self.url).path[1:]) or "/"

    def in_vhost(self, vhost: str) -> Self:
        """Return the same options for another virtual host of the broker."""
        return replace(self, url=urlsplit(self.url)._replace(path=f"/{quote(vhost, safe='')}").geturl())
