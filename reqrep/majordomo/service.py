"""A named service: its queue of requests and its workers, oldest first."""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass, field

from reqrep.majordomo.options import ServicePolicy
from reqrep.majordomo.request_queue import RequestQueue
from reqrep.majordomo.worker import Worker

__all__ = ["Service"]


@dataclass(slots=True, eq=False)
class Service:
    """A service with workers or requests, or with workers a short time ago.

    ``idle`` holds the idle workers, the longest waiting first; ``workers`` holds all workers. ``armed_at`` is when the
    broker checks the service next. ``empty_since`` is when its last worker left. It is None while the service has a
    worker, or if it never had one.
    """

    name: bytes
    policy: ServicePolicy
    queue: RequestQueue
    workers: dict[bytes, Worker] = field(default_factory=dict)
    idle: OrderedDict[bytes, Worker] = field(default_factory=OrderedDict)
    armed_at: float | None = None
    empty_since: float | None = None
    counts: Counter[str] = field(default_factory=Counter)
    busy_seconds: float = 0.0

    def needed_until(self, idle_seconds: float) -> float | None:
        """Return when to check the service next: for expired requests, or when it may be removed. None: never."""
        if self.queue.count:
            return self.queue.check_at
        if not self.workers and self.empty_since is not None:
            return self.empty_since + idle_seconds
        return None
