"""The Simple Pirate queue without I/O. Workers are REQ sockets; the one that waits longest gets the next request."""

from __future__ import annotations

from collections import OrderedDict

from reqrep.counters import Counters
from reqrep.frames import Event, Frames, printable
from reqrep.pirate.options import READY, QueueOptions, QueueStep

__all__ = ["SimpleQueue"]


class SimpleQueue:
    """The ready workers in order. Time plays no part, because Simple Pirate has no heartbeats (SP-07)."""

    def __init__(self, options: QueueOptions | None = None) -> None:
        self.options = options or QueueOptions()
        self.counters = Counters()
        self._ready: OrderedDict[bytes, None] = OrderedDict()
        self._step = QueueStep([], [], [])

    @property
    def wants_clients(self) -> bool:
        """Return whether to read the frontend. Without a ready worker, requests wait inside ZeroMQ (SP-04)."""
        return bool(self._ready)

    @property
    def workers(self) -> int:
        """Return the number of ready workers."""
        return len(self._ready)

    def from_worker(self, now: float, frames: Frames) -> QueueStep:
        """Handle READY ``[id][empty][0x01]`` or a reply ``[id][empty][client][empty][body...]`` (SP-05)."""
        refusal = self.options.limits.refusal(frames)
        if refusal is not None or len(frames) < 3 or frames[1] != b"":
            self._drop(refusal or "malformed-worker-message", frames)
        elif len(frames) == 3:
            if frames[2] in READY:
                self._make_ready(frames[0])
            else:
                self._drop("unknown-command", frames)
        elif len(frames) < 5 or frames[3] != b"":
            self._drop("malformed-worker-message", frames)
        else:
            self.counters.totals["replies"] += 1
            self._step.to_clients.append(frames[2:])
            self._make_ready(frames[0])
        return self._take()

    def from_client(self, now: float, frames: Frames) -> QueueStep:
        """Send a request ``[client][empty][body...]`` to the worker that has been ready longest (SP-03)."""
        refusal = self.options.limits.refusal(frames)
        if refusal is not None or len(frames) < 3 or frames[1] != b"":
            self._drop(refusal or "malformed-request", frames)
        elif not self._ready:
            self._drop("no-worker", frames)
        else:
            worker, _ = self._ready.popitem(last=False)
            self.counters.totals["requests"] += 1
            self._step.to_workers.append([worker, b"", *frames])
        return self._take()

    def failed(self, now: float, frames: Frames, to_worker: bool, reason: str) -> QueueStep:
        """Handle a message that the socket refused: send a request to the next worker, count a lost reply (ZL-09)."""
        self.counters.drop(f"{'worker' if to_worker else 'client'}-{reason}")
        return self.from_client(now, frames[2:]) if to_worker else self._take()

    def tick(self, now: float) -> QueueStep:
        """Return an empty step: this protocol has no deadlines."""
        return self._take()

    def deadline(self) -> float | None:
        """Return None."""
        return None

    def _make_ready(self, worker: bytes) -> None:
        if worker not in self._ready and len(self._ready) >= self.options.workers_max:
            self._drop("too-many-workers", [worker])
            return
        self._ready[worker] = None
        self._step.events.append(Event("worker-ready", peer=printable(worker)))

    def _drop(self, reason: str, frames: Frames) -> None:
        self.counters.drop(reason)
        self._step.events.append(Event("dropped", peer=printable(frames[0]) if frames else "", detail=reason))

    def _take(self) -> QueueStep:
        step, self._step = self._step, QueueStep([], [], [])
        return step
