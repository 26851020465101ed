"""ScheduledSubscription: the state that a worker keeps of a subscription. Pure."""

from __future__ import annotations

import math
from collections.abc import Set
from dataclasses import dataclass, field

from event.cloudevents import is_opaque
from webhooks.claim import Claim
from webhooks.outcome import Outcome

__all__ = ["ScheduledSubscription"]

_BATCH_BYTES_MAX = 1024 * 1024
_FAST_SECONDS = 0.25
"""A receiver is fast if it answers within this time. Claims that wait for a slower one would outlive their leases."""
_OVERLOADED = ("throttled", "server_error", "timeout", "connect")
"""Outcomes after which a receiver gets fewer attempts at once (WH-R16)."""


@dataclass(slots=True, eq=False)
class ScheduledSubscription:
    """The state of one subscription in a worker.

    ``waiting`` are the claims without a slot, in the order of their start; ``ahead`` is their number after the latest
    claim. ``is_due``: the database has more to claim. ``asks_at``: the time at which a throttle lets it claim again.
    ``window`` limits its attempts at once; ``in_flight`` counts them. ``is_proven``: its last attempt succeeded;
    ``is_fast``: within a quarter of a second. ``batch_max`` is the limit of events in a request. ``accepted`` is the
    number that its receiver accepts, with the version of the subscription to which that applies.
    """

    id: int
    window: int
    waiting: list[Claim] = field(default_factory=list)
    in_flight: int = 0
    is_due: bool = False
    ahead: int = 0
    asks_at: float = -math.inf
    is_proven: bool = False
    is_fast: bool = False
    batch_max: int = 1
    accepted: tuple[int, int] | None = None

    @property
    def is_idle(self) -> bool:
        """Return whether it has no claim and nothing due. Without it, only the results of its attempts would be
        forgotten.
        """
        return not (self.waiting or self.in_flight or self.is_due)

    @property
    def may_claim(self) -> bool:
        """Return whether a delivery is due, and half of the earlier claims have started."""
        return self.is_due and len(self.waiting) <= self.ahead // 2

    def batch_end(self, start: int, leased_beyond: float, busy: Set[tuple[int, str | None]]) -> int:
        """Return the end of the batch in ``waiting`` that begins at ``start``.

        The leases of all claims but the first last beyond the monotonic time ``leased_beyond``. All claims have the
        same version of the subscription. No lane occurs twice or is in flight. Payloads and headers together have at
        most a mebibyte. An opaque event is sent alone.
        """
        first, end = self.waiting[start], start + 1
        last = min(start + self._events_max(first), len(self.waiting))
        if end >= last or is_opaque(first.event):  # the usual case
            return end
        lanes, weight = {first.lane}, first.event.size_bytes
        while end < last:
            claim = self.waiting[end]
            weight += claim.event.size_bytes
            is_changed = claim.subscriber.version != first.subscriber.version
            is_blocked = claim.lane is not None and (claim.lane in busy or claim.lane in lanes)
            is_short = claim.leased_until < leased_beyond
            if is_changed or is_blocked or is_short or is_opaque(claim.event) or weight > _BATCH_BYTES_MAX:
                break
            lanes.add(claim.lane)
            end += 1
        return end

    def learn(self, outcome: Outcome | None, window_max: int) -> None:
        """Adapt the window and the flags to the outcome of an attempt; None: the attempt was cancelled."""
        succeeded = outcome is not None and outcome.kind == "delivered"
        self.is_proven = succeeded
        self.is_fast = outcome is not None and succeeded and outcome.total_seconds < _FAST_SECONDS
        if outcome is not None and outcome.kind in _OVERLOADED:
            self.window = max(self.window // 2, 1)
        elif succeeded and self.window < window_max:
            self.window += 1

    def halve_batches(self, version: int, events: int) -> None:
        """Note that a batch of ``events`` was too large: send half as many, until the subscription changes."""
        self.accepted = version, max(events // 2, 1)

    def _events_max(self, first: Claim) -> int:
        wanted = first.subscriber.batch_max
        if self.accepted is None or self.accepted[0] != first.subscriber.version:
            return wanted
        return min(wanted, self.accepted[1])
