"""The pages of single things: which part of the API each shows, and its short lists."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from html import escape
from typing import Final

from app.web.console.acting.acts import ACTS
from app.web.console.cells import address, link_to, moment_cell, plain
from app.web.console.listing.list_view import Item
from app.web.console.showing.bars import bars
from app.web.console.showing.detail import Detail, Figure, ShortList
from app.web.console.showing.numbers import numbers_content
from app.web.pages.markup import code, section, table

__all__ = ["DETAILS"]

_BODY_SHOWN: Final = 200
_SHOWN_MINUTES: Final = 65


def _attempts(one: Item) -> str:
    where = address("pair", subscription=one["id"])
    words = f'<a href="{escape(where)}">Its latest attempts and requests</a> show why no event arrives.'
    return f'<p class="soft">{words}</p>'


def _minutes(one: Item) -> str:
    """Return the failures of the last 65 minutes as a picture; nothing where there were none."""
    if not one["minutes"]:
        return ""
    now = datetime.now(UTC)
    numbers = [0] * _SHOWN_MINUTES
    for minute in one["minutes"]:
        age = int((now - datetime.fromisoformat(minute["at"])).total_seconds()) // 60
        if 0 <= age < _SHOWN_MINUTES:
            numbers[_SHOWN_MINUTES - 1 - age] += minute["failures"]
    title = (
        f"Failures by minute, {sum(numbers):,} in the last {_SHOWN_MINUTES} minutes, at most {max(numbers):,} in one"
    )
    return section("Failures by minute", bars(numbers, title), "the last 65 minutes, now at the right")


def _trail(one: Item) -> str:
    rows = [
        [moment_cell(step["at"]), code(step["actor"]), plain(step["verb"]), plain(step["reason"])]
        for step in one["trail"]
    ]
    return section("Trail", table(["When", "Actor", "Act", "Reason"], rows)) if rows else ""


def _requests(one: Item) -> str:
    """Return the last requests at an inbound source."""
    accepted = [
        [moment_cell(row["arrived_at"]), code(row["address"]), plain(row["bytes"]), plain(row["delivery_id"]),
         link_to("events", row["event_id"]) if row["event_id"] else plain("handshake"), plain(row["detail"])]
        for row in one["accepted"]
    ]  # fmt: skip
    refused = [
        [moment_cell(row["arrived_at"]), code(row["address"]), plain(row["bytes"]), plain(row["delivery_id"]),
         plain(f"{row['reason']}: {row['detail']}"), code(row["body"][:_BODY_SHOWN]) if row["body"] else plain(None)]
        for row in one["refused"]
    ]  # fmt: skip
    nothing = '<p class="soft">None.</p>'
    heads = ["Arrived", "From", "#Bytes", "Delivery id"]
    return section(
        "Last accepted requests", table([*heads, "Event", "Note"], accepted) if accepted else nothing
    ) + section("Last refused requests", table([*heads, "Reason", "Body"], refused) if refused else nothing)


_ALL: Final = (
    Detail(
        "subscriptions", "Subscription", "/subscriptions/{}", "hookwire subscriptions show {}",
        (
            ShortList("Not delivered", "undelivered", lambda one: {"subscription_id": one["id"], "outcome": "waiting"}),
            ShortList("Dead letters", "dead-letters", lambda one: {"subscription_id": one["id"]}),
        ),
        ACTS["subscriptions"],
        ("name", "topic", "callback", "state", "health", "reason", "warnings", "waiting", "failing_since",
         "last_success_at", "next_attempt_at", "mode"),
        more=_attempts, figures=(Figure("/subscriptions/{}/stats", numbers_content),),
    ),
    Detail(
        "topics", "Topic", "/topics/{}/settings", "hookwire topics show {}",
        (
            ShortList("Latest events", "events", lambda one: {"topic": one["topic"]}),
            ShortList("Subscriptions of exactly this topic", "subscriptions", lambda one: {"topic": one["topic"]}),
            ShortList("Holds", "holds", lambda one: {"topic": one["topic"]}),
        ),
        ACTS["topics"],
    ),
    Detail(
        "incidents", "Incident", "/incidents/{}", "hookwire incidents show {}",
        (ShortList("Dead letters", "dead-letters", lambda one: {"incident_id": one["id"]}),), ACTS["incidents"],
        ("state", "kind", "subscription_id", "callback", "topic", "sink", "outcome", "status", "excerpt", "waiting",
         "dead", "failures", "failures_5_minutes", "failures_hour_before", "first_at", "last_at"),
        hidden=frozenset({"minutes"}), more=_minutes,
    ),
    Detail("holds", "Hold", "/holds/{}", "hookwire holds show {}", (), ACTS["holds"]),
    Detail(
        "dead-letters", "Dead letter", "/dead-letters/{}", "hookwire deadletters show {}", (), ACTS["dead-letters"]
    ),
    Detail("sinks", "Sink", "/sinks/{}", "hookwire sinks show {}", (), ACTS["sinks"]),
    Detail(
        "sources", "Source", "/sources/{}", "",
        (ShortList("Refused records", "refusals", lambda one: {"source": one["source"]}),), ACTS["sources"],
    ),
    Detail(
        "inbound", "Inbound source", "/in/{}", "hookwire sources show {}", (), ACTS["inbound"],
        ("url", "preset", "topic", "id", "type", "key"), frozenset({"accepted", "refused", "source"}), _requests,
    ),
    Detail("refusals", "Refused record", "/source-refusals/{}", "", (), ACTS["refusals"]),
    Detail("replays", "Replay", "/replays/{}", "", (), ACTS["replays"]),
    Detail("queues", "Queue", "/queues/{}", "hookwire queues show {}", (), ACTS["queues"]),
    Detail(
        "jobs", "Job", "/jobs/{}", "hookwire jobs show {}", (), ACTS["jobs"],
        ("kind", "state", "assignee", "args", "result", "performer", "due_at", "reason", "created_at"),
        hidden=frozenset({"trail"}), more=_trail,
    ),
    Detail(
        "services", "Service", "/services/{}", "hookwire services show {}",
        (ShortList("Latest requests", "requests", lambda one: {"service": one["name"]}),), ACTS["services"],
    ),
)  # fmt: skip
DETAILS: Final[Mapping[str, Detail]] = {detail.kind: detail for detail in _ALL}
