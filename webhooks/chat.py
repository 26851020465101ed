"""Chat: an event as a line in a room, by the incoming webhooks of Slack and Mattermost, or over XMPP.

::

    template   *{topic}* {data.customer} paid {data.total}
                  |  names: id, topic, key, time, content; data.a.b leads into JSON; what is not there is nothing
                  v
    line       *orders.paid* customer-17 paid 19.90
                  |  as the incoming webhook takes it
                  v
    body       {"text": "*orders.paid* customer-17 paid 19.90"}

A publisher's text cannot call people (``<!channel>``, ``@all``) and cannot hide a link behind other words
(``<url|words>``, ``[words](url)``). A plain URL stays one: chats make it clickable, and it says where it leads.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from event.attribute import format_time
from event.event import Event
from event.strict_json import StrictJsonError, loads

__all__ = ["CHAT_FORMATS", "TEMPLATE_MAX", "TemplateRefused", "chat_body", "chat_line", "check_template"]

CHAT_FORMATS: Final = ("slack", "mattermost")
TEMPLATE_MAX: Final = 2_000
_TEXT_MAX = 4_000
"""The length of a message that Slack shows without folding; Mattermost accepts four times as much."""
# XMPP has plain text: clients differ in whether they show asterisks as bold.
_USUAL: Final = {"slack": "*{topic}* {content}", "mattermost": "**{topic}** {content}", "xmpp": "{topic}: {content}"}
_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that XML 1.0 cannot carry in any form: they would end the stream."""
_NAMES: Final = ("id", "topic", "key", "time", "content")
_PLACE = re.compile(r"\{([^{}]*)\}")
_PATH = re.compile(r"data(\.[^.{}\s]{1,100}){1,10}")


class TemplateRefused(ValueError):
    """The template has an unknown name; the text says which."""


def check_template(template: str) -> None:
    """Raise :class:`TemplateRefused` for a template with an unknown name."""
    for name in _PLACE.findall(template):
        if name not in _NAMES and not _PATH.fullmatch(name):
            raise TemplateRefused(f"{{{name}}} is none of {', '.join(_NAMES)} and data.NAME")


def chat_body(form: str, template: str | None, event: Event) -> bytes:
    """Return the JSON that the incoming webhook of this chat takes; ``template`` None: topic and content."""
    return json.dumps({"text": chat_line(form, template, event)}).encode()


def chat_line(form: str, template: str | None, event: Event) -> str:
    """Return the line itself, 4,000 characters at most; ``form`` is a chat's format or ``xmpp``."""
    text = _filled(form, template or _USUAL[form], event)
    if form == "xmpp":
        text = _NOT_IN_XML.sub("\ufffd", text)
    if not text.strip():  # no chat takes a line with nothing in it
        return "…"
    return text if len(text) <= _TEXT_MAX else text[: _TEXT_MAX - 1] + "…"


def _filled(form: str, template: str, event: Event) -> str:
    """Return the template with its values, or the beginning of it that is too long for a line.

    No value is longer than a line before it is escaped, so that a large event in many places costs little.
    """
    values = {
        "id": event.event_id, "topic": event.topic, "key": event.key or "", "time": format_time(event.accepted_at),
        "content": _content(event),
    }  # fmt: skip
    data = _data(event) if "{data." in template else None

    def value(name: str) -> str:
        found = values[name] if name in values else _text(_at(data, name.split(".")[1:]))
        return _inert(form, found[: _TEXT_MAX + 1])

    text = ""
    for number, part in enumerate(_PLACE.split(template)):
        text += value(part) if number % 2 else part  # every second part is the name of a place
        if len(text) > _TEXT_MAX:
            break
    return text


def _inert(form: str, text: str) -> str:
    if form == "slack":  # the three characters that its own rules have escaped
        return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    if form == "mattermost":
        return text.replace("@", "@\u200b").replace("]", "]\u200b")
    return text


def _content(event: Event) -> str:
    try:
        return event.payload.decode()
    except UnicodeDecodeError:
        return f"({len(event.payload)} bytes of {event.content_type or 'no type'})"


def _data(event: Event) -> Any:
    try:
        return loads(event.payload)
    except StrictJsonError:
        return None


def _at(data: Any, path: list[str]) -> Any:
    for name in path:
        if isinstance(data, list) and name.isascii() and name.isdigit() and int(name) < len(data):
            data = data[int(name)]
        elif isinstance(data, dict):
            data = data.get(name)
        else:
            return None
    return data


def _text(found: Any) -> str:
    if found is None:
        return ""
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
