"""Slots: limit the attempts that run at once: in all, per host and per subscription (WH-I01). Pure.

A subscription whose last attempt did not succeed is unproven. All unproven subscriptions together get at most half of
all slots, and half of the slots of each host. A thousand dead callbacks, each with a slot for its whole deadline, then
leave slots for working callbacks, even on the same host.

Each attempt that shows an overloaded receiver halves the receiver's limit, down to one. Each success raises it by one.
So a receiver that recovers does not get all waiting deliveries at once (WH-R16).

Proven and unproven subscriptions take turns for the next free slot; within a group the hosts take turns, and within a
host its subscriptions. The queues hold only subscriptions that can start, so the next one is found without a search.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from webhooks.scheduled_subscription import ScheduledSubscription
from webhooks.worker_options import SlotOptions

__all__ = ["Slots"]


@dataclass(slots=True)
class _Host:
    """Used slots of a host, and two queues of subscriptions that wait for a slot: unproven, proven."""

    used: int = 0
    unproven_used: int = 0
    waiting: tuple[OrderedDict[int, ScheduledSubscription], OrderedDict[int, ScheduledSubscription]] = field(
        default_factory=lambda: (OrderedDict(), OrderedDict())
    )


class Slots:
    """The slots of one worker, and the order in which subscriptions get them. No method blocks."""

    def __init__(self, options: SlotOptions) -> None:
        self._options = options
        self._used = 0
        self._unproven_used = 0
        self._hosts: dict[str, _Host] = {}
        self._places: dict[int, tuple[str, bool]] = {}
        # Hosts with a free slot for a waiting subscription, as two queues: unproven, proven.
        self._open: tuple[OrderedDict[str, None], OrderedDict[str, None]] = (OrderedDict(), OrderedDict())
        self._proven_first = True

    @property
    def used(self) -> int:
        """Return the number of attempts in flight."""
        return self._used

    @property
    def unproven_free(self) -> int:
        """Return the number of slots that unproven subscriptions may still take."""
        return max(self._options.total // 2, 1) - self._unproven_used

    def place(self, subscription: ScheduledSubscription, host: str | None) -> None:
        """Queue the subscription for a slot of this host; None removes it. A queued subscription keeps its turn."""
        wanted = None if host is None else (host, subscription.is_proven)
        present = self._places.get(subscription.id)
        if wanted == present:
            return
        if present is not None:
            del self._places[subscription.id]
            del self._hosts[present[0]].waiting[present[1]][subscription.id]
            self._refresh(present[0])
        if wanted is not None:
            self._places[subscription.id] = wanted
            self._hosts.setdefault(wanted[0], _Host()).waiting[wanted[1]][subscription.id] = subscription
            self._refresh(wanted[0])

    def next(self) -> ScheduledSubscription | None:
        """Return the subscription whose turn it is, and end its turn. Return None if no waiting one may start."""
        if self._used >= self._options.total:
            return None
        for is_proven in (self._proven_first, not self._proven_first):
            hosts = self._open[is_proven]
            if hosts and (is_proven or self.unproven_free > 0):
                self._proven_first = not is_proven
                host = next(iter(hosts))
                hosts.move_to_end(host)
                waiting = self._hosts[host].waiting[is_proven]
                id_ = next(iter(waiting))
                waiting.move_to_end(id_)
                return waiting[id_]
        return None

    def take(self, host: str, *, is_proven: bool) -> None:
        """Take a slot for the subscription that :meth:`next` returned."""
        self._change(host, 1, is_proven=is_proven)

    def give(self, host: str, *, was_proven: bool) -> None:
        """Release a slot; ``was_proven`` is the value with which it was taken."""
        self._change(host, -1, is_proven=was_proven)

    def _change(self, name: str, by: int, *, is_proven: bool) -> None:
        host = self._hosts[name]
        self._used += by
        host.used += by
        if not is_proven:
            self._unproven_used += by
            host.unproven_used += by
        self._refresh(name)

    def _refresh(self, name: str) -> None:
        """List the host while it has a free slot and a waiting subscription. Forget a host that is not used."""
        host = self._hosts[name]
        for is_proven, hosts in enumerate(self._open):
            if host.waiting[is_proven] and self._has_room(host, is_proven=bool(is_proven)):
                hosts.setdefault(name)
            else:
                hosts.pop(name, None)
        if not host.used and not host.waiting[0] and not host.waiting[1]:
            del self._hosts[name]

    def _has_room(self, host: _Host, *, is_proven: bool) -> bool:
        per_host = self._options.per_host
        return host.used < per_host and (is_proven or host.unproven_used < max(per_host // 2, 1))
