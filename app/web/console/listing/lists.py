"""The lists of the console. Each reads one list of the API, with its filters and its keyset paging."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final, get_args

from app.web.api.events.event_search import Outcome
from app.web.api.operating.incidents import IncidentKind, IncidentState
from app.web.api.operating.replays import OpenJobState
from app.web.api.work.job_contract import JobState
from app.web.console.cells import (
    address,
    bytes_cell,
    callback_cell,
    link_to,
    moment_cell,
    plain,
    reason_cell,
    state_cell,
    value_cell,
)
from app.web.console.listing.columns import coded, link, state, text, when
from app.web.console.listing.list_view import Column, Filter, Item, ListView, Way
from app.web.console.listing.work_lists import WORK_LISTS
from app.web.pages.markup import code, count
from runtime.counted import counted
from webhooks.condition import CHOSEN_KINDS, WAITING_MAX, DeliveryState, Health

__all__ = ["LISTS"]

_SINKS: Final = ("webhooks", "kafka", "amqp")
_OF_DEAD: Final = {
    "sink": ("webhooks",), "subscription_id": (), "kind": CHOSEN_KINDS, "incident_id": (), "since": (), "until": (),
}  # fmt: skip
_TIMES: Final = (Filter("since", "Since"), Filter("until", "Until"))


def _callback(one: Item) -> str:
    return callback_cell(one["callback"])


def _reason(one: Item) -> str:
    return reason_cell(one["state"], one["reason"])


def _sink_state(one: Item) -> str:
    return state_cell("paused" if one["paused"] else "on" if one["configured"] else "not configured")


def _source_link(one: Item) -> str:
    return link_to("inbound" if one["kind"] == "webhooks" else "sources", one["source"])


def _source_state(one: Item) -> str:
    """Return why a source does not go on, of its first partition that has a reason. Of a door: the last webhook. Of a
    pattern: the first topic that it passes over.
    """
    if one["kind"] == "webhooks":
        last = moment_cell(one["accepted_at"]) if one["accepted_at"] else "no webhook yet"
        return f"{plain(one['preset'])}, {last}"
    if one["passed_over"]:
        first, count = one["passed_over"][0], one["passed_over_count"]
        return plain(f"passes over {counted(count, 'topic')}, such as {first['topic']}: {first['reason']}")
    why = next((part["trouble"] for part in one["partitions"] if part["trouble"]), None)
    return plain("paused" if one["paused"] else why or "ok")


def _answer(one: Item) -> str:
    status = f" ({one['last_status']})" if one["last_status"] else ""
    return plain(f"{one['last_outcome'] or ''}{status}".replace("_", " "))


def _of_counts(head: str, name: str) -> Column:
    return Column(f"#{head}", lambda one: plain(one["counts"].get(name)))


def _sinks(one: Item) -> str:
    return plain("all" if one["sinks"] is None else ", ".join(one["sinks"]))


def _dead_reason(one: Item) -> str:
    return reason_cell(one["kind"], one["reason"])


def _patterns(one: Item) -> str:
    parts = [
        f"{name} {', '.join(one[name])}" for name in ("topics", "queues", "kinds", "services") if one[name] is not None
    ]
    return plain("; ".join(parts) or "everything")


def _key_state(one: Item) -> str:
    if one["revoked_at"]:
        return state_cell("revoked")
    return f'{state_cell("active")} <a href="{escape(address("keys", one["id"], "revoke"))}">revoke</a>'


def _incident_state(one: Item) -> str:
    return state_cell(one["state"]) + (f" {state_cell('active now')}" if one["active"] else "")


def _failing(one: Item) -> str:
    """Return the receiver, with its subscription, or the sink that holds records."""
    if one["subscription_id"] is None:
        return plain(f"sink {one['sink']}")
    return f"{link_to('subscriptions', one['subscription_id'])} {callback_cell(one['callback'])}"


def _cause(one: Item) -> str:
    """Return the class with its status, and the beginning of the answer."""
    words = "several causes" if one["kind"] == "other" else one["outcome"].replace("_", " ")
    status = f" ({one['status']})" if one["status"] else ""
    return plain(words + status) + (f" {code(one['excerpt'])}" if one["excerpt"] else "")


def _ways_to(kind: str, identity: str) -> str:
    """Return links to the two acts on what waits."""
    acts = (("retry", "retry"), ("give-up", "give up"))
    return " ".join(f'<a href="{escape(address(kind, identity, act))}">{words}</a>' for act, words in acts)


def _of_incident(one: Item) -> str:
    """Return the acts that cure an incident; none where nothing was given up."""
    acts = (("recover", "recover"), ("probe", "send one"), ("replay", "send all"))
    ways = (f'<a href="{escape(address("incidents", one["id"], act))}">{words}</a>' for act, words in acts)
    return " ".join(ways) if one["dead"] else plain(None)


def _of_waiting(one: Item) -> str:
    """Return the acts on a delivery that waits; none for a reader without its id, or for another state."""
    is_open = one["state"] in ("pending", "retrying", "parked") and one["delivery_id"]
    return _ways_to("deliveries", one["delivery_id"]) if is_open else plain(None)


_ALL: Final[Sequence[ListView]] = (
    ListView(
        "events", "/events",
        (
            link("Event", "id", "events"), link("Topic", "topic", "topics"), coded("Key", "key"),
            state("Outcome", "outcome"), Column("#Size", lambda one: bytes_cell(one["bytes"])),
            when("Accepted", "accepted_at"),
        ),
        "newest first", "hookwire events list",
        (Filter("topic", "Topic"), Filter("key", "Key"), Filter("outcome", "Outcome", get_args(Outcome)), *_TIMES),
        "Nothing has been published yet.",
    ),
    ListView(
        "topics", "/topics",
        (
            link("Topic", "topic", "topics"), Column("Sinks", _sinks), text("Order", "order"),
            link("~Last event", "last_event_id", "events"), when("Last event", "last_accepted_at"),
        ),
        "by name", "hookwire topics list", (Filter("prefix", "Beginning of its name"),),
        "There is no topic yet. The first event of a topic makes it.",
    ),
    ListView(
        "subscriptions", "/subscriptions",
        (
            link("Subscription", "id", "subscriptions"), text("Name", "name"), coded("Topic or pattern", "topic"),
            Column("Callback", _callback), Column("Health", lambda one: reason_cell(one["health"], one["reason"])),
            Column("#Waiting", lambda one: count(one["waiting"], WAITING_MAX)),
            when("Last success", "last_success_at"),
        ),
        "oldest first", "hookwire subscriptions list",
        (
            Filter("topic", "Exact topic or pattern"),
            Filter("state", "State", ("active", "disabled", "gone", "expired", "denied")),
            Filter("health", "Health", get_args(Health)), Filter("name", "Name"),
            Filter("host", "Host of the callback"),
        ),
        "There is no subscription yet.", (
            Way("subscriptions/new", "New subscription", {"topic": (), "state": ()}),
        ),
    ),
    ListView(
        "deliveries", "/deliveries",
        (
            link("Delivery", "id", "deliveries"), link("Event", "event_id", "events"),
            link("Subscription", "subscription_id", "subscriptions"), Column("~Callback", _callback),
            Column("State", _reason), text("#Attempts", "attempts"), Column("Last answer", _answer),
            when("When", "at"),
        ),
        "newest event first", "hookwire events show EVENT",
        (
            Filter("state", "State", get_args(DeliveryState)), Filter("subscription_id", "Subscription"),
            Filter("event_id", "Event"), Filter("topic", "Topic"), *_TIMES,
        ),
    ),
    ListView(
        "undelivered", "/undelivered",
        (
            link("Event", "event_id", "events"), link("Subscription", "subscription_id", "subscriptions"),
            Column("~Callback", _callback), Column("State", _reason), text("#Attempts", "attempts"),
            Column("Last answer", _answer), when("Next", "next_attempt_at"), Column("Act", _of_waiting, "operate"),
        ),
        "accepted, but not delivered", "hookwire undelivered",
        (Filter("outcome", "Outcome", ("waiting", "dead")), Filter("subscription_id", "Subscription"), *_TIMES),
        "Everything that was accepted is delivered.",
        (
            Way("undelivered/all/give-up", "Give up all that match", {"outcome": ("waiting",), "subscription_id": ()},
                is_danger=True),
        ),
    ),
    ListView(
        "dead-letters", "/dead-letters",
        (
            link("Dead letter", "id", "dead-letters"), link("Event", "event_id", "events"), text("Sink", "sink"),
            coded("Topic", "topic"), link("Subscription", "subscription_id", "subscriptions"),
            Column("Reason", _dead_reason), text("#Attempts", "attempts"), when("When", "died_at"),
        ),
        "newest first", "hookwire deadletters list",
        (
            Filter("sink", "Sink", _SINKS), Filter("subscription_id", "Subscription"),
            Filter("kind", "Kind", ("refused", *CHOSEN_KINDS)), Filter("incident_id", "Incident"), *_TIMES,
        ),
        "Nothing was given up.",
        (
            Way("replays/new", "Replay dead letters", _OF_DEAD),
            Way("dead-letters/all/purge", "Delete all that match", _OF_DEAD, is_danger=True),
        ),
    ),
    ListView(
        "incidents", "/incidents",
        (
            link("Incident", "id", "incidents"), Column("State", _incident_state), Column("For", _failing),
            Column("Cause", _cause), text("#Dead letters", "dead"), text("#Waiting", "waiting"),
            text("#5 minutes", "failures_5_minutes"), text("#Hour before", "failures_hour_before"),
            when("Latest", "last_at"), Column("Act", _of_incident, "operate"),
        ),
        "newest first", "hookwire incidents list",
        (
            Filter("state", "State", get_args(IncidentState)), Filter("kind", "Kind", get_args(IncidentKind)),
            Filter("active", "Active", ("true",)), Filter("subscription_id", "Subscription"),
        ),
        "Nothing fails.",
    ),
    ListView(
        "holds", "/holds",
        (
            link("Hold", "id", "holds"), text("Sink", "sink"), coded("Topic", "topic"), text("Scope", "scope"),
            coded("Key", "key"), Column("Reason", lambda one: plain(one["detail"] or one["reason"])),
            text("#Records", "records"), when("Since", "since"), when("Next attempt", "next_attempt_at"),
            Column("Act", lambda one: _ways_to("holds", one["id"]), "operate"),
        ),
        "oldest first", "hookwire holds list", (Filter("sink", "Sink", _SINKS), Filter("topic", "Topic")),
        "No sink holds back a key or a topic.",
    ),
    ListView(
        "sinks", "/sinks",
        (
            link("Sink", "sink", "sinks"), Column("State", _sink_state), text("#Waiting", "waiting"),
            text("#Held", "held"), when("Oldest", "oldest_at"), text("Leader", "leader"),
            text("Paused by", "paused_by"),
        ),
        "by name", "hookwire sinks list",
    ),
    ListView(
        "sources", "/sources",
        (
            Column("Source", _source_link), text("Kind", "kind"), coded("Topic", "topic"), text("#Lag", "lag"),
            text("#Age, s", "age_seconds"), text("#Rate, 1/s", "rate"), text("#Refused", "refused"),
            Column("State", _source_state),
        ),
        "by name", "hookwire sources list", empty="No Kafka topic was ever read, and there is no door for webhooks.",
    ),
    ListView(
        "refusals", "/source-refusals",
        (
            link("Refusal", "id", "refusals"), text("Kind", "kind"), coded("Source", "source"),
            text("#Partition", "partition"), text("#Offset", "offset"), coded("Key", "key"),
            Column("Reason", lambda one: plain(f"{one['reason']}: {one['detail']}")), when("Refused", "refused_at"),
        ),
        "oldest first", "hookwire sources refusals", (Filter("source", "Source"),),
        "No record of Kafka was refused, and no message of AMQP is kept here.",
    ),
    ListView(
        "replays", "/replays",
        (
            link("Replay", "id", "replays"), state("State", "state"), text("Source", "source"), text("Act", "act"),
            link("Subscription", "subscription_id", "subscriptions"), coded("Topic", "topic"),
            text("#Examined", "examined"), text("#Done", "replayed"), text("Actor", "actor"),
            when("Created", "created_at"),
        ),
        "newest first", "hookwire replay", empty="Nothing was replayed yet.", ways=(Way("replays/new", "New replay"),),
    ),
    ListView(
        "queues", "/queues",
        (
            link("Queue", "queue", "queues"),
            Column("State", lambda one: state_cell("paused" if one["paused"] else "active")),
            _of_counts("Available", "available"), _of_counts("Claimed", "claimed"), _of_counts("Dead", "dead"),
            text("~Owner", "owner"), when("Created", "created_at"),
        ),
        "by name", "hookwire queues list", empty="There is no queue yet.",
    ),
    ListView(
        "tasks", "/tasks",
        (
            coded("Task", "id"), coded("Kind", "kind"), state("State", "state"), text("#Attempts", "attempts"),
            text("Worker", "worker"), text("Last error", "last_error"), when("Due", "due_at"),
            when("Created", "created_at"),
        ),
        "oldest first", "hookwire tasks list",
        (Filter("kind", "Kind"), Filter("state", "State", ("waiting", "delayed", "started"))), "There is no task.",
    ),
    ListView(
        "jobs", "/jobs",
        (
            link("Job", "id", "jobs"), coded("Kind", "kind"), state("State", "state"), text("Assignee", "assignee"),
            text("#Attempts", "attempts"), text("Worker", "worker"), when("Due", "due_at"),
            when("Created", "created_at"),
        ),
        "newest first", "hookwire jobs list",
        (Filter("state", "State", get_args(JobState)), Filter("kind", "Kind"), Filter("assignee", "Assignee")),
        "There is no job.",
        (
            Way("jobs/new", "New job", {"state": (), "kind": (), "assignee": ()}),
            Way("jobs/all/cancel", "Cancel all that match", {"state": get_args(OpenJobState), "kind": ()},
                is_danger=True),
        ),
    ),
    *WORK_LISTS,
    ListView(
        "services", "/services",
        (
            link("Service", "name", "services"),
            Column("State", lambda one: state_cell("disabled" if one["disabled"] else "active")),
            Column("Requests", lambda one: value_cell("counts", one["counts"])), when("Created", "created_at"),
        ),
        "by name", "hookwire services list", empty="There is no service yet.",
    ),
    ListView(
        "requests", "/requests",
        (
            coded("Request", "id"), link("Service", "service", "services"), state("State", "state"),
            text("Via", "via"), text("Caller", "caller"), text("Worker", "worker"), text("#Attempts", "attempts"),
            text("Last error", "last_error"), when("Created", "created_at"),
        ),
        "newest first", "hookwire requests list",
        (
            Filter("service", "Service"),
            Filter("state", "State", ("waiting", "delayed", "leased", "answered", "expired", "failed")),
        ),
        "There is no request.",
    ),
    ListView(
        "upstreams", "/upstreams",
        (
            link("Topic", "topic", "topics"), coded("URL", "url"), Column("State", _reason),
            text("#Failures", "failures"), when("Received", "received_at"), when("Lease ends", "lease_until"),
        ),
        "hubs of other publishers", "curl HUB/upstreams", empty="This hub subscribes to no other hub.",
    ),
    ListView(
        "keys", "/keys",
        (
            coded("Key", "id"), text("Name", "name"),
            Column("Scopes", lambda one: plain(", ".join(one["scopes"]))), Column("Reaches", _patterns),
            Column("State", _key_state), when("Expires", "expires_at"), when("Created", "created_at"),
        ),
        "oldest first", "hookwire keys list", empty="There is no key.", ways=(Way("keys/new", "New key"),),
    ),
    ListView(
        "audit", "/audit",
        (
            when("When", "at"), coded("Actor", "actor"), coded("Action", "action"), coded("Subject", "subject"),
            text("#Records", "records"), text("Reason", "reason"),
        ),
        "newest first", "curl HUB/audit",
        (Filter("actor", "Actor"), Filter("action", "Action"), Filter("subject", "Subject"), *_TIMES),
        "Nobody has changed anything yet.",
    ),
)  # fmt: skip

LISTS: Final[Mapping[str, ListView]] = {view.name: view for view in _ALL}
