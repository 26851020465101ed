"""Hookwire and AsyncHookwire: a hub, as an object whose attributes are the nouns of its API.

::

    hub = Hookwire("http://127.0.0.1:8080", token="hwk_...")
    hub.publish("orders.created", {"order": 1}, key="ada")      # stored once, also if an answer is lost
    hub.subscriptions.create(topic="orders.*", callback="https://...")

Address and token default to HOOKWIRE_URL and HOOKWIRE_TOKEN.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Final, Self
from urllib.parse import urlsplit

from hookwire.client.event import Event, Outcome, Published
from hookwire.client.noun import Place
from hookwire.client.nouns import AsyncNouns, Nouns
from hookwire.client.payload import NOTHING
from hookwire.client.publishing import publish_many_steps, publish_steps
from hookwire.client.pulling import AsyncPull, Pull, PullOptions
from hookwire.client.transport import AsyncTransport, Transport

__all__ = ["AsyncHookwire", "Hookwire"]

_URL: Final = "http://127.0.0.1:8080"


def _place(url: str | None, token: str | None, timeout_seconds: float) -> Place:
    address = (url or os.environ.get("HOOKWIRE_URL") or _URL).rstrip("/")
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError("the hub's address is a URL like http://127.0.0.1:8080, without query and fragment")
    if "@" in parts.netloc:
        raise ValueError("the hub's address holds no user; pass the token as token= or in HOOKWIRE_TOKEN")
    secret = token or os.environ.get("HOOKWIRE_TOKEN") or None
    if secret is not None and not (secret.isascii() and secret.isprintable()):
        raise ValueError("the token is one line of ASCII; was it read from a file with its line end?")
    if timeout_seconds <= 0:
        raise ValueError("timeout_seconds is more than 0")
    return Place(address, secret, timeout_seconds)


class Hookwire(Nouns):
    """A hub, for threads. ``timeout_seconds`` limits each call with all its repeats.

    ``http`` is a client of httpx2 of your own: for HTTP/2, a proxy, certificates. It may be used without ``with``.
    """

    def __init__(
        self, url: str | None = None, token: str | None = None, *, http: Any = None, timeout_seconds: float = 30.0
    ) -> None:
        self._transport = Transport(_place(url, token, timeout_seconds), http)
        super().__init__(self._transport)

    def publish(
        self, topic: str, data: Any = NOTHING, *, key: str | None = None, content_type: str | None = None,
        headers: Mapping[str, str] | None = None, idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> Published:  # fmt: skip
        """Publish an event, and return when it is stored. Repeats have one idempotency key, so it is stored once.

        ``headers``: your own, ``ce-*``, ``hookwire-ttl``, ``hookwire-retry`` and ``hookwire-tombstone``. Raise
        TypeError for data that cannot be sent, and :class:`hookwire.HookwireError`.
        """
        event = Event(topic, data, key, content_type, headers or {}, idempotency_key)
        return self._transport.run(publish_steps(self._transport.place, event, timeout_seconds))

    def publish_many(self, events: Iterable[Event], *, timeout_seconds: float | None = None) -> list[Outcome]:
        """Publish many events, and return an outcome for each, in their order. Each is stored once, or not at all."""
        return self._transport.run(publish_many_steps(self._transport.place, events, timeout_seconds))

    def pull(
        self, topic: str, *, name: str | None = None, ordered: bool = False, filter: Mapping[str, Any] | None = None,  # noqa: A002
        start: str | None = None, batch: int = 10, lease_seconds: float = 60.0,
    ) -> Pull:  # fmt: skip
        """Return the events of a pull subscription, for a ``with`` block. With ``name`` it is kept and found again."""
        return Pull(self.subscriptions, PullOptions(topic, name, ordered, filter, start, batch, lease_seconds))

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._transport.place.base!r})"


class AsyncHookwire(AsyncNouns):
    """A hub, for tasks. The names are those of :class:`Hookwire`; calls are awaited, and lists are ``async for``."""

    def __init__(
        self, url: str | None = None, token: str | None = None, *, http: Any = None, timeout_seconds: float = 30.0
    ) -> None:
        self._transport = AsyncTransport(_place(url, token, timeout_seconds), http)
        super().__init__(self._transport)

    async def publish(
        self, topic: str, data: Any = NOTHING, *, key: str | None = None, content_type: str | None = None,
        headers: Mapping[str, str] | None = None, idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> Published:  # fmt: skip
        """Publish an event, as :meth:`Hookwire.publish` does."""
        event = Event(topic, data, key, content_type, headers or {}, idempotency_key)
        return await self._transport.run(publish_steps(self._transport.place, event, timeout_seconds))

    async def publish_many(self, events: Iterable[Event], *, timeout_seconds: float | None = None) -> list[Outcome]:
        """Publish many events, as :meth:`Hookwire.publish_many` does."""
        return await self._transport.run(publish_many_steps(self._transport.place, events, timeout_seconds))

    def pull(
        self, topic: str, *, name: str | None = None, ordered: bool = False, filter: Mapping[str, Any] | None = None,  # noqa: A002
        start: str | None = None, batch: int = 10, lease_seconds: float = 60.0,
    ) -> AsyncPull:  # fmt: skip
        """Return the events of a pull subscription, for an ``async with`` block and an ``async for`` loop in it."""
        return AsyncPull(self.subscriptions, PullOptions(topic, name, ordered, filter, start, batch, lease_seconds))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._transport.place.base!r})"
