"""The acts on everything that matches the filters of a list. It is counted first, then done in the background."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, get_args

from app.web.api.operating.replays import OpenJobState
from app.web.console.acting.act import REASON, Act, Box, Form
from app.web.console.acting.verb import curl, rate_of, reason_of
from app.web.console.cells import address
from app.web.console.inner_api import ApiRequest
from runtime.counted import counted
from webhooks.condition import CHOSEN_KINDS

__all__ = ["BULK"]

_SPAN: Final = (
    Box("since", "Since (2026-01-15T09:00:00Z)", length_max=40), Box("until", "Until", length_max=40),
)  # fmt: skip
_OF_SUBSCRIPTION: Final = (
    Box("subscription_id", "Only this subscription", length_max=60), Box("topic", "Only this topic", length_max=249),
)  # fmt: skip
_OF_INCIDENT: Final = Box("incident_id", "Only of this incident", length_max=30)
_RATE: Final = Box("rate_per_second", "At most so many a second", length_max=20)


def _bulk(
    name: str, label: str, question: str, source: str, act: str, noun: str, verb: str,
    boxes: Sequence[Box], body_of: Callable[[Form], dict[str, Any]],
) -> Act:  # fmt: skip
    """Return an act on all that match. ``noun`` and ``verb`` are the words of its confirmation."""

    def body(form: Form) -> dict[str, Any]:
        chosen = {name: form[name] for name in ("since", "until") if form.get(name)}
        return {"source": source, "act": act, **chosen, **body_of(form), **rate_of(form), **reason_of(form)}

    def words(answer: Mapping[str, Any]) -> str:
        return f"{'More than ' if answer['more'] else ''}{counted(answer['records'], noun)} would be {verb}."

    return Act(
        name, label, question, ("operate",),
        lambda _, form: ApiRequest.with_json("POST", "/replays", body(form), form.get("once", "")),
        lambda _, form: curl("POST", "/replays", body(form)), (*boxes, *_SPAN, _RATE, REASON), is_danger=True,
        counts=lambda _, form: ApiRequest.with_json("POST", "/replays", body(form) | {"dry_run": True}),
        counted=words, lands=lambda _, answer: address("replays", answer["id"]),
    )  # fmt: skip


def _named(form: Form, **members: str) -> dict[str, Any]:
    """Return the members of a body whose fields are filled in."""
    return {member: form[box] for member, box in members.items() if form.get(box)}


def _dead(form: Form) -> dict[str, Any]:
    kinds = {"kinds": [form["kind"]]} if form.get("kind") else {}
    return _named(form, subscription_id="subscription_id", topic="topic", incident_id="incident_id") | kinds


BULK: Final[Mapping[str, Sequence[Act]]] = {
    "dead-letters": (
        _bulk(
            "purge", "Delete all that match",
            "Dead letters of subscriptions are deleted in the background. Their events stay until their retention "
            "ends. Dead letters of Kafka and AMQP stay. This cannot be undone.",
            "dead_letters", "purge", "dead letter", "deleted",
            (*_OF_SUBSCRIPTION, _OF_INCIDENT, Box("kind", "Only of this kind", "choice", ("", *CHOSEN_KINDS))),
            _dead,
        ),
    ),
    "undelivered": (
        _bulk(
            "give-up", "Give up all that match",
            "Open deliveries become dead letters in the background. What is being sent stays. They can be sent again.",
            "deliveries", "give_up", "open delivery", "given up", _OF_SUBSCRIPTION,
            lambda form: _named(form, subscription_id="subscription_id", topic="topic"),
        ),
    ),
    "jobs": (
        _bulk(
            "cancel", "Cancel all that match",
            "Jobs that have not ended are cancelled in the background. Workers of running ones are asked to stop.",
            "jobs", "cancel", "job", "cancelled",
            (Box("kind", "Only of this kind", length_max=200), Box("state", "Only in this state", "choice",
                                                                   ("", *get_args(OpenJobState)))),
            lambda form: _named(form, job_kind="kind", job_state="state"),
        ),
    ),
}  # fmt: skip
"""The acts on all that match, by their list."""
