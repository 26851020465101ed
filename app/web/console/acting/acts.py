"""The acts of the console. Each is one request of the API, so it has the checks and the audit entry of its route."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any, Final
from urllib.parse import quote

from app.web.console.acting.act import REASON, Act, Box, Form
from app.web.console.acting.incident_acts import OF_INCIDENTS, replayed_words
from app.web.console.acting.job_acts import NEW_JOB, OF_JOBS
from app.web.console.acting.pause_forecast import pause_forecast
from app.web.console.acting.sink_acts import OF_SINKS
from app.web.console.acting.verb import curl, is_one_of, json_request, line, rate_of, verb, whole
from app.web.console.cells import address
from app.web.console.inner_api import ApiRequest
from app.web.console.listing.list_view import Item
from app.web.pages.markup import code, facts, lines, section
from hub.keys import SCOPES
from webhooks.condition import CHOSEN_KINDS

__all__ = ["ACTS", "NEW"]

_HOURS: Final = ("", "3600", "86400", "604800")


def _list(kind: str, name: str) -> Callable[[str, Any], str]:
    """Return the way to a list after this act, because the thing itself may be gone."""
    return lambda _identity, _answer: address(kind, done=name)


def _sent_again(identity: str, _: Any) -> str:
    """Return the way to the delivery of a dead letter that is sent again; a record of a broker has none."""
    if identity.startswith("dlv_"):
        return address("deliveries", identity, done="retry")
    return address("dead-letters", done="retry")


def _secret(title: str, name: str, words: str) -> Any:
    def show(answer: Mapping[str, Any]) -> str:
        rows = [(title, f"<code>{escape(str(answer[name]))}</code>")]
        return f'<p class="notice" role="status">{escape(words)}</p>{facts(rows)}'

    return show


def _tested(answer: Mapping[str, Any]) -> str:
    """Return the example that an inbound source was tried with, and the event that it makes."""
    event = answer["event_id"]
    said = f"Published as {event}." if event else "The signature is right. Nothing was published."
    told = [(name, code(str(answer[name]))) for name in ("topic", "key", "delivery_id") if answer[name]]
    sent = "\n".join(f"{name}: {value}" for name, value in answer["headers"].items())
    example = f"{sent}\n\n{answer['body']}"
    return f'<p class="notice" role="status">{escape(said)}</p>{facts(told)}{section("The example", lines(example))}'


# --- subscriptions -------------------------------------------------------------------------------------------------


def _state(state: str, **more: bool) -> Any:
    return lambda identity, _: json_request("PATCH", "/subscriptions/{}", identity, {"state": state, **more})


def _settings(form: Form) -> dict[str, Any]:
    named: dict[str, Any] = {name: form[name] for name in ("topic", "callback", "name", "mode") if form.get(name)}
    if form.get("rate_per_second"):
        named["rate_per_second"] = _number(form["rate_per_second"])
    return named


def _number(text: str) -> float | str:
    """Return a number; other text stays as it is, for the API to refuse."""
    try:
        return float(text)
    except ValueError:
        return text


_SUBSCRIPTION_BOXES: Final = (
    Box("topic", "Topic or pattern", length_max=249), Box("callback", "Callback URL"),
    Box("name", "Name, for people", length_max=100),
    Box("mode", "Mode", "choice", ("", "at_least_once", "ordered", "at_most_once")),
    Box("rate_per_second", "Deliveries a second, at most", length_max=20),
)  # fmt: skip


def _replay(identity: str, form: Form, *, is_dry: bool) -> ApiRequest:
    names = ("source", "topic", "incident_id", "since", "until", "reason")
    body: dict[str, Any] = {name: form[name] for name in names if form.get(name)}
    body.setdefault("source", "dead_letters")
    if form.get("kind"):
        body["kinds"] = [form["kind"]]
    if form.get("status"):
        body["statuses"] = [whole(form["status"])]
    if subscription := identity or form.get("subscription_id", ""):
        body["subscription_id"] = subscription
    body |= rate_of(form)
    once = "" if is_dry else form.get("once", "")
    return ApiRequest.with_json("POST", "/replays", body | ({"dry_run": True} if is_dry else {}), once)


def _replay_line(identity: str, form: Form) -> str:
    subscription = identity or form.get("subscription_id", "")
    words = ["replay", *(["--subscription", subscription] if subscription else [])]
    if form.get("source", "dead_letters") == "dead_letters":
        words.append("--dead-letters")
    options = (
        ("topic", "--topic"), ("since", "--since"), ("until", "--until"), ("kind", "--kind"), ("status", "--status"),
        ("incident_id", "--incident"), ("rate_per_second", "--rate"),
    )  # fmt: skip
    for name, option in options:
        words += [option, form[name]] if form.get(name) else []
    return line(*words, why=form.get("reason", ""))


_REPLAY_BOXES: Final = (
    Box("source", "What", "choice", ("dead_letters", "events")),
    Box("topic", "Only this topic", length_max=249),
    Box("kind", "Only dead letters of this kind", "choice", ("", *CHOSEN_KINDS)),
    Box("status", "Only dead letters with this status of the last answer", length_max=3),
    Box("since", "Since (2026-01-15T09:00:00Z)", length_max=40), Box("until", "Until", length_max=40),
    Box("rate_per_second", "Deliveries a second, at most", length_max=20), REASON,
)  # fmt: skip
_REPLAY_WORDS: Final = (
    "Events are sent again in the background, marked as a replay. It can be paused and cancelled. "
    "First it is counted, and nothing is sent."
)


def _replay_act(name: str, label: str, boxes: Sequence[Box]) -> Act:
    return Act(
        name, label, _REPLAY_WORDS, ("operate",), lambda identity, form: _replay(identity, form, is_dry=False),
        _replay_line, boxes, counts=lambda identity, form: _replay(identity, form, is_dry=True), counted=replayed_words,
        lands=lambda _, answer: address("replays", answer["id"]),
    )  # fmt: skip


_CALLED: Final = ("webhook", "websub")


def _overlap(form: Form) -> str:
    found = form.get("overlap_seconds", "")
    return found if found in _HOURS else ""


def _can_resume(one: Item) -> bool:
    return one["state"] == "disabled" or one["health"] in ("paused", "failing")


def _can_drain(one: Item) -> bool:
    return one["protocol"] == "webhook" and one["state"] in ("active", "disabled") and not one["drains"]


_OF_SUBSCRIPTIONS: Final = (
    Act(
        "pause", "Pause", "Nothing is sent until it is resumed; open deliveries wait. Events that are accepted "
        "meanwhile get no delivery. A replay sends them later.", ("subscribe",), _state("disabled"),
        lambda identity, _: line("subscriptions", "pause", identity), applies=is_one_of("state", "active"),
        foretells="/subscriptions/{}/stats", foretold=pause_forecast,
    ),
    Act(
        "drain", "Drain", "What waits is sent, and nothing new comes in until it is resumed. Events that are accepted "
        "meanwhile get no delivery. A replay sends them later.", ("subscribe",), _state("disabled", drains=True),
        lambda identity, _: line("subscriptions", "drain", identity), applies=_can_drain,
        foretells="/subscriptions/{}/stats", foretold=pause_forecast,
    ),
    Act(
        "resume", "Resume", "Deliveries go on. This also ends a pause of the receiver and closes the breaker.",
        ("subscribe",), _state("active"), lambda identity, _: line("subscriptions", "resume", identity),
        applies=_can_resume,
    ),
    Act(
        "test", "Send a test event", "An event of the topic hookwire.test goes to this callback alone, signed like "
        "any other.", ("subscribe",),
        lambda identity, form: ApiRequest(
            "POST", f"/subscriptions/{quote(identity, safe='')}/test", once=form.get("once", "")
        ),
        lambda identity, _: line("subscriptions", "test", identity),
        applies=lambda one: one["protocol"] in _CALLED and one["state"] == "active",
        lands=lambda _, answer: address("deliveries", answer["delivery_id"]),
    ),
    Act(
        "rotate", "Make a new signing key", "The new secret is shown once. The former keys sign too, while they "
        "overlap.", ("subscribe",),
        lambda identity, form: json_request(
            "POST", "/subscriptions/{}/keys", identity,
            {"overlap_seconds": int(found)} if (found := _overlap(form)) else {}, form.get("once", ""),
        ),
        lambda identity, form: line(
            "subscriptions", "rotate", identity, *(["--overlap-seconds", found] if (found := _overlap(form)) else []),
        ),
        (Box("overlap_seconds", "Overlap in seconds", "choice", _HOURS),),
        applies=lambda one: one["protocol"] == "webhook",
        shows=_secret("Secret", "secret", "The new secret. It is shown only now."),
    ),
    _replay_act("replay", "Send again", _REPLAY_BOXES),
    Act(
        "change", "Change", "Fields that you leave empty stay as they are.", ("subscribe",),
        lambda identity, form: json_request("PATCH", "/subscriptions/{}", identity, _settings(form)),
        lambda identity, form: curl("PATCH", f"/subscriptions/{identity}", _settings(form)), _SUBSCRIPTION_BOXES,
    ),
    Act(
        "end", "End for good", "Its open deliveries become dead letters of the kind gone. This cannot be undone.",
        ("subscribe",), lambda identity, _: ApiRequest("DELETE", f"/subscriptions/{quote(identity, safe='')}"),
        lambda identity, _: line("subscriptions", "end", identity), is_danger=True,
        lands=_list("subscriptions", "end"),
    ),
)  # fmt: skip

# --- keys and topics -----------------------------------------------------------------------------------------------


def _key(form: Form) -> dict[str, Any]:
    body: dict[str, Any] = {"name": form.get("name", ""), "scopes": [scope for scope in SCOPES if form.get(scope)]}
    if topics := form.get("topics", "").replace(",", " ").split():
        body["topics"] = topics
    if days := form.get("days", ""):
        found = _number(days)
        body["lifetime_seconds"] = int(found * 86_400) if isinstance(found, float) and abs(found) < 1e6 else days
    return body


def _key_line(_: str, form: Form) -> str:
    body = _key(form)
    words = [word for scope in body["scopes"] for word in ("--scope", scope)]
    words += [word for topic in body.get("topics", ()) for word in ("--topic", topic)]
    words += ["--expires-in", f"{form['days']}d"] if form.get("days") else []
    return line("keys", "create", body["name"], *words)


def _publish(topic: str, form: Form) -> ApiRequest:
    headers = {"Hookwire-Key": form["key"]} if form.get("key") else {}
    return ApiRequest(
        "POST", f"/topics/{quote(topic, safe='')}/events", body=form.get("content", "").encode(),
        content_type=form.get("content_type") or "application/json", headers=headers, once=form.get("once", ""),
    )  # fmt: skip


def _publish_line(topic: str, form: Form) -> str:
    key = ["--key", form["key"]] if form.get("key") else []
    kind = form.get("content_type") or "application/json"
    return line("publish", topic, form.get("content", ""), *key, "--content-type", kind)


_PUBLISH: Final = Act(
    "publish", "Publish a test event", "The event is stored, and goes to each sink and subscription of the topic like "
    "any other.", ("publish",), _publish, _publish_line,
    (
        Box("content", "Content", "area", value='{"test": true}', length_max=40_000),
        Box("content_type", "Content type", value="application/json", length_max=200),
        Box("key", "Ordering key", length_max=255),
    ),
    lands=lambda _, answer: address("events", answer["id"]),
)  # fmt: skip
_REVOKE: Final = Act(
    "revoke", "Revoke", "Every process refuses this key within five seconds, and its sessions end. This cannot be "
    "undone.", ("admin",), lambda identity, _: ApiRequest("DELETE", f"/keys/{quote(identity, safe='')}"),
    lambda identity, _: line("keys", "revoke", identity), is_danger=True, lands=_list("keys", "revoke"),
)  # fmt: skip

# --- deliveries, holds, replays, work ------------------------------------------------------------------------------

ACTS: Final[Mapping[str, Sequence[Act]]] = {
    "subscriptions": _OF_SUBSCRIPTIONS,
    "topics": (_PUBLISH,),
    "keys": (_REVOKE,),
    "deliveries": (
        verb(
            "retry", "Retry now", "It is due at once, and passes an open breaker as its probe.",
            "/deliveries/{}/retry", ("deadletters", "retry"),
            applies=is_one_of("state", "pending", "retrying", "parked"),
        ),
        verb(
            "give-up", "Give up", "It becomes a dead letter. Later deliveries of its key go on.",
            "/deliveries/{}/give-up", ("deadletters", "give-up"), is_danger=True,
            applies=is_one_of("state", "pending", "retrying", "parked"),
        ),
    ),
    "dead-letters": (
        verb(
            "retry", "Send again", "It is sent again, marked as a replay, later than events that followed it.",
            "/dead-letters/{}/retry", ("deadletters", "retry"), lands=_sent_again,
        ),
        verb(
            "purge", "Delete", "The dead letter is deleted. Its event stays until its retention ends.",
            "/dead-letters/{}/purge", ("deadletters", "purge"), is_danger=True, lands=_list("dead-letters", "purge"),
        ),
    ),
    "holds": (
        verb(
            "retry", "Retry now", "Its oldest record is sent at once. If it is accepted, the others follow in order.",
            "/holds/{}/retry", ("holds", "retry"), lands=_list("holds", "retry"),
        ),
        verb(
            "give-up", "Give up", "The oldest record becomes a dead letter and the next one is tried. The order of its "
            "key is broken there.", "/holds/{}/give-up", ("holds", "give-up"), is_danger=True,
            boxes=(Box("all", "Every record that waits, not only the oldest", "check"), REASON),
            lands=_list("holds", "give-up"),
        ),
    ),
    "incidents": OF_INCIDENTS,
    "sinks": OF_SINKS,
    "sources": (
        verb("pause", "Pause", "It is read no more until it is resumed, in every process. Records wait in Kafka.",
              "/sources/{}/pause", ("sources", "pause"),
              applies=lambda one: one.get("kind") == "kafka" and not one.get("paused")),
        verb("resume", "Resume", "It is read again, from the offsets in the database.", "/sources/{}/resume",
              ("sources", "resume"), applies=is_one_of("paused", True)),
    ),
    "inbound": (
        Act(
            "test", "Try it", "An example of this sender is signed with the newest secret, and judged as if it had "
            "come from outside.", ("operate",),
            lambda name, form: json_request("POST", "/in/{}/test", name, {"publish": bool(form.get("publish"))}),
            lambda name, form: line("sources", "test", name, *(["--publish"] if form.get("publish") else [])),
            (Box("publish", "Publish the example: subscribers get it", "check"),),
            shows=_tested,
        ),
    ),
    "refusals": (
        verb(
            "retry", "Publish", "It is read again and published. Records that waited for it follow in their order.",
            "/source-refusals/{}/retry", ("sources", "retry"), lands=_list("refusals", "retry"),
        ),
        verb(
            "give-up", "Skip", "It is forgotten here; a record stays in Kafka. Records that waited for it are "
            "published.", "/source-refusals/{}/give-up", ("sources", "skip"), is_danger=True,
            lands=_list("refusals", "give-up"),
        ),
    ),
    "replays": (
        verb("pause", "Pause", "It makes no more deliveries until it is resumed.", "/replays/{}/pause",
              applies=is_one_of("state", "running")),
        verb("resume", "Resume", "It goes on where it stopped.", "/replays/{}/resume",
              applies=is_one_of("state", "paused")),
        verb("cancel", "Cancel the replay", "It ends for good. Deliveries that it has made are still sent.",
              "/replays/{}/cancel", applies=is_one_of("state", "running", "paused"), is_danger=True),
    ),
    "queues": (
        verb("pause", "Pause", "No message of it is handed out until it is resumed.", "/queues/{}/pause",
              ("queues", "pause"), applies=is_one_of("paused", False)),
        verb("resume", "Resume", "Messages are handed out again.", "/queues/{}/resume", ("queues", "resume"),
              applies=is_one_of("paused", True)),
        verb("redrive", "Return dead messages", "Dead messages return to their places in the queue.",
              "/queues/{}/dead/redrive", ("queues", "redrive"), applies=lambda one: bool(one["counts"]["dead"])),
        verb("purge", "Delete dead messages", "Its dead messages are deleted. This cannot be undone.",
              "/queues/{}/dead/purge", ("queues", "purge"), applies=lambda one: bool(one["counts"]["dead"]),
              is_danger=True),
    ),
    "jobs": OF_JOBS,
    "services": (
        verb("disable", "Disable", "New requests are refused; those that wait are still answered.",
              "/services/{}/disable", ("services", "disable"), applies=is_one_of("disabled", False)),
        verb("enable", "Enable", "New requests are accepted again.", "/services/{}/enable", ("services", "enable"),
              applies=is_one_of("disabled", True)),
    ),
}  # fmt: skip
"""The acts on one thing, by its list."""

NEW: Final[Mapping[str, Act]] = {
    "subscriptions": Act(
        "new", "Subscribe", "Every event that is accepted from then on reaches the callback. The signing secret is "
        "shown once.", ("subscribe",),
        lambda _, form: ApiRequest.with_json("POST", "/subscriptions", _settings(form), form.get("once", "")),
        lambda _, form: line("subscribe", form.get("topic", ""), form.get("callback", "")), _SUBSCRIPTION_BOXES,
        shows=lambda answer: _secret("Secret", "secret", f"Made: {answer['id']}. The secret is shown only now.")(answer)
        + f'<p><a href="{escape(address("subscriptions", answer["id"]))}">Open the subscription</a></p>',
    ),
    "replays": _replay_act(
        "new", "Replay",
        (
            Box("subscription_id", "Only this subscription", length_max=60),
            Box("incident_id", "Only dead letters of this incident", length_max=30), *_REPLAY_BOXES,
        ),
    ),
    "jobs": NEW_JOB,
    "keys": Act(
        "new", "Make a key", "The key is shown once. Only its digest is stored.", ("admin",),
        lambda _, form: ApiRequest.with_json("POST", "/keys", _key(form)), _key_line,
        (
            Box("name", "Name", is_required=True, length_max=100),
            *(Box(scope, scope, "check") for scope in SCOPES),
            Box("topics", "Only these topics or patterns, separated by spaces"),
            Box("days", "Days until it ends; empty: until it is revoked", length_max=10),
        ),
        shows=_secret("Key", "key", "The new key. It is shown only now."),
    ),
}  # fmt: skip
"""The acts that make a new thing, by its list."""
