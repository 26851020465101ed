"""Lifetime: how long its publisher wants an event delivered, and whether it may be tried again (WH-A04).

It travels with the event as headers that no receiver sees: ``hookwire-ttl``, in seconds, and ``hookwire-retry: never``.
The time counts from the creation of the delivery, by the database's clock. That follows acceptance at once unless the
relay stands still. A host whose clock jumps must not end deliveries.
"""

from __future__ import annotations

from dataclasses import replace

from event.event import Event
from webhooks.retry import RetryPolicy

__all__ = ["ttl_seconds", "within_lifetime"]


def ttl_seconds(event: Event) -> float | None:
    """Return the time to live that its publisher set; None: without end. Invalid values, which SQL may write, are
    ignored.
    """
    text = event.headers.get("hookwire-ttl", "")
    return float(text) if text.isascii() and text.isdigit() and len(text) <= 9 else None


def within_lifetime(policy: RetryPolicy, event: Event) -> RetryPolicy:
    """Return the subscription's policy, shortened by the event's own lifetime."""
    ttl = ttl_seconds(event)
    if ttl is not None and ttl < policy.age_seconds_max:
        policy = replace(policy, age_seconds_max=ttl, is_late_final=True)
    return replace(policy, schedule_seconds=()) if event.headers.get("hookwire-retry") == "never" else policy
