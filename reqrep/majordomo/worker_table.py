"""The registered workers by address, and when to look at each of them again."""

from __future__ import annotations

from reqrep.deadlines import Deadlines
from reqrep.majordomo.worker import Worker

__all__ = ["WorkerTable"]


class WorkerTable:
    """Holds the workers in ``by_address``."""

    def __init__(self) -> None:
        self.by_address: dict[bytes, Worker] = {}
        self._deadlines: Deadlines[Worker] = Deadlines()

    def watch(self, worker: Worker) -> None:
        """Look at the worker at its next deadline."""
        worker.armed_at = worker.check_at()
        self._deadlines.add(worker.armed_at, worker)

    def first_deadline(self) -> float | None:
        """Return when :meth:`due` has something to return, or None."""
        return self._deadlines.first()

    def due(self, now: float) -> list[Worker]:
        """Return the workers to look at now."""
        found = []
        for at, worker in self._deadlines.due(now):
            if self.by_address.get(worker.address) is worker and worker.armed_at == at:
                worker.armed_at = None
                found.append(worker)
        return found

    def forgive_silence(self, until: float) -> None:
        """Let no worker expire before a time. After a pause of this process their heartbeats are not read yet."""
        for worker in self.by_address.values():
            worker.expires_at = max(worker.expires_at, until)
