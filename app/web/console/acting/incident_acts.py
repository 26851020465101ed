"""The acts on an incident: its states, and its dead letters sent again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from app.web.console.acting.act import REASON, Act, Box, Form
from app.web.console.acting.verb import is_one_of, line, reason_of, verb
from app.web.console.cells import address
from app.web.console.inner_api import ApiRequest
from app.web.console.listing.list_view import Item

__all__ = ["OF_INCIDENTS", "replayed_words"]


def replayed_words(answer: Mapping[str, Any]) -> str:
    """Return the confirmation of a replay: how many deliveries, and the forecast at its rate."""
    seconds = answer["seconds_min"]
    forecast = f" At this rate it takes at least {seconds:,.0f} s." if seconds else ""
    number = f"More than {answer['records']:,}" if answer["more"] else f"{answer['records']:,}"
    return f"{number} deliveries would be sent again.{forecast}"


def _replay(identity: str, form: Form, *, is_dry: bool) -> ApiRequest:
    rate = form.get("rate_per_second", "")
    limit = {"rate_per_second": int(rate) if rate.isdecimal() else rate} if rate else {}
    body = {"source": "dead_letters", "incident_id": identity, **limit, **reason_of(form)}
    once = "" if is_dry else form.get("once", "")
    return ApiRequest.with_json("POST", "/replays", body | ({"dry_run": True} if is_dry else {}), once)


def _replay_line(identity: str, form: Form) -> str:
    rate = ["--rate", form["rate_per_second"]] if form.get("rate_per_second") else []
    return line("replay", "--dead-letters", "--incident", identity, *rate, why=form.get("reason", ""))


def _turn(name: str, label: str, question: str, applies: Callable[[Item], bool]) -> Act:
    return verb(name, label, question, f"/incidents/{{}}/{name}", ("incidents", name), applies=applies)


OF_INCIDENTS: Final[Sequence[Act]] = (
    Act(
        "replay", "Send its dead letters again",
        "The dead letters of this incident are sent again in the background, marked as a replay. It can be paused and "
        "cancelled. Dead letters of other causes stay.", ("operate",),
        lambda identity, form: _replay(identity, form, is_dry=False), _replay_line,
        (Box("rate_per_second", "Deliveries a second, at most", length_max=20), REASON),
        applies=lambda one: bool(one["dead"]), counts=lambda identity, form: _replay(identity, form, is_dry=True),
        counted=replayed_words, lands=lambda _, answer: address("replays", answer["id"]),
    ),
    _turn("acknowledge", "Acknowledge", "Others see that a person knows about it.", is_one_of("state", "open")),
    _turn(
        "resolve", "Resolve", "Its cause is gone. A later failure of the same cause opens it again.",
        is_one_of("state", "open", "acknowledged", "ignored"),
    ),
    _turn(
        "ignore", "Ignore", "It is counted, and nobody is told about it any more.",
        is_one_of("state", "open", "acknowledged"),
    ),
    _turn("reopen", "Open again", "It is open as before.", is_one_of("state", "acknowledged", "resolved", "ignored")),
)  # fmt: skip
"""The acts, the cure first."""
