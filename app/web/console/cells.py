"""Cells: the values of an answer of the API as markup. Each text is escaped here, so the pages cannot forget it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from html import escape
from typing import Any, Final
from urllib.parse import quote, urlencode

from app.verdict.counts import EXACT_MAX
from app.web.pages.markup import callback, code, lines, link, moment, pill

__all__ = ["TONES", "address", "body", "bytes_cell", "callback_cell", "link_to", "moment_cell", "plain", "reason_cell",
           "state_cell", "value_cell"]  # fmt: skip

NOTHING: Final = "&ndash;"
_TEXT_MAX: Final = 300
_BODY_MAX: Final = 4_000
TONES: Final = {
    **dict.fromkeys(("delivered", "healthy", "active", "verified", "completed", "sent", "answered", "done",
                     "resolved"), "good"),
    **dict.fromkeys(("retrying", "retry", "paused", "disabled", "verifying", "unfetched", "review", "given_up",
                     "open"), "warn"),
    **dict.fromkeys(("failing", "failed", "dead", "held", "parked", "gone", "denied", "down", "late", "slow", "behind",
                     "discarded", "exhausted", "too_late", "refused", "declined", "aborted", "internal",
                     "expired", "active now"), "bad"),
}  # fmt: skip


def address(*parts: object, **query: object) -> str:
    """Return a relative address of the console; each part and value is encoded."""
    path = "/".join(quote(str(part), safe="") for part in parts)
    named = {name: value for name, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(named)}" if named else path


def link_to(kind: str, identity: object) -> str:
    """Return a link to the page of one thing; a dash for nothing."""
    return link(address(kind, identity), str(identity)) if identity not in (None, "") else NOTHING


def plain(value: object) -> str:
    """Return a short text; a dash for nothing."""
    if value in (None, "", [], {}):
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return escape(text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}…")


def moment_cell(text: str | None) -> str:
    """Return a moment of an answer, as the time since then."""
    return moment(datetime.fromisoformat(text) if text else None, datetime.now(UTC))


def state_cell(state: str | None) -> str:
    """Return a state in its colour."""
    return pill(state, TONES.get(state, "")) if state else NOTHING


def reason_cell(state: str | None, reason: str | None) -> str:
    """Return a state with its reason."""
    return f'{state_cell(state)} <span class="soft">{plain(reason) if reason else ""}</span>'


def callback_cell(url: str | None) -> str:
    """Return a callback without its query."""
    return NOTHING if url is None else callback(url)


def bytes_cell(size: int) -> str:
    """Return a size in bytes."""
    return f"{size:,} B"


def body(text: str | None) -> str:
    """Return the beginning of a content or of an answer, as text."""
    if text is None:
        return NOTHING
    return _cut(text, f"{len(text) - _BODY_MAX:,} more characters")


def _cut(text: str, left: str) -> str:
    """Return the beginning of a text; ``left`` says what it leaves out."""
    return lines(text[:_BODY_MAX], f'\n<span class="soft">… {left}</span>' if len(text) > _BODY_MAX else "")


def _indented(value: Any) -> str:
    """Return JSON on lines, or a beginning that is too long to be shown."""
    text = ""
    for piece in json.JSONEncoder(ensure_ascii=False, indent=1).iterencode(value):
        text += piece
        if len(text) > _BODY_MAX:
            break
    return text


def value_cell(name: str, value: Any) -> str:
    """Return any member of an answer, by its name and its type."""
    if value in (None, "", [], {}):
        return NOTHING
    if isinstance(value, str) or name in _CONTENTS:
        return _text(name, value)
    if name == "waiting" and isinstance(value, int) and value >= EXACT_MAX:
        return f"{value:,} or more"
    if isinstance(value, Mapping):
        return ", ".join(f"{escape(str(key))} {plain(inner)}" for key, inner in list(value.items())[:20])
    if isinstance(value, list):
        return ", ".join(code(plain_text(one)) for one in value[:20]) + (" …" if len(value) > 20 else "")
    return plain(value)


def plain_text(value: object) -> str:
    """Return a value as short text without markup."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text[:_TEXT_MAX]


_KINDS: Final = {
    "subscription_id": "subscriptions",
    "event_id": "events",
    "last_event_id": "events",
    "delivery_id": "deliveries",
    "incident_id": "incidents",
}


_CONTENTS: Final = ("args", "result")
"""Members whose values are JSON of others."""


def _text(name: str, value: Any) -> str:
    if name in _CONTENTS:
        return _cut(_indented(value), "and more")
    if name in _KINDS:
        return link_to(_KINDS[name], value)
    if name in ("state", "health", "verdict"):
        return state_cell(value)
    if name == "callback":
        return callback_cell(value)
    if name.endswith(("_at", "_until", "since")) or name in ("at", "until"):
        return moment_cell(value)
    return plain(value)
