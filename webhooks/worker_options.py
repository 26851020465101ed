"""Options of a delivery worker: its name, its time limits and the limits of claims and memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from runtime.sample import EventSample
from webhooks.breaker import BreakerOptions
from webhooks.error_policy import ErrorPolicy

__all__ = ["SlotOptions", "WorkerOptions"]


@dataclass(frozen=True, slots=True)
class SlotOptions:
    """Limits of attempts in flight: in all, per subscription, per host."""

    total: int = 256
    per_subscription: int = 64
    per_host: int = 64


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """Options of a worker.

    The lease of a claim is the subscription's deadline plus ``lease_margin_seconds``. A claim may wait for a slot as
    long as the margin. A killed worker delays an ordered lane as long as the lease. ``claim_max`` limits the claims
    that wait for a slot, ``payload_bytes_max`` the contents of all claims. ``poll_seconds`` is the interval of the
    query for due subscriptions.
    """

    name: str
    public_url: str
    schedule_seconds: Sequence[int]
    age_seconds_max: float = 604_800.0
    timeout_seconds: float = 15.0
    lease_margin_seconds: float = 5.0
    retry_after_seconds_max: float = 3600.0
    claim_max: int = 1_000
    claim_subscriptions_max: int = 64
    payload_bytes_max: int = 64 * 1024 * 1024
    poll_seconds: float = 1.0
    slots: SlotOptions = field(default_factory=SlotOptions)
    breaker: BreakerOptions = field(default_factory=BreakerOptions)
    errors: ErrorPolicy = field(default_factory=ErrorPolicy)
    appends_hub_topic: bool = True
    log_sample: EventSample = field(default_factory=EventSample)
