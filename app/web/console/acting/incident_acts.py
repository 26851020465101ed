"""The acts on an incident: its states, and its dead letters sent again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any, Final

from app.web.console.acting.act import REASON, Act, Box, Form
from app.web.console.acting.verb import is_one_of, json_request, line, rate_of, reason_of, verb
from app.web.console.cells import address, body, link_to, plain, state_cell
from app.web.console.inner_api import ApiRequest
from app.web.console.listing.list_view import Item
from app.web.pages.markup import facts
from runtime.counted import counted

__all__ = ["OF_INCIDENTS", "replayed_words"]


def replayed_words(answer: Mapping[str, Any]) -> str:
    """Return the confirmation of a replay: how many deliveries, and the forecast at its rate."""
    seconds = answer["seconds_min"]
    forecast = f" At this rate it takes at least {seconds:,.0f} s." if seconds else ""
    number = f"{'More than ' if answer['more'] else ''}{counted(answer['records'], 'delivery')}"
    return f"{number} would be sent again.{forecast}"


def _replay(identity: str, form: Form, *, is_dry: bool) -> ApiRequest:
    body = {"source": "dead_letters", "incident_id": identity, **rate_of(form), **reason_of(form)}
    once = "" if is_dry else form.get("once", "")
    return ApiRequest.with_json("POST", "/replays", body | ({"dry_run": True} if is_dry else {}), once)


def _replay_line(identity: str, form: Form) -> str:
    rate = ["--rate", form["rate_per_second"]] if form.get("rate_per_second") else []
    return line("replay", "--dead-letters", "--incident", identity, *rate, why=form.get("reason", ""))


def _probe(identity: str, form: Form) -> ApiRequest:
    return json_request("POST", "/incidents/{}/probe", identity, _edit(form))


def _recovery(identity: str, form: Form) -> ApiRequest:
    body = rate_of(form) | reason_of(form)
    return json_request("POST", "/incidents/{}/recover", identity, body, form.get("once", ""))


def _recovery_line(identity: str, form: Form) -> str:
    rate = ["--rate", form["rate_per_second"]] if form.get("rate_per_second") else []
    return line("incidents", "recover", identity, *rate, why=form.get("reason", ""))


def _counted_recovery(identity: str, form: Form) -> ApiRequest:
    return json_request("POST", "/incidents/{}/recover", identity, rate_of(form) | {"dry_run": True})


def _recovery_words(answer: Mapping[str, Any]) -> str:
    """Return what a delivered probe leads to: the state of the subscription, and the number with its forecast."""
    enabled = "The subscription takes no deliveries now and would be enabled. " if answer["enabled"] else ""
    return (
        f"One dead letter would be sent first. If it is delivered: {enabled}{replayed_words(answer)}{_missed(answer)}"
    )


def _missed(answer: Mapping[str, Any]) -> str:
    """Return the words for what was accepted while the subscription was disabled."""
    if answer["missed"] is None:
        return " Which events it missed while it was disabled is unknown: send them again from its own page."
    missed = f"{'more than ' if answer['missed_more'] else ''}{counted(answer['missed'], 'event')}"
    return f" So would {missed} that it missed while it was disabled." if answer["missed"] else ""


def _recovered(answer: Mapping[str, Any]) -> str:
    """Return what was done, and what the receiver said."""
    if not answer["recovered"]:
        reason = answer["reason"]
        words = f'<p class="notice bad" role="alert">{escape(reason[0].upper() + reason[1:])}.</p>'
        return words + _answer(answer["probe"], "")
    enabled = " The subscription is enabled." if answer["enabled"] else ""
    reason = answer["reason"]
    words = f"{reason[0].upper()}{reason[1:]}.{enabled} The other dead letters are sent again in the background."
    made = [answer[name] for name in ("replay_id", "missed_replay_id") if answer[name]]
    ways = " ".join(link_to("replays", replay) for replay in made)
    return f'<p class="notice" role="status">{escape(words)}</p><p>{ways}</p>{_answer(answer["probe"], "")}'


def _edit(form: Form) -> dict[str, Any]:
    named: dict[str, Any] = {name: form[name] for name in ("content", "target") if form.get(name)}
    pairs = [one.partition(":") for one in form.get("headers", "").splitlines() if one.strip()]
    headers = {name.strip(): value.strip() for name, _, value in pairs}
    return named | ({"headers": headers} if headers else {}) | reason_of(form)


def _probe_line(identity: str, form: Form) -> str:
    edit = _edit(form)
    words = [word for name in ("content", "target") if name in edit for word in (f"--{name}", edit[name])]
    words += [word for name, value in edit.get("headers", {}).items() for word in ("--header", f"{name}: {value}")]
    return line("incidents", "probe", identity, *words, why=form.get("reason", ""))


def _probed(answer: Mapping[str, Any]) -> str:
    is_gone = answer["delivered"] and not answer["edited"]
    return _answer(answer, "It was delivered, and is no dead letter any more." if is_gone else "")


def _answer(answer: Mapping[str, Any], words: str) -> str:
    """Return what the receiver said, with the way to the delivery and to the list."""
    state = "delivered" if answer["delivered"] else "failed"
    status = f" ({answer['status']})" if answer["status"] else ""
    rows = [
        ("Answer", f"{state_cell(state)} {plain(answer['outcome'].replace('_', ' ') + status)}"),
        ("Detail", plain(answer["detail"])),
        ("Seconds", plain(f"{answer['total_seconds']:.3f}")),
        ("Signed", plain(answer["signed"])),
        ("Edited", plain(answer["edited"])),
        ("Delivery", link_to("deliveries", answer["delivery_id"])),
    ]
    said = f'<p class="notice" role="status">{escape(words)}</p>' if words else ""
    return f"{said}{facts(rows)}{body(answer['response_body']) if answer['response_body'] else ''}{_ONWARD}"


_ONWARD: Final = '<div class="buttons"><a class="button" href="../../incidents">Incidents</a></div>'


def _turn(name: str, label: str, question: str, applies: Callable[[Item], bool]) -> Act:
    return verb(name, label, question, f"/incidents/{{}}/{name}", ("incidents", name), applies=applies)


OF_INCIDENTS: Final[Sequence[Act]] = (
    Act(
        "recover", "Recover",
        "One dead letter is sent now, as a probe. Only if it is delivered, a disabled or paused subscription is "
        "enabled, and the dead letters of this incident are sent again in the background. So are events that "
        "were accepted while it was disabled. Otherwise nothing changes, and the answer is shown.", ("operate",),
        _recovery, _recovery_line,
        (Box("rate_per_second", "Deliveries a second, at most", length_max=20), REASON),
        applies=lambda one: bool(one["dead"]), counts=_counted_recovery, counted=_recovery_words, shows=_recovered,
    ),
    Act(
        "replay", "Send its dead letters again",
        "The dead letters of this incident are sent again in the background, marked as a replay. It can be paused and "
        "cancelled. Dead letters of other causes stay.", ("operate",),
        lambda identity, form: _replay(identity, form, is_dry=False), _replay_line,
        (Box("rate_per_second", "Deliveries a second, at most", length_max=20), REASON),
        applies=lambda one: bool(one["dead"]), counts=lambda identity, form: _replay(identity, form, is_dry=True),
        counted=replayed_words, lands=lambda _, answer: address("replays", answer["id"]),
    ),
    Act(
        "probe", "Send one",
        "Its oldest dead letter is sent now, also if the subscription is paused, and the answer is shown. Fields that "
        "you leave empty stay as they are. An edited message has no signature, unless your key has the scope admin "
        "and the address stays.", ("operate",), _probe, _probe_line,
        (
            Box("content", "Another content", "area", length_max=40_000),
            Box("headers", "Further headers, one in a line: name: value", "area", length_max=4_000),
            Box("target", "Another URL"), REASON,
        ),
        applies=lambda one: bool(one["dead"]), shows=_probed,
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
