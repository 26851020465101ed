"""A worker that may wait for a request. A caller of the same process may hand it one that is leased to it already.

::

    waits --reserved--> a caller's statement --handed--> answered with the request
      ^                          |                |
      '---- not leased to it ----'                '-- its client has gone: back into the queue
"""

from __future__ import annotations

import asyncio

from reqrep.bridge.held_request import HeldRequest

__all__ = ["WaitingWorker"]


class WaitingWorker:
    """One claim of a worker. ``name`` and ``lease_seconds`` are those of its lease; None: the service's own.

    ``met`` is the number of the service's unmet requests when its last statement began.
    """

    def __init__(self, service: str, name: str, lease_seconds: float | None, met: int = 0) -> None:
        self.service = service
        self.name = name
        self.lease_seconds = lease_seconds
        self.met = met
        self._handed: HeldRequest | None = None
        self.waiting: asyncio.Future[None] | None = None

    def waiter(self) -> asyncio.Future[None]:
        """Return the future of a new wait."""
        self.waiting = asyncio.get_running_loop().create_future()
        return self.waiting

    def give(self, held: HeldRequest) -> bool:
        """Hand over a request that is leased to this worker. Return False if it waits no more."""
        if self.waiting is None or self.waiting.done():
            return False
        self._handed = held
        self.waiting.set_result(None)
        return True

    def take(self) -> list[HeldRequest]:
        """Return the request that was handed over, once."""
        held, self._handed = self._handed, None
        return [] if held is None else [held]

    @property
    def has_request(self) -> bool:
        """Return whether a request was handed over and not taken."""
        return self._handed is not None
