"""Condition: the state of an event, a sink, a delivery or a subscription, its reason and its next attempt. Pure.

API, pages, commands, logs and metrics use this module, so they agree. A row has the columns of the view
``receivers``; the row of a delivery also has its own. Several blockers may apply; the first of this list is named::

    pause      the subscription is disabled, or its receiver asked for a pause
    hold       the delivery is parked, or the sink's record is held, until an operator decides
    in_flight  an attempt is on its way
    order      an earlier event of the key has to be delivered first
    breaker    the receiver fails so often that it is tried seldom
    schedule   the last attempt failed, and the next one has its time
    rate       the subscription's rate limit is used up

A reason is one sentence without its full stop, never empty; its times are RFC 3339 in UTC.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple, get_args

__all__ = [
    "CHOSEN_KINDS",
    "ENDED_KINDS",
    "LETTER_KINDS",
    "QUEUED",
    "WAITING_MAX",
    "Blocker",
    "Condition",
    "DeadKind",
    "DeliveryState",
    "EventState",
    "Health",
    "dead_letter_reason",
    "delivery_condition",
    "event_condition",
    "format_duration",
    "format_moment",
    "sink_condition",
    "subscription_condition",
]

Blocker = Literal["pause", "hold", "in_flight", "order", "breaker", "schedule", "rate"]
DeliveryState = Literal["pending", "sending", "retrying", "parked", "delivered", "dead", "ended"]
EventState = Literal[
    "pending", "held", "unrouted", "unmatched", "sending", "retrying", "parked", "delivered", "dead", "ended"
]
Health = Literal[
    "healthy", "untried", "slow", "behind", "failing", "paused", "disabled", "gone", "expired", "denied", "deleted"
]
DeadKind = Literal["exhausted", "too_late", "declined", "aborted", "given_up", "internal", "gone", "erased"]
Row = Mapping[str, Any]
ENDED_KINDS: Final = ("gone", "erased")
"""Kinds of deliveries that ended with their subscription or their contents. Nobody has to act on them."""
LETTER_KINDS: Final[Sequence[str]] = tuple(kind for kind in get_args(DeadKind) if kind not in ENDED_KINDS)
"""Kinds of deliveries that were given up, by the hub, the receiver or a person."""
CHOSEN_KINDS: Final[Sequence[str]] = (*LETTER_KINDS, "gone")
"""Kinds by which a person lists dead letters, and acts on them."""
WAITING_MAX: Final = 1_000
"""The view ``receivers`` counts the waiting deliveries of a subscription up to this number."""

_SETTINGS: Final = {"kafka": "HOOKWIRE_KAFKA_BOOTSTRAP_SERVERS", "amqp": "HOOKWIRE_AMQP_URL"}
_SENT: Final = {"webhooks": "matched with subscriptions", "jobs": "its job was enqueued"}
_BY_URGENCY: Final = ("held", "parked", "retrying", "sending", "pending", "dead", "delivered", "ended")
_DEAD: Final[Mapping[str, str]] = {
    "exhausted": "given up: its attempts are used up",
    "too_late": "given up: it is too late",
    "declined": "given up: the answer of the receiver is final",
    "aborted": "given up: the receiver asked for no other attempt",
    "given_up": "given up by a person",
    "internal": "given up by the hub",
    "refused": "given up: the broker refused it",
}
_UNTRIED: Final = ("expired", "unknown")
"""Outcomes of deliveries that ended without an attempt of which the result is known."""
_OVERDUE_SECONDS: Final = 30.0
_BEHIND_SECONDS: Final = 60.0
_NO_WORKER: Final = "no worker has taken it; is `hookwire deliver` running?"
_SLOW_SECONDS: Final = 1.0
_UNITS: Final = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s"))


class Condition(NamedTuple):
    """State, reason and blocker. ``next_attempt_at`` is never in the past. None: an operator has to act, or something
    else has to end first.
    """

    state: str
    reason: str
    blocked_by: Blocker | None = None
    next_attempt_at: datetime | None = None


QUEUED: Final = Condition("pending", "accepted, and not matched with subscriptions yet")
"""The condition of an event that is not fanned out yet."""


def format_moment(moment: datetime) -> str:
    """Write a moment to the second, as RFC 3339 in UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_duration(seconds: float) -> str:
    """Write a duration in its two largest units.

    >>> [format_duration(seconds) for seconds in (9.7, 130, 7_260)]
    ['9 s', '2 min 10 s', '2 h 1 min']
    """
    for size, unit, small_size, small_unit in _UNITS:
        if seconds >= size:
            rest = int(seconds % size // small_size)
            return f"{int(seconds // size)} {unit}{f' {rest} {small_unit}' if rest else ''}"
    return f"{int(max(seconds, 0))} s"


def _latest(row: Row, *moments: datetime | None) -> datetime:
    """Return the last of these moments; never before now."""
    now: datetime = row["now"]
    return max(now, now, *(moment for moment in moments if moment is not None))


def _answer(outcome: str | None, status: int | None) -> str:
    return " ".join(map(str, filter(None, (outcome, status))))


# --- deliveries ----------------------------------------------------------------------------------------------------


def delivery_condition(row: Row) -> Condition:
    """Return the condition of an open, a delivered, an ended or a dead delivery.

    The row of an open delivery has ``parked_at``, ``due_at`` (None: behind another delivery of its key),
    ``is_claimed``, ``attempts``, ``last_outcome`` and ``last_status``. Any other also has ``state``,
    ``at``, ``kind`` and ``detail``.
    """
    answer = _answer(row["last_outcome"], row["last_status"])
    state = row.get("state")
    if state == "delivered":
        return Condition("delivered", f"delivered at {format_moment(row['at'])} by attempt {row['attempts']}")
    if state == "dead":
        return Condition("dead", _why_dead(row))
    if state == "ended":
        return Condition("ended", _why_ended(row))
    failed = f"the last attempt failed: {answer}" if answer else None
    open_state = _open_state(row)
    reason, blocked_by, next_at = _what_waits(row) or _what_is_free(row, answer)
    # If the schedule is the blocker, the failure comes first.
    parts = (failed, reason) if blocked_by == "schedule" else (reason, failed)
    return Condition(open_state, "; ".join(filter(None, parts)), blocked_by, next_at)


def dead_letter_reason(row: Row) -> str:
    """Return how a dead letter of a subscription or of a broker ended, as ``delivery_condition`` says it.

    The row has ``sink``, ``kind``, ``detail``, ``last_outcome``, ``last_status`` and ``died_at``.
    """
    if row["kind"] in ENDED_KINDS:
        return _why_ended({**row, "at": row["died_at"]})
    return _why_dead(row) if row["sink"] == "webhooks" else _why_record_dead(row)


def _why_dead(row: Row) -> str:
    """Return why a delivery was given up. A person's name and an ended time stand before what was tried."""
    answer = _answer(row["last_outcome"], row["last_status"])
    tried = f"the last attempt failed: {answer}" if answer and row["last_outcome"] not in _UNTRIED else None
    words, detail = _DEAD[row["kind"]], row["detail"]
    if row["kind"] == "exhausted" and not detail and answer:
        return f"{words}; the last one: {answer}"
    if row["kind"] == "given_up":
        return "; ".join(filter(None, (detail or words, tried)))
    if row["kind"] == "too_late":
        return "; ".join(filter(None, (f"{words}: {detail}" if detail else words, tried)))
    return ": ".join(filter(None, (words, detail or answer)))


def _why_record_dead(row: Row) -> str:
    """Return why a record of a broker was given up. Its outcome is the kind of refusal."""
    words, refusal, detail = _DEAD[row["kind"]], row["last_outcome"], row["detail"]
    if refusal == "purged_with_key":
        return ": ".join(filter(None, (words, detail)))
    refused = ": ".join(filter(None, (refusal.replace("_", " "), detail)))
    return f"{words}: the broker had refused it: {refused}" if row["kind"] == "given_up" else f"{words}: {refused}"


def _why_ended(row: Row) -> str:
    """Return what ended a delivery that nobody has to act on: the end of its subscription, or of its contents."""
    at = format_moment(row["at"])
    if row["kind"] == "erased":
        return f"ended at {at}: the contents of its event were erased"
    verb = "ended with its subscription" if row["kind"] == "gone" else "dropped"
    return f"{verb} at {at}{': ' + row['detail'] if row['detail'] else ''}"


def _open_state(row: Row) -> DeliveryState:
    """Return the state by which ``delivery.list`` filters."""
    if row["parked_at"] is not None:
        return "parked"
    if row["attempts"] == 0:
        return "pending"
    return "sending" if row["is_claimed"] else "retrying"


_Found = tuple[str | None, Blocker | None, datetime | None]


def _what_waits(row: Row) -> _Found | None:
    """Return the reason that prevents the attempt, the first one to change if there are several; None for a free
    delivery.
    """
    if (inactive := _inactive(row)) is not None:
        return inactive.reason, inactive.blocked_by, None
    if row["parked_at"] is not None:
        return "it is parked until an operator retries it or gives it up", "hold", None
    if row["due_at"] is None:
        return "an earlier event of its key has to be delivered first", "order", None
    if row["is_claimed"] and row["due_at"] > row["now"]:
        is_pull = row["protocol"] == "pull"
        verb, again = ("it was fetched", "may be fetched") if is_pull else ("it is in flight", "is sent")
        return f"{verb}; without a result it {again} again at {format_moment(row['due_at'])}", "in_flight", None
    return _subscription_block(row, row["due_at"])


def _subscription_block(row: Row, due_at: datetime | None) -> _Found | None:
    """Return the pause or the breaker of the subscription, if one is active."""
    paused, breaker = row["paused_until"], row["breaker_until"]
    next_at = _latest(row, due_at, paused, breaker)
    if paused is not None and paused > row["now"]:
        return f"the receiver asked for a pause until {format_moment(paused)}", "pause", next_at
    if breaker is not None and breaker > row["now"]:
        return f"the breaker is open until {format_moment(breaker)}; then one delivery is tried", "breaker", next_at
    if breaker is not None:
        return "the breaker lets one delivery at a time pass", "breaker", next_at
    return None


def _what_is_free(row: Row, answer: str) -> _Found:
    """Return the reason of a delivery that its subscription does not block."""
    due_at, now = row["due_at"], row["now"]
    if row["protocol"] == "pull":
        return "it waits to be fetched by its subscriber", None, None if due_at <= now else due_at
    if due_at > now:
        return f"attempt {row['attempts'] + 1} is at {format_moment(due_at)}", "schedule", due_at
    if row["rate_until"] is not None and row["rate_until"] > now:
        return _rate_words(row["rate_until"]), "rate", row["rate_until"]
    if (now - due_at).total_seconds() > _OVERDUE_SECONDS:
        return f"it is due since {format_moment(due_at)} and {_NO_WORKER}", None, now
    return "it is due now", None, now


# --- subscriptions -------------------------------------------------------------------------------------------------


def _inactive(row: Row) -> Condition | None:
    state = row["subscription_state"]
    if state != "active":
        why = f": {row['state_reason']}" if row["state_reason"] else ""
        return Condition(state, f"the subscription is {state}{why}", "pause" if state == "disabled" else None)
    lease = row["lease_until"]
    if lease is not None and lease <= row["now"]:
        return Condition("expired", f"the lease of the subscription ended at {format_moment(lease)}")
    return None


def subscription_condition(row: Row) -> Condition:
    """Return whether its receiver answers; the state is a ``Health``.

    The row also has ``drains`` (absent: it does not), ``failing_since``, ``failure_outcome``, ``failure_status``,
    ``last_success_at``, ``waiting``, ``waiting_since``, ``answer_seconds``, ``next_due_at`` and ``next_is_claimed``.
    """
    if row.get("drains"):
        return _draining(row)
    if (inactive := _inactive(row)) is not None:
        return inactive
    late = _lateness(row)
    if row["protocol"] == "pull":
        words = "its subscriber fetches its events"
        return Condition("behind", f"{late}; {words}") if late else Condition("healthy", words)
    due_at = None if row["next_is_claimed"] else row["next_due_at"]
    found = _subscription_block(row, due_at) or _next_delivery(row)
    is_paused = found[1] == "pause"
    if row["failing_since"] is not None:
        return Condition("paused" if is_paused else "failing", _why_failing(row, found[0]), *found[1:])
    if is_paused:
        return Condition("paused", str(found[0]), *found[1:])
    return _late_condition(row, late, found) if late is not None else _usual_condition(row, found)


def _draining(row: Row) -> Condition:
    """Return the condition of a subscription that gets nothing new, while its open deliveries are sent."""
    waiting = row["waiting"]
    left = f"{waiting:,}{'+' * (waiting >= WAITING_MAX)} still to send" if waiting else "nothing is left to send"
    fails = _why_failing(row, None) if row["failing_since"] is not None and waiting else None
    return Condition("disabled", "; ".join(filter(None, (f"it is drained, {left}", fails))), "pause")


def _usual_condition(row: Row, found: _Found) -> Condition:
    """Return the condition of a subscription that does not fail and is not late."""
    success = row["last_success_at"]
    if success is None:
        return Condition("untried", "; ".join(filter(None, ("nothing has been sent to it yet", found[0]))), *found[1:])
    words = f"the last success was at {format_moment(success)}"
    return Condition("healthy", "; ".join(filter(None, (words, found[0]))), *found[1:])


def _lateness(row: Row) -> str | None:
    """Return how many deliveries wait and for how long, if that is longer than a minute."""
    since = row["waiting_since"]
    seconds = (row["now"] - since).total_seconds() if since is not None else 0.0
    if seconds <= _BEHIND_SECONDS:
        return None
    waiting = row["waiting"]
    count = f"{waiting:,} or more wait" if waiting >= WAITING_MAX else f"{waiting:,} wait{'s' * (waiting == 1)}"
    return f"{count}, the oldest for {format_duration(seconds)}"


def _late_condition(row: Row, late: str, found: _Found) -> Condition:
    """Return slow if the receiver's own time explains the delay, else behind."""
    seconds = row["answer_seconds"]
    if seconds is not None and seconds >= _SLOW_SECONDS:
        return Condition(
            "slow", "; ".join(filter(None, (late, f"it answers in {seconds:.1f} s", found[0]))), *found[1:]
        )
    is_overdue = found[1] is None and (row["now"] - row["next_due_at"]).total_seconds() > _OVERDUE_SECONDS
    parts = (late, _NO_WORKER if is_overdue else None, found[0])
    return Condition("behind", "; ".join(filter(None, parts)), *found[1:])


def _why_failing(row: Row, block_reason: str | None) -> str:
    answer = _answer(row["failure_outcome"], row["failure_status"])
    success = row["last_success_at"]
    known = (
        f"its last success was at {format_moment(success)}"
        if success is not None
        else "it has never answered with success"
    )
    since = f"failing since {format_moment(row['failing_since'])}{f': {answer}' if answer else ''}"
    return "; ".join(filter(None, (since, known, block_reason)))


def _next_delivery(row: Row) -> _Found:
    """Return the reason and the next attempt of a subscription without a pause and with a closed breaker."""
    if not row["waiting"]:
        return None, None, None
    due_at, now, rate = row["next_due_at"], row["now"], row["rate_until"]
    if due_at is None:
        return "its deliveries wait behind a parked delivery of their key", "hold", None
    if due_at <= now:
        return (_rate_words(rate), "rate", rate) if rate is not None and rate > now else (None, None, now)
    if row["next_is_claimed"]:
        return "a delivery is in flight", "in_flight", None
    return f"the next attempt is at {format_moment(due_at)}", "schedule", due_at


def _rate_words(rate_until: datetime) -> str:
    return f"the rate limit lets the next one pass at {format_moment(rate_until)}"


# --- events --------------------------------------------------------------------------------------------------------


def sink_condition(row: Row) -> Condition:
    """Return the condition of an event at one sink.

    The row has ``sink``, ``state`` (pending, held, sent), ``configured``, ``paused_at``, ``reason`` and ``probe_at``.
    """
    if row["state"] == "sent":
        return Condition("sent", _SENT.get(row["sink"], "the broker has confirmed it"))
    if not row["configured"] and row["sink"] in _SETTINGS:
        return Condition(row["state"], f"this sink is not configured; set {_SETTINGS[row['sink']]}", "hold")
    if row["paused_at"] is not None:
        return Condition(row["state"], f"this sink is paused since {format_moment(row['paused_at'])}", "pause")
    if row["state"] == "held":
        why = row["reason"] or "it waits behind a held record of its key"
        return Condition("held", why, "hold", row["probe_at"])
    if row["sink"] == "webhooks":
        return Condition("pending", QUEUED.reason)
    return Condition("pending", "it waits for the relay of this sink")


def event_condition(sinks: Sequence[tuple[str, Condition]], deliveries: Sequence[Condition]) -> Condition:
    """Return the condition of the part of an event that is furthest from delivery."""
    if not sinks:
        return Condition("unrouted", "its topic is routed to no sink; it is stored")
    is_fanned_out = any(sink == "webhooks" and found.state == "sent" for sink, found in sinks)
    owed = [
        Condition(found.state, f"{sink}: {found.reason}", *found[2:]) for sink, found in sinks if found.state != "sent"
    ]
    parts = [*owed, *deliveries]
    if not parts:
        if is_fanned_out and len(sinks) == 1:
            return Condition("unmatched", "no subscription's topic and filter matched when it was fanned out")
        return Condition("delivered", "every sink has confirmed it")
    worst = min(parts, key=lambda part: _BY_URGENCY.index(part.state))
    same = Counter(part.state for part in parts)[worst.state]
    share = f"{same} of {len(parts)} {worst.state}; " if len(parts) > 1 else ""
    times = [part.next_attempt_at for part in parts if part.next_attempt_at is not None]
    return Condition(worst.state, share + worst.reason, worst.blocked_by, min(times, default=None))
