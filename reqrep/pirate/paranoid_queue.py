"""The Paranoid Pirate queue (6/PPP) without I/O: workers are DEALER sockets, with heartbeats in both directions."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from reqrep.counters import Counters
from reqrep.deadlines import Deadlines
from reqrep.frames import Event, Frames, printable
from reqrep.pirate.options import HEARTBEAT, READY, QueueOptions, QueueStep

__all__ = ["ParanoidQueue"]


@dataclass(slots=True, eq=False)
class _Worker:
    """A registered worker. ``client`` is the client whose request it executes, or None while it is ready."""

    address: bytes
    expires_at: float
    heartbeat_at: float
    client: bytes | None = None
    busy_until: float = 0.0


class ParanoidQueue:
    """The registered workers, and the ready ones in order. A heartbeat never makes a worker ready (PP-07, ZD-27)."""

    def __init__(self, options: QueueOptions | None = None) -> None:
        self.options = options or QueueOptions()
        self.counters = Counters()
        self._workers: dict[bytes, _Worker] = {}
        self._ready: OrderedDict[bytes, _Worker] = OrderedDict()
        self._deadlines: Deadlines[_Worker] = Deadlines()
        self._step = QueueStep([], [], [])

    @property
    def wants_clients(self) -> bool:
        """Return whether to read the frontend. Without a ready worker, requests wait inside ZeroMQ."""
        return bool(self._ready)

    @property
    def workers(self) -> int:
        """Return the number of registered workers."""
        return len(self._workers)

    def from_worker(self, now: float, frames: Frames) -> QueueStep:
        """Handle a control message of one frame, or a reply ``[id][client][empty][body...]`` (PP-02 to PP-05)."""
        refusal = self.options.limits.refusal(frames)
        if refusal is not None or len(frames) < 2:
            self._drop(refusal or "malformed-worker-message", frames)
        elif len(frames) == 2:
            self._control(now, frames)
        elif len(frames) < 4 or frames[2] != b"":
            self._drop("malformed-worker-message", frames)
        else:
            self._reply(now, frames)
        return self._take()

    def from_client(self, now: float, frames: Frames) -> QueueStep:
        """Send a request ``[client][empty][body...]`` to the worker that has been ready longest."""
        refusal = self.options.limits.refusal(frames)
        if refusal is not None or len(frames) < 3 or frames[1] != b"":
            self._drop(refusal or "malformed-request", frames)
        elif not self._ready:
            self._drop("no-worker", frames)
        else:
            _, worker = self._ready.popitem(last=False)
            worker.client, worker.busy_until = frames[0], now + self.options.busy_seconds_max
            self.counters.totals["requests"] += 1
            self._step.to_workers.append([worker.address, *frames])
        return self._take()

    def failed(self, now: float, frames: Frames, to_worker: bool, reason: str) -> QueueStep:
        """Handle a message that the socket refused: remove the worker and send its request to the next worker."""
        self.counters.drop(f"{'worker' if to_worker else 'client'}-{reason}")
        worker = self._workers.get(frames[0]) if to_worker else None
        if worker is not None:
            self._remove(worker, reason)
            if len(frames) > 2:
                return self.from_client(now, frames[1:])
        return self._take()

    def tick(self, now: float) -> QueueStep:
        """Remove silent workers and send heartbeats to ready ones, even if no message arrives (PP-08, ZD-26)."""
        self._forgive_own_pause(now)
        for _, worker in self._deadlines.due(now):
            if self._workers.get(worker.address) is not worker:
                continue
            if self._gone_at(worker) <= now:
                self._remove(worker, "expired")
                continue
            if worker.client is None and worker.heartbeat_at <= now:
                self._step.to_workers.append([worker.address, b"HEARTBEAT" if self.options.sends_text else b"\x02"])
            if worker.heartbeat_at <= now:
                worker.heartbeat_at = now + self.options.heartbeat_seconds
            self._deadlines.add(min(worker.heartbeat_at, self._gone_at(worker)), worker)
        return self._take()

    def deadline(self) -> float | None:
        """Return when :meth:`tick` has work to do, or None without a worker."""
        return self._deadlines.first()

    def _control(self, now: float, frames: Frames) -> None:
        worker, command = self._workers.get(frames[0]), frames[1]
        if command in READY:
            self._register(now, frames[0])
        elif command not in HEARTBEAT:
            self._drop("unknown-command", frames)
        elif worker is None:
            self._drop("unknown-worker", frames)
        else:
            worker.expires_at = now + self.options.expiry_seconds

    def _register(self, now: float, address: bytes) -> None:
        """Register a worker. A second READY makes the worker ready again and adds no second entry (PP-14)."""
        worker = self._workers.get(address)
        if worker is None:
            if len(self._workers) >= self.options.workers_max:
                self._drop("too-many-workers", [address])
                return
            worker = self._workers[address] = _Worker(address, 0, now + self.options.heartbeat_seconds)
            self._deadlines.add(worker.heartbeat_at, worker)
            self._step.events.append(Event("worker-ready", peer=printable(address)))
        worker.expires_at = now + self.options.expiry_seconds
        worker.client = None
        self._ready.setdefault(address, worker)

    def _reply(self, now: float, frames: Frames) -> None:
        worker = self._workers.get(frames[0])
        if worker is None or worker.client != frames[1]:
            self._drop("reply-without-request", frames)
            return
        self.counters.totals["replies"] += 1
        worker.client, worker.expires_at = None, now + self.options.expiry_seconds
        self._ready[worker.address] = worker
        self._step.to_clients.append(frames[1:])

    def _gone_at(self, worker: _Worker) -> float:
        """Return when a worker counts as gone. Workers of the guide are silent while busy; the busy limit applies."""
        return worker.expires_at if worker.client is None else max(worker.expires_at, worker.busy_until)

    def _forgive_own_pause(self, now: float) -> None:
        """Extend all workers' time after a pause of this process: their heartbeats are not read yet (HB-02)."""
        due = self._deadlines.first()
        if due is not None and now - due > self.options.heartbeat_seconds:
            for worker in self._workers.values():
                worker.expires_at = max(worker.expires_at, now + self.options.heartbeat_seconds)

    def _remove(self, worker: _Worker, reason: str) -> None:
        del self._workers[worker.address]
        self._ready.pop(worker.address, None)
        self._step.events.append(Event("worker-gone", peer=printable(worker.address), detail=reason))

    def _drop(self, reason: str, frames: Frames) -> None:
        self.counters.drop(reason)
        self._step.events.append(Event("dropped", peer=printable(frames[0]) if frames else "", detail=reason))

    def _take(self) -> QueueStep:
        step, self._step = self._step, QueueStep([], [], [])
        return step
