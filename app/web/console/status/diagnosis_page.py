"""The diagnosis page of a topic and a callback: it shows why no event arrives. Rows in, HTML out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from typing import Any, Final

from app.web.console.status.status_page import delivery_state, next_attempt
from app.web.pages.markup import callback, code, count, facts, link, moment, pill, section, table
from event.identity import format_event_id
from webhooks.condition import WAITING_MAX, delivery_condition, subscription_condition

__all__ = ["Diagnosis", "diagnosis_content"]

_STATES: Final = {
    "good": ("healthy", "renewing", "verified", "delivered"),
    "warn": ("verifying", "requested", "validated", "retry", "disabled", "park", "paused"),
    "bad": ("failed", "failing", "denied", "gone", "dead"),
}
_TONES: Final = {state: tone for tone, states in _STATES.items() for state in states}
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The data of the page, in rows of the statements of ``diagnosis.sql``."""

    topic: str
    callback: str
    standing: str
    subscription: Row | None
    requests: Sequence[Row]
    owed: Sequence[Row]
    attempts: Sequence[Row]
    incarnation: str
    now: datetime


def diagnosis_content(about: Diagnosis) -> str:
    """Return the HTML of the status, the requests, the open deliveries and the attempts."""
    return "\n".join([_standing(about), _requests(about), _owed(about), _attempts(about)])


def _pill(state: str) -> str:
    return pill(state, _TONES.get(state, ""))


def _soft(text: str | None) -> str:
    return f'<span class="soft">{escape(text or "")}</span>'


def _standing(about: Diagnosis) -> str:
    rows = [("Topic", code(about.topic)), ("Callback", callback(about.callback)), ("Status", _pill(about.standing))]
    one = about.subscription
    if one is not None:
        found = subscription_condition(one)
        own = link(f"subscriptions/{one['public_id']}", one["public_id"])
        rows += [
            ("Subscription", f"{own} {_soft(one['protocol'])}"),
            ("Health", _pill(found.state)),
            ("Reason", _soft(found.reason)),
            ("Next", next_attempt(found, about.now)),
            ("Waiting", count(one["waiting"], WAITING_MAX)),
            ("Failing since", moment(one["failing_since"], about.now)),
            ("Last success", moment(one["last_success_at"], about.now)),
            ("Lease ends", moment(one["lease_until"], about.now)),
            ("Created", moment(one["created_at"], about.now)),
        ]
    return section("A topic and a callback", facts(rows), '<a href="../console">status</a>')


def _requests(about: Diagnosis) -> str:
    if not about.requests:
        return section("Requests", '<p class="soft">None within a day. Nothing is being verified.</p>')
    rows = [
        [
            escape(row["mode"]),
            f"{_pill(row['state'])} {_soft(row['reason'])}",
            str(row["attempts"]),
            moment(row["created_at"], about.now),
            moment(row["decided_at"], about.now),
            moment(row["next_attempt_at"], about.now),
        ]
        for row in about.requests
    ]
    return section(
        "Requests", table(["Mode", "State", "#Attempts", "Created", "Decided", "Next"], rows), "latest first"
    )


def _owed(about: Diagnosis) -> str:
    if not about.owed:
        return section("Open deliveries", '<p class="soft">None. Nothing waits to be delivered.</p>')
    rows = [
        [
            _event(about, row["event_id"]),
            delivery_state(found),
            str(row["attempts"]),
            moment(row["created_at"], about.now),
            next_attempt(found, about.now),
        ]
        for row, found in ((row, delivery_condition(row)) for row in about.owed)
    ]
    return section("Open deliveries", table(["Event", "State", "#Attempts", "~Created", "Next"], rows), "next first")


def _attempts(about: Diagnosis) -> str:
    if not about.attempts:
        return section("Attempts", '<p class="soft">None yet.</p>')
    rows = [
        [
            _event(about, row["event_id"]),
            str(row["number"]),
            f"{_pill(row['decision'])} {_soft(_answer(row))}",
            f"{row['total_seconds'] * 1000:,.0f} ms",
            moment(row["started_at"], about.now),
        ]
        for row in about.attempts
    ]
    return section("Attempts", table(["Event", "#Number", "Outcome", "#~Took", "When"], rows), "of the latest events")


def _event(about: Diagnosis, number: int) -> str:
    identity = format_event_id(about.incarnation, number)
    return link(f"events/{identity}", identity)


def _answer(row: Row) -> str:
    outcome = _outcome(row["outcome"], row["status"])
    return f"{outcome}: {row['detail']}" if row["detail"] else outcome


def _outcome(outcome: str | None, status: int | None) -> str:
    return f"{outcome or ''}{f' ({status})' if status else ''}".replace("_", " ")
