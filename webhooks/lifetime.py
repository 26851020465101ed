"""Lifetime: how long, and whether more than once, its publisher finds an event worth delivering (WH-A04).

It travels with the event as headers that no receiver sees: ``hookwire-ttl``, in seconds, and ``hookwire-retry: never``.
The time counts from the making of the delivery, which follows acceptance at once unless the relay stands still, by the
database's clock: a host whose clock jumps must not end everything.
"""

from __future__ import annotations

from dataclasses import replace

from event.event import Event
from webhooks.retry import RetryPolicy

__all__ = ["ttl_seconds", "within_lifetime"]


def ttl_seconds(event: Event) -> float | None:
    """Return how long it is worth delivering; None without end.

    What makes no sense, as SQL may write, counts for nothing.
    """
    text = event.headers.get("hookwire-ttl", "")
    return float(text) if text.isascii() and text.isdigit() and len(text) <= 9 else None


def within_lifetime(policy: RetryPolicy, event: Event) -> RetryPolicy:
    """Return the subscription's policy, as far as the event's own lifetime goes."""
    ttl = ttl_seconds(event)
    if ttl is not None and ttl < policy.age_seconds_max:
        policy = replace(policy, age_seconds_max=ttl, is_late_final=True)
    return replace(policy, schedule_seconds=()) if event.headers.get("hookwire-retry") == "never" else policy
