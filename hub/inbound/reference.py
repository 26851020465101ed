"""Reference: a place in a signed request, ``header:x-github-event`` or ``body:event.type``; and a topic's template.

A request is read only after its signature was checked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from event.strict_json import check_shape
from event.topic import TopicError, is_reserved, validate_topic
from hub.inbound.scheme import Headers

__all__ = ["ReferenceRefused", "SignedRequest", "check_reference", "check_template", "topic_of"]

UNKNOWN_TYPE: Final = "unknown"
_FORM = re.compile(r"header:[a-z0-9][a-z0-9_-]{0,99}|body:[A-Za-z0-9_$-]{1,100}(?:\.[A-Za-z0-9_$-]{1,100}){0,7}")
_NO_WORD = re.compile(r"[^A-Za-z0-9_-]+")
_BETWEEN_WORDS = re.compile(r"[./:]+")
_TOPIC_MAX: Final = 249
_KINDS_MAX: Final = 4_096
_KIND_CHARACTERS_MAX: Final = 200


class ReferenceRefused(ValueError):
    """This text names no place in a request, or makes no topic; the text says why."""


def check_reference(text: str) -> str:
    """Return the text of a reference; raises :class:`ReferenceRefused`."""
    if not _FORM.fullmatch(text):
        raise ReferenceRefused(f"{text[:80]!r} is not header:<name in lower case> and not body:<member.member>")
    return text


def check_template(template: str, source: str) -> str:
    """Return the template of a topic; raises :class:`ReferenceRefused`. ``source`` is the name of the door."""
    try:
        topic_of(template, source, "a")
    except TopicError as error:
        raise ReferenceRefused(f"the template makes no topic: {error}") from None
    if template.startswith("{type}"):
        raise ReferenceRefused("a template begins with a word of yours, so that the sender does not choose any topic")
    return template


def topic_of(template: str, source: str, kind: str | None) -> str:
    """Return the topic for an event type; raises ``event.topic.TopicError`` if the template makes none.

    In the type, ``.``, ``/`` and ``:`` separate words, and any other character that a topic cannot have becomes ``_``.
    """
    kind = kind or ""
    return (_known_topic if len(kind) <= _KIND_CHARACTERS_MAX else _topic)(template, source, kind)


def _topic(template: str, source: str, kind: str) -> str:
    words = [_NO_WORD.sub("_", word) for word in _BETWEEN_WORDS.split(kind)]
    text = ".".join(word for word in words if word)[:_TOPIC_MAX] or UNKNOWN_TYPE  # a template may name it often
    made = template.replace("{source}", source).replace("{type}", text)
    made = made[:_TOPIC_MAX].rstrip(".")
    if is_reserved(made):
        raise TopicError("topics that begin with hookwire. are the hub's own")
    return validate_topic(made)


_known_topic = lru_cache(maxsize=_KINDS_MAX)(_topic)


class SignedRequest:
    """The headers and the body of a request whose signature is right. The body is parsed when a reference needs it."""

    def __init__(self, headers: Headers, body: bytes) -> None:
        self._headers = headers
        self._body = body
        self._root: object = _UNREAD

    def first(self, references: Sequence[str]) -> str | None:
        """Return the text at the first of the references that has one; None if none has."""
        for reference in references:
            found = self.at(reference)
            if found:
                return found
        return None

    def at(self, reference: str) -> str | None:
        """Return the text at a reference: a header that came once, or a text or number of the JSON body."""
        place, _, name = reference.partition(":")
        if place == "header":
            values = self._headers.get(name, ())
            return values[0].decode("utf-8", "replace") if len(values) == 1 else None
        found = self._json()
        for member in name.split("."):
            found = found.get(member) if isinstance(found, dict) else None
        if isinstance(found, bool) or not isinstance(found, (str, int)):
            return None
        return str(found).encode("utf-8", "replace").decode()

    def _json(self) -> object:
        if self._root is _UNREAD:
            try:
                text = self._body.decode()
                check_shape(text)
                self._root = json.loads(text)
            except (ValueError, RecursionError):  # StrictJsonError is a ValueError
                self._root = None
        return self._root


_UNREAD: Final = object()
