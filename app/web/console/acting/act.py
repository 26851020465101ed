"""Act: something that a reader can do, as data; its form, its confirmation, and what it stands for.

::

    GET  .../{act}   form: what will happen, the fields, the request and the command that do the same; where it counts
                     first, the number for these fields
    POST .../{act}   (with other fields than those that were counted) the number, and the form again for a confirmation
    POST .../{act}   the request of the API; a refusal shows the form again, with the reason
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from html import escape
from typing import Any, Final

from app.web.console.cells import address
from app.web.console.inner_api import ApiRequest
from app.web.console.listing.list_view import Item
from app.web.pages.markup import lines, section
from app.web.pages.shell import PageFrame, form_fields
from hub.keys import Scope

__all__ = ["REASON", "Act", "Box", "act_content", "counted_mark", "done_words"]

Form = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Box:
    """A field of a form. ``kind`` is text, area, check, or choice with ``choices``."""

    name: str
    label: str
    kind: str = "text"
    choices: Sequence[str] = ()
    value: str = ""
    is_required: bool = False
    length_max: int = 2_000


_UNCOUNTED: Final = frozenset({"reason", "rate_per_second"})
REASON: Final = Box("reason", "Reason, for the audit trail", length_max=500)


@dataclass(frozen=True, slots=True)
class Act:
    """An act. ``ask`` and ``command`` make the request and the command line of an id and the form's fields.

    ``applies``: whether it is possible for this thing now. ``counts``: the request that counts what it would change.
    ``lands``: where its answer leads to; ``shows``: the content of its own page instead, for a secret shown once.
    ``foretells``: the path, with ``{}`` for the id, whose answer ``foretold`` puts into words above the form.
    """

    name: str
    label: str
    question: str
    scopes: Sequence[Scope]
    ask: Callable[[str, Form], ApiRequest]
    command: Callable[[str, Form], str]
    boxes: Sequence[Box] = ()
    applies: Callable[[Item], bool] = field(default=lambda _: True)
    is_danger: bool = False
    counts: Callable[[str, Form], ApiRequest] | None = None
    counted: Callable[[Any], str] = field(default=lambda _: "")
    lands: Callable[[str, Any], str] | None = None
    shows: Callable[[Any], str] | None = None
    foretells: str = ""
    foretold: Callable[[Item], str] = field(default=lambda _: "")


def done_words(act: Act) -> str:
    """Return the line that a page shows after an act."""
    return f'<p class="notice" role="status">Done: {escape(act.label.lower())}.</p>'


def act_content(
    frame: PageFrame, act: Act, where: str, identity: str, form: Form, public_url: str,
    *, refusal: str = "", count: str | None = None, is_open: bool = False, forecast: str = "",
) -> str:  # fmt: skip
    """Return the form. ``where`` is its own address; ``count`` is what was counted, and asks for the confirmation.

    ``is_open``: the fields can still be changed; then it counts again. ``forecast``: what would happen, in words.
    """
    told = f'<p class="notice bad" role="alert">{escape(refusal)}</p>' if refusal else ""
    asked = f'<p class="notice" role="status"><strong>{escape(count)}</strong></p>' if count is not None else ""
    is_fixed = count is not None and not is_open
    fields = "".join(_hidden(one, form) if is_fixed else _field(one, form) for one in act.boxes)
    once = escape(form.get("once", "") or secrets.token_hex(8))
    mark = f'<input type="hidden" name="counted" value="{counted_mark(act, form)}">' if count is not None else ""
    label = f"Yes, {act.label.lower()}" if count is not None else act.label
    if act.counts is not None and count is None:
        label = "Count first"
    above = where.split("/")[:-1]
    back = address(*(above[:-1] if not identity and above[-1] == "all" else above))
    buttons = (
        f'<div class="buttons"><button{_danger(act)}>{escape(label)}</button>{_recount(is_open)}'
        f'<a class="button" href="{escape(back)}">Cancel</a></div>'
    )
    content = (
        f"{told}<p>{escape(act.question)}</p>{_soft(forecast)}{asked}"
        f'<form class="act" method="post" action="{escape(where)}">'
        f'{form_fields(frame)}<input type="hidden" name="once" value="{once}">{mark}{fields}{buttons}</form>'
        f"{_same(act, identity, form, public_url)}"
    )
    title = f"{act.label}: {identity}" if identity else act.label
    return section(title, content)


def _soft(words: str) -> str:
    return f'<p class="soft">{escape(words)}</p>' if words else ""


def _same(act: Act, identity: str, form: Form, public_url: str) -> str:
    """Return the request and the command that do the same."""
    ask = act.ask(identity, form)
    body = f"\n\n{ask.body.decode('utf-8', 'replace')}" if ask.body else ""
    request = f"{ask.method} {public_url}{ask.target}{body}"
    return (
        '<p class="soft">This form stands for the request</p>'
        f'{lines(request[:2_000])}<p class="soft">and for the command</p>'
        f"{lines(act.command(identity, form)[:2_000])}"
    )


def counted_mark(act: Act, form: Form) -> str:
    """Return a mark of the fields that decide what is counted. The form carries it, so that other fields are counted
    again before anything is done.
    """
    chosen = [(one.name, _value(one, form)) for one in act.boxes if one.name not in _UNCOUNTED]
    return sha256(json.dumps(chosen).encode()).hexdigest()[:16]


def _value(one: Box, form: Form) -> str:
    """Return what a browser sends for a field: of a choice, the first one where none is named."""
    return form.get(one.name) or one.value or (one.choices[0] if one.kind == "choice" else "")


def _recount(is_open: bool) -> str:
    return '<button name="recount" value="yes">Count all</button>' if is_open else ""


def _danger(act: Act) -> str:
    return ' class="danger"' if act.is_danger else ""


def _hidden(one: Box, form: Form) -> str:
    value = form.get(one.name, "")
    return f'<input type="hidden" name="{one.name}" value="{escape(value)}">' if value else ""


def _field(one: Box, form: Form) -> str:
    value = form.get(one.name, one.value)
    must, bound = " required" if one.is_required else "", f' maxlength="{one.length_max}"'
    if one.kind == "check":
        state = " checked" if value else ""
        box = f'<input type="checkbox" name="{one.name}" value="yes"{state}>'
        return f'<label class="check">{box}{escape(one.label)}</label>'
    if one.kind == "area":
        return f'<label>{escape(one.label)}<textarea name="{one.name}"{must}{bound}>{escape(value)}</textarea></label>'
    if one.kind == "choice":
        options = "".join(
            f'<option value="{escape(choice)}"{" selected" if choice == value else ""}>{escape(choice or "-")}</option>'
            for choice in one.choices
        )
        return f'<label>{escape(one.label)}<select name="{one.name}">{options}</select></label>'
    return (
        f'<label>{escape(one.label)}<input type="text" name="{one.name}" value="{escape(value)}"{must}{bound}></label>'
    )
