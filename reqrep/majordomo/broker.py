"""The Majordomo broker without I/O: ``(now, frames) -> (frames, events)``. Times are monotonic seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from reqrep.counters import Counters
from reqrep.deadlines import Deadlines
from reqrep.frames import Event, Frames, Step, printable
from reqrep.majordomo.inside import CallOfProcess, Inside
from reqrep.majordomo.mmi import Management
from reqrep.majordomo.options import BrokerOptions
from reqrep.majordomo.request import REFUSAL_STATUS, ServiceRequest
from reqrep.majordomo.service import Service
from reqrep.majordomo.wire import MDP_01, Command, MessageKind, parse
from reqrep.majordomo.worker import Worker

__all__ = ["Broker"]

Voter = Callable[[float], bool]
_MMI = b"mmi."
_CALL = b"mmi.call"
_SECOND_TRY_SECONDS = 0.1


class Broker:
    """Serves clients and workers of both dialects on one ROUTER (MD-08).

    ``voter`` decides for each client request whether this broker may serve now; a Binary Star pair sets it. Without a
    voter the broker always serves. Requests to ``mmi.`` services are answered in any state (BS-21).
    """

    def __init__(
        self, options: BrokerOptions | None = None, voter: Voter | None = None, inside: Inside | None = None
    ) -> None:
        self.options = options or BrokerOptions()
        self.inside = inside or Inside()
        self.counters = Counters()
        self.services: dict[bytes, Service] = {}
        self.disabled: set[bytes] = set()
        self.workers: dict[bytes, Worker] = {}
        self.state: Callable[[], dict[str, object]] = dict
        self._voter = voter
        self._mmi = Management(self)
        self._queued_by_client: Counter[bytes] = Counter()
        self._worker_deadlines: Deadlines[Worker] = Deadlines()
        self._service_deadlines: Deadlines[Service] = Deadlines()
        self._out: list[Frames] = []
        self._events: list[Event] = []
        self._handlers: dict[MessageKind, Callable[[float, Command], None]] = {
            MessageKind.READY: self._on_ready,
            MessageKind.PARTIAL: self._on_partial,
            MessageKind.REPLY: self._on_reply,
            MessageKind.HEARTBEAT: self._on_heartbeat,
            MessageKind.DISCONNECT: self._on_disconnect,
            MessageKind.INVALID: self._on_invalid,
            MessageKind.UNEXPECTED: self._on_unexpected,
        }

    # --- called by the server -----------------------------------------------------------------------------------

    def receive(self, now: float, frames: Frames, user: str = "") -> Step:
        """Handle a message from the ROUTER. ``user`` is the authenticated sender, or empty."""
        refusal = self.options.limits.refusal(frames)
        command = parse(frames) if refusal is None else Command(MessageKind.INVALID, frames[0], MDP_01, problem=refusal)
        if command.kind is MessageKind.REQUEST:
            self._on_request(now, command, user)
        else:
            self._handlers[command.kind](now, command)
        return self._step()

    def tick(self, now: float) -> Step:
        """Send due heartbeats; remove lost workers, expired requests and unused services."""
        due = self.deadline()
        if due is not None and now - due > self.options.heartbeat_seconds:
            self._forgive_silence(now)
        for at, worker in self._worker_deadlines.due(now):
            if self.workers.get(worker.address) is worker and worker.armed_at == at:
                worker.armed_at = None
                self._check_worker(now, worker)
        for at, service in self._service_deadlines.due(now):
            if self.services.get(service.name) is service and service.armed_at == at:
                service.armed_at = None
                self._check_service(now, service)
        return self._step()

    def failed(self, now: float, frames: Frames, reason: str) -> Step:
        """Handle a message that the socket refused; the reason is "full" or "unreachable" (ZL-09, MD-29, MD-30)."""
        worker = self.workers.get(frames[0])
        if worker is None:
            self.counters.drop(f"client-{reason}")
        elif frames == worker.dialect.heartbeat_to(worker.address):
            self._on_refused_heartbeat(now, worker, reason)
        else:
            self._undeliver(now, worker, reason)
        return self._step()

    def deadline(self) -> float | None:
        """Return when ``tick`` has work to do, or None without a deadline."""
        of_workers, of_services = self._worker_deadlines.first(), self._service_deadlines.first()
        if of_workers is None or of_services is None:
            return of_workers if of_services is None else of_services
        return min(of_workers, of_services)

    def reply_inside(self, ticket: int, body: Frames) -> Step:
        """Send the reply of a service of this process."""
        request = self.inside.pop(ticket)
        self._answer(request, body)
        return self._step()

    def call_inside(self, now: float, number: int, service: bytes, body: Frames, user: str = "") -> Step:
        """Handle a request that this process made. It may call ``mmi.`` services too."""
        request = CallOfProcess(b"", MDP_01, service, body, user=user, reports=True, number=number)
        if service.startswith(_MMI):
            self.inside.answer(request, b"200", self._mmi.answer(request))
        else:
            self._submit(now, request)
        return self._step()

    def stop(self) -> Step:
        """Send DISCONNECT to all workers before a planned stop, so that they register elsewhere at once."""
        for worker in list(self.workers.values()):
            self._out.append(worker.dialect.disconnect_to(worker.address))
        return self._step()

    def summary(self) -> dict[str, int]:
        """Return the present numbers of services, workers and queued requests."""
        queued = sum(len(service.queue) for service in self.services.values())
        return {"services": len(self.services), "workers": len(self.workers), "queued": queued}

    def _step(self) -> Step:
        step = (self._out, self._events)
        self._out, self._events = [], []
        return step

    # --- clients ------------------------------------------------------------------------------------------------

    def _on_request(self, now: float, command: Command, user: str) -> None:
        request = ServiceRequest(command.sender, command.dialect, command.name, command.body, user=user)
        if command.name.startswith(_MMI) and command.name != _CALL:
            self.counters.totals["mmi"] += 1
            self._send_reply(request, command.name, self._mmi.answer(request))
        elif self._voter is not None and not self._voter(now):
            self.counters.drop("passive")
        elif command.name != _CALL:
            self._submit(now, request)
        elif len(command.body) < 2:
            self._send_reply(request, _CALL, [b"400", b"send the name of the service, then the request"])
        else:
            request.service, request.body, request.reports = command.body[0], command.body[1:], True
            self._submit(now, request)

    def _submit(self, now: float, request: ServiceRequest) -> None:
        """Send the request to an idle worker, queue it, or refuse it."""
        self.counters.totals["requests"] += 1
        if request.service in self.inside.names:
            if not self.inside.put(request):
                self._refuse(request, "queue-full")
            return
        service = self.services.get(request.service)
        if service is None:
            if (reason := self._refusal_of_name(request.service)) is not None:
                self._refuse(request, reason)
                return
            service = self._add_service(request.service)
        service.counts["requests"] += 1
        if service.idle and not service.queue and service.name not in self.disabled:
            self._dispatch(now, service, request)
        elif (reason := self._refusal(service, request)) is not None:
            self._refuse(request, reason)
            self._drop_if_unused(service)
        else:
            request.deadline = now + service.policy.request_seconds_max
            self._queued_by_client[request.client] += 1
            service.queue.append(request)
            self._arm(service)

    def _refusal_of_name(self, name: bytes) -> str | None:
        if not self.options.accepts_name(name) or name.startswith(_MMI):
            return "bad-service-name"
        return "too-many-services" if len(self.services) >= self.options.services_max else None

    def _refusal(self, service: Service, request: ServiceRequest) -> str | None:
        if service.name in self.disabled:
            return "disabled"
        if not service.workers and service.policy.without_workers == "refuse":
            return "no-workers"
        if len(service.queue) >= service.policy.queue_requests_max:
            return "queue-full"
        if self._queued_by_client[request.client] >= self.options.client_requests_max:
            return "client-queue-full"
        return None

    def _refuse(self, request: ServiceRequest, reason: str) -> None:
        """Count a request that gets no answer; report the reason to a client that called ``mmi.call`` (MD-35)."""
        self.counters.drop(reason)
        service = self.services.get(request.service)
        if service is not None:
            service.counts["errors"] += 1
        self._events.append(Event("refused", printable(request.service), printable(request.client), reason))
        if request.reports:
            self._send_reply(request, _CALL, [REFUSAL_STATUS[reason], request.service, reason.encode()])

    def _answer(self, request: ServiceRequest, body: Frames) -> None:
        self.counters.totals["replies"] += 1
        if request.reports:
            self._send_reply(request, _CALL, [b"200", request.service, *body])
        else:
            self._send_reply(request, request.service, body)

    def _send_reply(self, request: ServiceRequest, service: bytes, body: Frames) -> None:
        if isinstance(request, CallOfProcess):
            self.inside.answer(request, body[0], body[2:])
        else:
            self._out.append(request.dialect.to_client(request.client, service, body))

    # --- workers ------------------------------------------------------------------------------------------------

    def _on_ready(self, now: float, command: Command) -> None:
        if (known := self.workers.get(command.sender)) is not None:
            self._expel(now, known, "second-ready")
            return
        reason = self._refusal_of_worker(command.name)
        if reason is not None:
            self.counters.drop(reason)
            self._out.append(command.dialect.disconnect_to(command.sender))
            return
        service = self.services.get(command.name) or self._add_service(command.name)
        expires_at, heartbeat_at = now + self.options.expiry_seconds, now + self.options.heartbeat_seconds
        worker = Worker(command.sender, command.dialect, service.name, service.policy, expires_at, heartbeat_at)
        self.workers[worker.address] = service.workers[worker.address] = worker
        service.empty_since = None
        self._events.append(Event("worker-ready", printable(service.name), printable(worker.address)))
        self._arm_worker(worker)
        self._make_idle(now, worker)

    def _refusal_of_worker(self, name: bytes) -> str | None:
        if not self.options.accepts_name(name) or name.startswith(_MMI) or name in self.inside.names:
            return "worker-bad-service-name"  # MD-14: checks the name of the service, not of the sender (ZD-07)
        if len(self.workers) >= self.options.workers_max:
            return "too-many-workers"
        is_new = name not in self.services
        return "worker-too-many-services" if is_new and len(self.services) >= self.options.services_max else None

    def _on_heartbeat(self, now: float, command: Command) -> None:
        worker = self._known(now, command)
        if worker is not None:
            worker.expires_at = now + self.options.expiry_seconds
            if worker.request is not None:
                worker.busy_beats += 1

    def _on_reply(self, now: float, command: Command) -> None:
        worker = self._owner(now, command)
        if worker is None or worker.request is None:
            return
        request, service = worker.request, self.services[worker.service]
        worker.request = None
        worker.expires_at = now + self.options.expiry_seconds
        service.counts["replies"] += 1
        service.busy_seconds += now - worker.busy_since
        self._answer(request, [*request.parts, *command.body] if request.parts else command.body)
        self._make_idle(now, worker)

    def _on_partial(self, now: float, command: Command) -> None:
        worker = self._owner(now, command)
        if worker is None or worker.request is None:
            return
        request = worker.request
        worker.expires_at = now + self.options.expiry_seconds
        self.counters.totals["partials"] += 1
        if request.dialect.client_partial and not request.reports:
            request.is_streaming = True
            self._out.append(request.dialect.partial_to_client(request.client, request.service, command.body))
        elif self.options.partials == "join":
            request.parts = [*request.parts, *command.body]
            if self.options.limits.refusal(request.parts) is not None:
                self._expel(now, worker, "joined-reply-too-large")
        else:
            self.counters.drop("partial")

    def _on_disconnect(self, now: float, command: Command) -> None:
        worker = self.workers.get(command.sender)
        if worker is not None:
            self._remove(now, worker, "disconnected")

    def _on_invalid(self, now: float, command: Command) -> None:
        """Drop a malformed message and disconnect a worker that sent it (MD-25)."""
        worker = self.workers.get(command.sender)
        if worker is not None:
            self._expel(now, worker, command.problem)
        else:
            self.counters.drop(command.problem)
            self._events.append(Event("dropped", peer=printable(command.sender), detail=command.problem))

    def _on_unexpected(self, now: float, command: Command) -> None:
        """Disconnect the sender of a valid command that is not allowed here (MD-25)."""
        worker = self.workers.get(command.sender)
        if worker is not None:
            self._expel(now, worker, "unexpected-command")
        else:
            self.counters.drop("unexpected-command")
            self._out.append(command.dialect.disconnect_to(command.sender))

    def _known(self, now: float, command: Command) -> Worker | None:
        """Return the sending worker. Disconnect an unknown sender, or a sender that changed its dialect (MD-15)."""
        worker = self.workers.get(command.sender)
        if worker is None:
            self.counters.drop("unknown-worker")
            self._out.append(command.dialect.disconnect_to(command.sender))
        elif worker.dialect is not command.dialect:
            self._expel(now, worker, "other-dialect")
            return None
        return worker

    def _owner(self, now: float, command: Command) -> Worker | None:
        """Return the sending worker. Disconnect it if its request is not of the client that the reply names (MD-31)."""
        worker = self._known(now, command)
        if worker is not None and (worker.request is None or worker.request.client != command.name):
            self._expel(now, worker, "reply-without-request")
            return None
        return worker

    def _make_idle(self, now: float, worker: Worker) -> None:
        """Send the oldest queued request to the worker, or append it to the idle workers."""
        service = self.services[worker.service]
        while service.queue:
            request = service.queue.popleft()
            self._forget_queued(request)
            if request.deadline > now:
                self._assign(now, worker, request)
                return
            self._refuse(request, "expired")
        service.idle[worker.address] = worker
        if worker.armed_at is None or worker.heartbeat_at < worker.armed_at:
            self._arm_worker(worker)

    def _dispatch(self, now: float, service: Service, request: ServiceRequest) -> None:
        _, worker = service.idle.popitem(last=False)
        self._assign(now, worker, request)

    def _assign(self, now: float, worker: Worker, request: ServiceRequest) -> None:
        worker.request, worker.busy_since, worker.busy_beats = request, now, 0
        worker.heartbeat_at = now + self.options.heartbeat_seconds
        request.tries += 1
        body = [request.user.encode(), *request.body] if worker.policy.user_frame else request.body
        self._out.append(worker.dialect.to_worker(worker.address, request.client, body))

    def _expel(self, now: float, worker: Worker, reason: str) -> None:
        """Send DISCONNECT and remove the worker from all lists (MD-13)."""
        self.counters.drop(reason)
        self._out.append(worker.dialect.disconnect_to(worker.address))
        self._remove(now, worker, reason)

    def _remove(self, now: float, worker: Worker, reason: str) -> None:
        service, request = self.services[worker.service], worker.request
        del self.workers[worker.address], service.workers[worker.address]
        service.idle.pop(worker.address, None)
        self.counters.totals["workers-lost"] += 1
        self._events.append(Event("worker-gone", printable(service.name), printable(worker.address), reason))
        if not service.workers:
            service.empty_since = now
        worker.request = None
        if request is not None:
            self._after_loss(now, service, request)
        self._arm(service)

    def _after_loss(self, now: float, service: Service, request: ServiceRequest) -> None:
        """Queue an idempotent request again, before all others; refuse any other request (MD-21)."""
        may_repeat = service.policy.idempotent and request.tries < service.policy.tries_max
        if may_repeat and not request.is_streaming:
            self._requeue(now, service, request)
        else:
            self._refuse(request, "worker-lost")

    def _requeue(self, now: float, service: Service, request: ServiceRequest) -> None:
        """Put a request at the head of the queue. Its deadline is at most the next one, so the queue stays sorted."""
        request.parts = []
        self.counters.totals["redispatched"] += 1
        if service.idle:
            self._dispatch(now, service, request)
            return
        patience = now + service.policy.request_seconds_max
        request.deadline = min(patience, service.queue[0].deadline) if service.queue else patience
        self._queued_by_client[request.client] += 1
        service.queue.appendleft(request)

    def _on_refused_heartbeat(self, now: float, worker: Worker, reason: str) -> None:
        """Remove a worker whose connection is gone. A request that it holds is lost: it may have been executed (MD-21).

        A reply that was sent before the end may still wait in the socket. So a busy worker is tried a second time.
        """
        self.counters.drop(f"heartbeat-{reason}")
        if reason == "full":
            return
        again_seconds = min(_SECOND_TRY_SECONDS, self.options.heartbeat_seconds)
        is_second = worker.refused_at is not None and now - worker.refused_at <= 2 * again_seconds
        if worker.request is None or is_second:
            self._remove(now, worker, reason)
            return
        worker.refused_at, worker.heartbeat_at = now, now + again_seconds
        self._arm_worker(worker)

    def _undeliver(self, now: float, worker: Worker, reason: str) -> None:
        """Remove a worker that the socket could not reach. Its request was not sent, so another worker gets it."""
        self.counters.drop(f"worker-{reason}")
        service, request = self.services[worker.service], worker.request
        worker.request = None
        self._remove(now, worker, reason)
        if request is not None:
            request.tries -= 1
            self._requeue(now, service, request)
            self._arm(service)

    # --- time ---------------------------------------------------------------------------------------------------

    def _forgive_silence(self, now: float) -> None:
        """Extend all workers' time after a pause of this process: their heartbeats are not read yet (HB-02)."""
        self.counters.totals["late-ticks"] += 1
        for worker in self.workers.values():
            worker.expires_at = max(worker.expires_at, now + self.options.heartbeat_seconds)

    def _check_worker(self, now: float, worker: Worker) -> None:
        if worker.lost_at() <= now:
            self.counters.totals["workers-expired"] += 1
            self._remove(now, worker, "expired")
            return
        if worker.heartbeat_at <= now:
            worker.heartbeat_at = now + self.options.heartbeat_seconds
            self.counters.totals["heartbeats-sent"] += 1
            self._out.append(worker.dialect.heartbeat_to(worker.address))
        self._arm_worker(worker)

    def _check_service(self, now: float, service: Service) -> None:
        for request in service.expired(now):
            self._forget_queued(request)
            self._refuse(request, "expired")
        self._arm(service)
        idle_end = None if service.empty_since is None else service.empty_since + self.options.service_idle_seconds
        if idle_end is not None and idle_end <= now and not service.queue and not service.workers:
            del self.services[service.name]
        else:
            self._drop_if_unused(service)

    def _arm_worker(self, worker: Worker) -> None:
        worker.armed_at = worker.check_at()
        self._worker_deadlines.add(worker.armed_at, worker)

    def _add_service(self, name: bytes) -> Service:
        service = self.services[name] = Service(name, self.options.policy_of(name))
        return service

    def _drop_if_unused(self, service: Service) -> None:
        """Remove a service that never had a worker and has no queued request (MD-32)."""
        if not service.queue and not service.workers and service.empty_since is None:
            del self.services[service.name]

    def _arm(self, service: Service) -> None:
        at = service.needed_until(self.options.service_idle_seconds)
        if at is not None and (service.armed_at is None or at < service.armed_at):
            service.armed_at = at
            self._service_deadlines.add(at, service)

    def _forget_queued(self, request: ServiceRequest) -> None:
        self._queued_by_client[request.client] -= 1
        if self._queued_by_client[request.client] <= 0:
            del self._queued_by_client[request.client]
