"""Slots: how many attempts may run at once, in all, for one subscription and for one host (WH-I01). Pure.

A subscription that has not lately succeeded counts as unproven, and the unproven ones together get half of all slots,
and half of each host's: a thousand dead callbacks, each holding a slot for its whole deadline, must leave room for the
living, also for those behind the same gateway.

A receiver that seems overloaded gets half as many at once with each such attempt, down to one, and one more with each
success: it is not buried when it comes back (WH-R16).

The next free slot goes to the proven and the unproven in turn, among these to the hosts in turn, and to the
subscriptions of a host in turn. Only what can start stands in a line, so the next one is found without a search.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from webhooks.scheduled_subscription import ScheduledSubscription
from webhooks.worker_options import SlotOptions

__all__ = ["Slots"]


@dataclass(slots=True)
class _Host:
    """Slots in use at a host, and its subscriptions that wait for one: unproven, proven."""

    used: int = 0
    unproven_used: int = 0
    waiting: tuple[OrderedDict[int, ScheduledSubscription], OrderedDict[int, ScheduledSubscription]] = field(
        default_factory=lambda: (OrderedDict(), OrderedDict())
    )


class Slots:
    """The slots of one worker, and who is next to get one; nothing here waits."""

    def __init__(self, options: SlotOptions) -> None:
        self._options = options
        self._used = 0
        self._unproven_used = 0
        self._hosts: dict[str, _Host] = {}
        self._places: dict[int, tuple[str, bool]] = {}
        # Hosts with a free slot for a subscription that waits: unproven, proven.
        self._open: tuple[OrderedDict[str, None], OrderedDict[str, None]] = (OrderedDict(), OrderedDict())
        self._proven_first = True

    @property
    def used(self) -> int:
        """Attempts in flight."""
        return self._used

    @property
    def unproven_free(self) -> int:
        """Slots that unproven subscriptions may still take, all together."""
        return max(self._options.total // 2, 1) - self._unproven_used

    def place(self, subscription: ScheduledSubscription, host: str | None) -> None:
        """Let the subscription wait for a slot at this host; None: it waits for none. It keeps its turn there."""
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
        """Return the subscription whose turn it is; the turn passes on. None: nothing that waits may start."""
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
        """Take the slot that :meth:`next` found."""
        self._change(host, 1, is_proven=is_proven)

    def give(self, host: str, *, was_proven: bool) -> None:
        """Return a slot; ``was_proven`` as it was taken."""
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
        """List the host where it has both a free slot and a subscription that waits; forget it when it has neither."""
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
