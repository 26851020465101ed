"""The acts on jobs: making one, those of operators, and those of people who work on them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from app.web.console.acting.act import REASON, Act, Box, Form
from app.web.console.acting.verb import curl, is_one_of, json_request, line, reason_of, verb, whole
from app.web.console.cells import address
from app.web.console.inner_api import ApiRequest
from app.web.console.listing.list_view import Item

__all__ = ["NEW_JOB", "OF_JOBS"]


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
            word
            for member, (box, option) in members.items() if form.get(member)
            for word in ((option,) if box.kind == "check" else (option, form[member]))
        ]  # fmt: skip
        return line("jobs", name, identity, *options, why=form.get("reason", ""))

    return Act(
        name, label, question, ("work",),
        lambda identity, form: json_request("POST", f"/jobs/{{}}/{name}", identity, body(form)), shown,
        (*(box for box, _ in members.values()), REASON), applies, is_danger,
    )  # fmt: skip


def _value(member: str, text: str) -> Any:
    """Return the value of a member: contents are JSON if they can be read so, else text."""
    if member == "to_pool":
        return True
    if member not in ("args", "result"):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
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
        "delay", "Delay", "At the end of the delay it returns to its assignee, or to the pool.",
        is_one_of("state", "assigned"),
        {
            "due_local": (Box("due_local", "Until (2031-07-01T09:00)", is_required=True, length_max=40), "--until"),
            "due_zone": (
                Box("due_zone", "In the time zone of", value="UTC", is_required=True, length_max=80), "--zone"
            ),
            "to_pool": (Box("to_pool", "Then any person may take it", "check"), "--to-pool"),
        },
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


def _draft(form: Form) -> dict[str, Any]:
    named = {name: _value(name, form[name]) for name in ("kind", "args", "uniq", "assignee") if form.get(name)}
    return named | ({"priority": whole(form["priority"])} if form.get("priority") else {})


def _draft_line(_: str, form: Form) -> str:
    if form.get("assignee"):
        return curl("POST", "/jobs", _draft(form))
    given = ("uniq", "priority")
    options = [word for name in given if form.get(name) for word in (f"--{name}", form[name])]
    return line("jobs", "enqueue", form.get("kind", ""), form.get("args") or "{}", *options)


NEW_JOB: Final = Act(
    "new", "Make a job", "It is stored, and waits for a person or a worker, as its kind says. While a job of the kind "
    "with the same mark lives, there is no second one.", ("enqueue",),
    lambda _, form: ApiRequest.with_json("POST", "/jobs", _draft(form), form.get("once", "")), _draft_line,
    (
        Box("kind", "Kind", is_required=True, length_max=200),
        Box("args", "Arguments, as JSON", "area", value="{}", length_max=20_000),
        Box("uniq", "Mark by which the same job is known", length_max=1_000),
        Box("priority", "Priority", length_max=5), Box("assignee", "Only for this person", length_max=200),
    ),
    lands=lambda _, answer: address("jobs", answer["id"]),
)  # fmt: skip
