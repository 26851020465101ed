"""The acts on a job: those of operators, and those of people who work on jobs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from app.web.console.acting.act import REASON, Act, Box, Form
from app.web.console.acting.verb import is_one_of, json_request, line, reason_of, verb
from app.web.console.listing.list_view import Item

__all__ = ["OF_JOBS"]


def _person(
    name: str, label: str, question: str, applies: Callable[[Item], bool],
    boxes: Mapping[str, tuple[Box, str]] | None = None, *, is_danger: bool = False,
) -> Act:  # fmt: skip
    """Return an act of a person. ``boxes`` names the option of the command for each member of the body."""
    members = boxes or {}

    def body(form: Form) -> dict[str, Any]:
        return {member: _value(member, form[member]) for member in members if form.get(member)} | reason_of(form)

    def shown(identity: str, form: Form) -> str:
        options = [
            word for member, (_, option) in members.items() if form.get(member) for word in (option, form[member])
        ]
        return line("jobs", name, identity, *options, why=form.get("reason", ""))

    return Act(
        name, label, question, ("work",),
        lambda identity, form: json_request("POST", f"/jobs/{{}}/{name}", identity, body(form)), shown,
        (*(box for box, _ in members.values()), REASON), applies, is_danger,
    )  # fmt: skip


def _value(member: str, text: str) -> Any:
    """Return the value of a member: a result is JSON if it can be read so, else text."""
    if member != "result":
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _is_open_to_people(one: Item) -> bool:
    return bool(one["for_people"]) and one["state"] == "available"


_OF_PEOPLE: Final[Sequence[Act]] = (
    _person(
        "assign", "Take or assign", "The job is yours, or that of the person whom you name.",
        lambda one: _is_open_to_people(one) or one["state"] == "assigned",
        {"assignee": (Box("assignee", "Person; empty: yourself", length_max=200), "--to")},
    ),
    _person(
        "finish", "Finish", "The job is done, or goes into review if its kind needs one.",
        is_one_of("state", "assigned"),
        {"result": (Box("result", "Result, as JSON", "area", length_max=20_000), "--result")},
    ),
    _person(
        "unassign", "Return to the pool", "Every person may take it then.", is_one_of("state", "assigned"),
    ),
    _person("approve", "Approve", "It is completed.", is_one_of("state", "review")),
    _person("send-back", "Send back", "It returns to its assignee, or to the pool.", is_one_of("state", "review")),
    _person(
        "decline", "Decline", "It is given up.", is_one_of("state", "review", "assigned"), is_danger=True,
    ),
)  # fmt: skip

OF_JOBS: Final[Sequence[Act]] = (
    *_OF_PEOPLE,
    verb("retry", "Run now", "It runs now, or again.", "/jobs/{}/retry", ("jobs", "retry")),
    verb("cancel", "Cancel the job", "It ends; a worker that runs it is asked to stop.", "/jobs/{}/cancel",
         ("jobs", "cancel"), applies=is_one_of("ended_at", None), is_danger=True),
)  # fmt: skip
