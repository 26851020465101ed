"""Exchanges: choose the topic of a message, and the topics of a binding (AMQP 0-9-1, 3.1.3). Pure.

A message of exchange 7 with the routing key ``eu.orders`` is an event of ``hookwire.rabbithub.x7.k.eu.orders``. So
patterns of topics do the work of an exchange::

    direct   key            exactly that topic
    fanout   anything       every topic of the exchange
    topic    eu.*, eu.#     that pattern
    headers  x-match=all, colour=red      every topic, and a filter on the message's headers

Words of a routing key may hold characters that a topic may not. These are written ``_XX`` (hexadecimal, UTF-8).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from event.topic import TOPIC_LENGTH_MAX, TopicError, compile_pattern, validate_pattern
from hub.filter import FilterError, compile_filter

__all__ = [
    "BUILT_IN",
    "TYPES",
    "Binding",
    "RoutingError",
    "bind",
    "parse_headers",
    "queue_topic",
    "root_topic",
    "topic_of_key",
]

TYPES: Final = ("direct", "fanout", "topic", "headers")
BUILT_IN: Final = {
    "": "direct", "amq.direct": "direct", "amq.fanout": "fanout", "amq.topic": "topic", "amq.headers": "headers",
    "amq.match": "headers",
}  # fmt: skip
"""The exchanges that each virtual host has (AMQP 0-9-1, 3.1.3). The one without a name is the default one."""
_HEADER_NAME = re.compile(r"[a-z0-9_.-]{1,100}")
# Each part is possessive: no two of them try the same blanks, so the time is linear in the text.
_PAIR = re.compile(r'\s*+([^=,"\s]++)\s*+=\s*+(?:"((?:[^"\\]|\\.)*+)"|([^,"]*+))\s*+(?:,|$)')
_HEADER_LIST_CHARACTERS_MAX = 4_096


class RoutingError(ValueError):
    """An invalid routing key, binding or list of headers; the text may be shown to the caller."""


@dataclass(frozen=True, slots=True)
class Binding:
    """The choice of a subscription: a topic or pattern, its regular expression, and a filter's path."""

    topic: str
    regex: str | None = None
    filter_path: str | None = None


def topic_of_key(exchange: int, key: str) -> str:
    """Return the topic of a message with this routing key; raise `RoutingError` for one that is too long."""
    _bounded(key)
    words = "".join(f".{_word(word)}" for word in key.split(".")) if key else ""
    return _bounded(f"{root_topic(exchange)}{words}")


def queue_topic(queue: int) -> str:
    """Return the topic of a queue's messages."""
    return f"hookwire.rabbithub.q{queue}"


def bind(exchange: int, exchange_type: str, hub_topic: str) -> Binding:
    """Return the choice of ``hub.topic`` on an exchange of this type; raise `RoutingError`."""
    everything = f"{root_topic(exchange)}.#"
    if exchange_type == "direct":
        return Binding(topic_of_key(exchange, hub_topic))
    if exchange_type == "topic":
        named = _bounded(hub_topic).split(".") if hub_topic else []
        words = "".join(f".{word if word in ('*', '#') else _word(word)}" for word in named)
        try:
            pattern = validate_pattern(_bounded(f"{root_topic(exchange)}{words}"))
        except TopicError as error:
            raise RoutingError(str(error)) from None
        return Binding(pattern, compile_pattern(pattern))
    if exchange_type == "headers":
        return Binding(everything, compile_pattern(everything), _headers_filter(hub_topic))
    return Binding(everything, compile_pattern(everything))


def parse_headers(text: str) -> dict[str, str]:
    """Read ``k=v, k2="v, 2"``: names in lower case; a value in quotes keeps commas and spaces.

    Raise `RoutingError` for a malformed list, or one longer than 4,096 characters.
    """
    if len(text) > _HEADER_LIST_CHARACTERS_MAX:
        raise RoutingError(f"a list of headers has at most {_HEADER_LIST_CHARACTERS_MAX} characters")
    headers: dict[str, str] = {}
    position, end = 0, len(text.rstrip())
    while position < end:
        match = _PAIR.match(text, position)
        if match is None or not _HEADER_NAME.fullmatch(match[1].lower()):
            raise RoutingError('headers are written name=value, name="value"')
        quoted, plain = match[2], match[3]
        headers[match[1].lower()] = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else plain.rstrip()
        position = match.end()
    return headers


def _headers_filter(text: str) -> str | None:
    wanted = parse_headers(text)
    match = wanted.pop("x-match", "all")
    if match not in ("all", "any"):
        raise RoutingError("x-match is all or any")
    conditions = [{"headers": {name: value}} for name, value in wanted.items()]
    try:
        return compile_filter({f"${'and' if match == 'all' else 'or'}": conditions}) if conditions else None
    except FilterError as error:
        raise RoutingError(f"the list of headers cannot be a filter: {error}") from None


def root_topic(exchange: int) -> str:
    """Return the topic of an exchange's messages without a routing key; all others are below it."""
    return f"hookwire.rabbithub.x{exchange}.k"


def _word(word: str) -> str:
    if not word:
        return "_"
    return re.sub(r"[^A-Za-z0-9-]", lambda match: "".join(f"_{byte:02X}" for byte in match[0].encode()), word)


def _bounded(topic: str) -> str:
    """Refuse a text longer than a topic; a routing key is never longer than the topic that is made of it."""
    if len(topic) > TOPIC_LENGTH_MAX:
        raise RoutingError("the routing key is too long")
    return topic
