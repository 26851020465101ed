"""Self URL: the URL that another publisher's topic advertises as its own, fetched before a subscription (WS-22)."""

from __future__ import annotations

import asyncio
from urllib.parse import urljoin

from egress.client import Outbound, Request
from egress.failure import OutboundError
from egress.url import UrlRefused, parse_target
from hub.feeds.discovery import DISCOVERY_LIMITS, discover
from hub.options import HubOptions

__all__ = ["TopicSilent", "own_url_of"]

_MOVED = (301, 302, 303, 307, 308)


class TopicSilent(Exception):
    """The topic's page could not be fetched; the text says why."""


async def own_url_of(outbound: Outbound, options: HubOptions, url: str) -> str | None:
    """Return the topic's self URL, or its new URL after a redirect; None when it advertises none. Raise
    :class:`TopicSilent`.
    """
    deadline_seconds = options.verification_deadline_seconds
    try:
        target = parse_target(url, options.url_policy)
        response = await outbound.send(
            Request("GET", target, (), b"", deadline_seconds, reuse=False, limits=DISCOVERY_LIMITS)
        )
    except (UrlRefused, OutboundError) as error:
        raise TopicSilent(str(error)) from None
    location = next(iter(response.values("location")), None)
    if response.status in _MOVED and location:
        return _moved_to(url, location)
    if response.status != 200:
        raise TopicSilent(f"the topic answered {response.status}")
    content_type = next(iter(response.values("content-type")), None)
    # An untrusted page of up to 2 MiB: parse it beside the event loop (T13).
    found = await asyncio.to_thread(discover, response.values("link"), content_type, response.body, url)
    return found.self_url


def _moved_to(url: str, location: str) -> str:
    try:
        return urljoin(url, location)
    except ValueError:  # such as http://[
        raise TopicSilent("the topic redirects to no URL") from None
