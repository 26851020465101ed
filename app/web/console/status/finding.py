"""A finding of the verdict, as a line with the button that leads to where one can act."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from app.verdict.verdict import STATES, Part
from app.web.console.cells import address
from app.web.pages.markup import pill

__all__ = ["finding_line", "findings_content"]

_TONES = {"trouble": "bad", "attention": "warn", "ok": "good"}
_WORDS = {"trouble": "bad", "attention": "warn"}
_FINDINGS_MAX = 10
_PAGES: Mapping[str, str] = {"subscription": "subscriptions", "queue": "queues", "service": "services"}
_LISTS_OF_KINDS: Mapping[str, str] = {"task": "tasks", "job": "jobs"}


def findings_content(word: str, parts: Sequence[Part], more: str = "../status") -> str:
    """Return the verdict, and what has to be looked at, the most urgent first. ``more`` shows all of it."""
    if not parts:
        return f'<p class="verdict">{pill("ok", "good")} Nothing is down, late, held or failing.</p>'
    left = len(parts) - _FINDINGS_MAX
    items = "".join(f"<li>{finding_line(part)}</li>" for part in parts[:_FINDINGS_MAX])
    others = f'<p class="soft">and {left:,} more: <a href="{more}">/status</a></p>' if left > 0 else ""
    number = "1 thing needs" if len(parts) == 1 else f"{len(parts):,} things need"
    order = "" if len(parts) == 1 else ", the worst first"
    return (
        f'<div class="verdict" data-word="{word}"><p>{pill(word, _WORDS[word])} {number} action{order}.</p>'
        f"<ol>{items}</ol>{others}</div>"
    )


def finding_line(part: Part) -> str:
    """Return state, sentence and button of one finding."""
    where, label = _way_to(part)
    button = f' <a class="button" href="{escape(where)}">{label}</a>' if where else ""
    return f"{pill(part.state, _TONES[STATES[part.state]])} {escape(part.sentence)}{button}"


def _way_to(part: Part) -> tuple[str, str]:
    """Return the address of the page where one acts, and the label of its button."""
    if part.kind in _PAGES:
        return address(_PAGES[part.kind], part.name), "Open"
    if part.kind in _LISTS_OF_KINDS:
        return address(_LISTS_OF_KINDS[part.kind], kind=part.name), f"See {part.kind}s"
    first, _, rest = part.name.partition(" ")
    if part.kind == "hold":
        return address("holds", sink=first, topic=rest), "See holds"
    if part.kind == "dead_letters":
        chosen = {"sink": first} if rest else {"subscription_id": first}
        return address("dead-letters", **chosen), "See dead letters"
    if part.kind == "sink" and part.state == "paused":
        return address("sinks", part.name), "Open"
    return (address("undelivered", outcome="waiting"), "See what waits") if part.kind == "sink" else ("", "")
