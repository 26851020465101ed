"""Topic URLs: find the topic of a URL, and compare URLs (WS-20, WS-23).

A topic ``orders.paid`` has one URL, ``<PUBLIC_URL>/topics/orders.paid``: its canonical form, advertised as
``rel="self"`` (the header's text: ``webhooks.message.link_header``). A subscriber may spell it differently. Two
spellings are equal if they are equal after **one** decoding of percent-encoded unreserved characters (RFC 3986 sections
2.3, 6.2.2)::

    HTTP://Hub.Example/topics/%6frders.paid  -->  http://hub.example/topics/orders.paid      the same
    http://hub.example/topics%2Forders.paid  -->  http://hub.example/topics%2Forders.paid    another: / is reserved
    http://hub.example/topics/%256frders     -->  http://hub.example/topics/%256frders       another: one pass only

The decoded text is for comparison only. The original text is stored and sent back.
"""

from __future__ import annotations

import hashlib
import re

from event.topic import TopicError, is_reserved, validate_topic

__all__ = [
    "TOPIC_URL_BYTES_MAX",
    "ForeignTopic",
    "TopicUrlRefused",
    "foreign_name",
    "hub_url",
    "identity",
    "matching_text",
    "topic_of",
    "url_of",
]

TOPIC_URL_BYTES_MAX = 2048
"""Longest topic URL accepted (WS-21, WS-102)."""

_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_URL = re.compile(r"(?i:https?)://(?P<authority>[^/?]+)")
_NOT_IN_A_URL = re.compile(r"[\x00-\x20\x7f]")


class TopicUrlRefused(ValueError):
    """The text is no topic URL, or a URL of this hub that names no topic; the text may be shown to the caller."""


class ForeignTopic(ValueError):
    """The URL is well formed, but the topic is not hosted here; the text may be shown to the caller."""


def hub_url(public_url: str) -> str:
    """Return the URL that subscribers POST their forms to; advertised as ``rel="hub"``."""
    return f"{public_url}/hub"


def url_of(public_url: str, topic: str) -> str:
    """Return the canonical URL of a topic.

    A topic's name holds unreserved characters only, so nothing needs escaping.
    """
    return f"{public_url}/topics/{topic}"


def topic_of(public_url: str, url: str) -> str:
    """Return the name of the hosted topic that the URL means; it need not exist yet.

    Raises:
        TopicUrlRefused: not an absolute http or https URL of at most 2,048 bytes without user info, fragment, white
            space and control characters (WS-21, WS-27). Also an address of this hub that is no topic (B-28), or one of
            its own topics, which need a key.
        ForeignTopic: a topic of another publisher.
    """
    _check_form(url)
    text, home = matching_text(url), matching_text(public_url)
    name = text.removeprefix(f"{home}/topics/")
    if name == text:
        if text == home or text.startswith((f"{home}/", f"{home}?")):
            raise TopicUrlRefused(f"is an address of this hub, but not a topic: topics are {public_url}/topics/...")
        raise ForeignTopic(f"is not hosted by this hub: topics here are {public_url}/topics/...")
    try:
        validate_topic(name)
    except TopicError as error:
        raise TopicUrlRefused(f"names no possible topic: {error}") from error
    if is_reserved(name):  # operator events, and the messages of RabbitHub's queues
        raise TopicUrlRefused("names a topic of the hub's own")
    return name


def foreign_name(url: str) -> str:
    """Return the local name of another publisher's topic: a digest of its matching text, in the hub's own namespace."""
    return f"hookwire.web.{hashlib.sha256(matching_text(url).encode()).hexdigest()[:40]}"


def matching_text(url: str) -> str:
    """Return the text by which a URL is compared. Escapes of unreserved characters are decoded once, other escapes are
    in upper case, scheme and authority in lower case. Never send it.
    """
    decoded = _ESCAPE.sub(_decode_unreserved, url)
    scheme, mark, rest = decoded.partition("://")
    if not mark:
        return decoded
    end = min((at for at in (rest.find("/"), rest.find("?")) if at >= 0), default=len(rest))
    return f"{scheme.lower()}://{rest[:end].lower()}{rest[end:]}"


def identity(topic: str, callback: str) -> bytes:
    """Return the digest by which requests and subscriptions belong together (WS-20): SHA-256 over topic, a zero byte
    and the callback's matching text.

    It uses the topic's name, so that it outlives a change of the public URL.
    """
    return hashlib.sha256(f"{topic}\0{matching_text(callback)}".encode()).digest()


def _check_form(url: str) -> None:
    if len(url.encode("utf-8", "surrogatepass")) > TOPIC_URL_BYTES_MAX:
        raise TopicUrlRefused(f"is longer than {TOPIC_URL_BYTES_MAX} bytes")
    if _NOT_IN_A_URL.search(url):
        raise TopicUrlRefused("contains white space or a control character")
    if "#" in url:
        raise TopicUrlRefused("must not have a fragment")
    match = _URL.match(url)
    if match is None:
        raise TopicUrlRefused("must be an absolute http or https URL")
    if "@" in match["authority"]:
        raise TopicUrlRefused("must not contain credentials")


def _decode_unreserved(match: re.Match[str]) -> str:
    character = chr(int(match[1], 16))
    return character if character in _UNRESERVED else match[0].upper()
