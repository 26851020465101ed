"""Condition: the state of an event, a sink, a delivery or a subscription, its reason and its next attempt. Pure.

API, pages, commands, logs and metrics use this module, so they agree (FT-01, FT-04). A row has the columns of the view
``receivers``; the row of a delivery also has its own. Several blockers may apply; the first of this list is named::

    pause      the subscription is disabled, or its receiver asked for a pause
    hold       the delivery is parked, or the sink's record is held, until an operator decides
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
from typing import Any, Final, Literal, NamedTuple

__all__ = [
    "QUEUED",
    "Blocker",
    "Condition",
    "DeliveryState",
    "EventState",
    "Health",
    "delivery_condition",
    "event_condition",
    "format_moment",
    "sink_condition",
    "subscription_condition",
]

Blocker = Literal["pause", "hold", "order", "breaker", "schedule", "rate"]
DeliveryState = Literal["pending", "sending", "retrying", "parked", "delivered", "dead"]
EventState = Literal["pending", "held", "unrouted", "unmatched", "sending", "retrying", "parked", "delivered", "dead"]
Health = Literal["healthy", "untried", "failing", "paused", "disabled", "gone", "expired", "denied", "deleted"]
Row = Mapping[str, Any]

_SETTINGS: Final = {"kafka": "HOOKWIRE_KAFKA_BOOTSTRAP_SERVERS", "amqp": "HOOKWIRE_AMQP_URL"}
_SENT: Final = {"webhooks": "matched with subscriptions", "jobs": "its job was enqueued"}
_BY_URGENCY: Final = ("held", "parked", "retrying", "sending", "pending", "dead", "delivered")
_DEAD: Final = {
    "exhausted": "given up: its retry schedule is used up",
    "declined": "given up: the answer of the receiver is final",
    "aborted": "given up: the receiver asked for no other attempt",
    "gone": "given up: the subscription has ended",
    "internal": "given up: the hub could not send it",
}
_OVERDUE_SECONDS: Final = 30.0


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


def _latest(row: Row, *moments: datetime | None) -> datetime:
    """Return the last of these moments; never before now."""
    now: datetime = row["now"]
    return max(now, now, *(moment for moment in moments if moment is not None))


def _answer(outcome: str | None, status: int | None) -> str:
    return " ".join(map(str, filter(None, (outcome, status))))


# --- deliveries ----------------------------------------------------------------------------------------------------


def delivery_condition(row: Row) -> Condition:
    """Return the condition of an open, a delivered or a dead delivery.

    The row of an open delivery has ``parked_at``, ``due_at`` (None: behind another delivery of its key),
    ``is_claimed``, ``attempts``, ``last_outcome`` and ``last_status``. A delivered or dead one also has ``state``,
    ``at``, ``kind`` and ``detail``.
    """
    answer = _answer(row["last_outcome"], row["last_status"])
    state = row.get("state")
    if state == "delivered":
        return Condition("delivered", f"delivered at {format_moment(row['at'])} by attempt {row['attempts']}")
    if state == "dead":
        why = row["detail"] or (f"the last attempt failed: {answer}" if answer else None)
        return Condition("dead", ": ".join(filter(None, (_DEAD[row["kind"]], why))))
    failed = f"the last attempt failed: {answer}" if answer else None
    open_state = _open_state(row)
    reason, blocked_by, next_at = _what_waits(row) or _what_is_free(row, answer)
    # If the schedule is the blocker, the failure comes first.
    parts = (failed, reason) if blocked_by == "schedule" else (reason, failed)
    return Condition(open_state, "; ".join(filter(None, parts)), blocked_by, next_at)


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
        verb, again = ("it was fetched", "may be fetched") if is_pull else ("it is being sent", "is sent")
        return f"{verb}; without a result it {again} again at {format_moment(row['due_at'])}", None, row["due_at"]
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
        return f"the rate limit lets the next one pass at {format_moment(row['rate_until'])}", "rate", row["rate_until"]
    if (now - due_at).total_seconds() > _OVERDUE_SECONDS:
        return (
            f"it is due since {format_moment(due_at)} and no worker has taken it; is `hookwire deliver` running?",
            None,
            now,
        )
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

    The row also has ``failing_since``, ``failure_outcome``, ``failure_status``, ``last_success_at``, ``waiting`` and
    ``next_due_at``.
    """
    if (inactive := _inactive(row)) is not None:
        return inactive
    if row["protocol"] == "pull":
        return Condition("healthy", "its subscriber fetches its events")
    reason, blocked_by, next_at = _subscription_block(row, row["next_due_at"]) or _next_delivery(row)
    is_paused = blocked_by == "pause"
    if row["failing_since"] is not None:
        return Condition("paused" if is_paused else "failing", _why_failing(row, reason), blocked_by, next_at)
    if is_paused:
        return Condition("paused", str(reason), blocked_by, next_at)
    if row["last_success_at"] is None:
        return Condition(
            "untried", "; ".join(filter(None, ("nothing has been sent to it yet", reason))), blocked_by, next_at
        )
    success = f"the last success was at {format_moment(row['last_success_at'])}"
    return Condition("healthy", "; ".join(filter(None, (success, reason))), blocked_by, next_at)


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
    due_at, now = row["next_due_at"], row["now"]
    if due_at is None:
        return "its deliveries wait behind a parked delivery of their key", "hold", None
    if due_at > now:
        return f"the next attempt is at {format_moment(due_at)}", "schedule", due_at
    if row["rate_until"] is not None and row["rate_until"] > now:
        return f"the rate limit lets the next one pass at {format_moment(row['rate_until'])}", "rate", row["rate_until"]
    return None, None, now


# --- events --------------------------------------------------------------------------------------------------------


def sink_condition(row: Row) -> Condition:
    """Return the condition of an event at one sink.

    The row has ``sink``, ``state`` (pending, held, sent), ``configured``, ``reason`` and ``probe_at``.
    """
    if row["state"] == "sent":
        return Condition("sent", _SENT.get(row["sink"], "the broker has confirmed it"))
    if not row["configured"] and row["sink"] in _SETTINGS:
        return Condition(row["state"], f"this sink is not configured; set {_SETTINGS[row['sink']]}", "hold")
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
