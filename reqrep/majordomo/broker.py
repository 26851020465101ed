"""The Majordomo broker without I/O: ``(now, frames) -> (frames, events)``. Times are monotonic seconds."""

from __future__ import annotations

from collections.abc import Callable

from reqrep.client_warnings import ClientWarnings
from reqrep.counters import Counters
from reqrep.frames import Event, Frames, Step, printable
from reqrep.inside import split_number
from reqrep.majordomo.budget import Budget, weight_of
from reqrep.majordomo.door import Door, answer_to_refused
from reqrep.majordomo.inside import CallOfProcess, Inside
from reqrep.majordomo.mmi import Management
from reqrep.majordomo.options import BrokerOptions
from reqrep.majordomo.request import REFUSAL_STATUS, ServiceRequest
from reqrep.majordomo.service import Service
from reqrep.majordomo.service_table import ServiceTable
from reqrep.majordomo.wire import MDP_01, Command, MessageKind, parse
from reqrep.majordomo.worker import Worker
from reqrep.majordomo.worker_table import WorkerTable
from reqrep.origin import NOWHERE, Origin

__all__ = ["Broker"]

Voter = Callable[[float], bool]
_MMI = b"mmi."
_CALL = b"mmi.call"
_SECOND_TRY_SECONDS = 0.1
_FULL = frozenset({"queue-full", "client-queue-full"})


class Broker:
    """Serves clients and workers of both dialects on one ROUTER.

    ``voter`` decides for each client request whether this broker may serve now; a Binary Star pair sets it. Without a
    voter the broker always serves. Requests to ``mmi.`` services are answered in any state.
    """

    def __init__(
        self, options: BrokerOptions | None = None, voter: Voter | None = None, inside: Inside | None = None,
        door: Door | None = None,
    ) -> None:  # fmt: skip
        self.options = options or BrokerOptions()
        self.inside = inside or Inside()
        self.budget = Budget(self.options.queue_bytes_max)
        self.counters = Counters()
        self._table = ServiceTable(self.options, self.budget, self.inside.names)
        self.services = self._table.by_name
        self.disabled = self._table.disabled
        self._staff = WorkerTable()
        self.workers = self._staff.by_address
        self.state: Callable[[], dict[str, object]] = dict
        self.origin: Callable[[], Origin] = lambda: NOWHERE
        self.connection: Callable[[], int] = lambda: NOWHERE.connection
        self._voter = voter
        self._door = door
        self._user, self._size, self._has_users = "", 0, False
        self._refusal, self._expiry_seconds = self.options.limits.refusal, self.options.expiry_seconds
        self._mmi = Management(self)
        self._warnings = ClientWarnings()
        self._out: list[Frames] = []
        self._events: list[Event] = []
        self._handlers: dict[MessageKind, Callable[[float, Command], None]] = {
            MessageKind.REQUEST: self._on_request,
            MessageKind.READY: self._on_ready,
            MessageKind.PARTIAL: self._on_partial,
            MessageKind.REPLY: self._on_reply,
            MessageKind.HEARTBEAT: self._on_heartbeat,
            MessageKind.DISCONNECT: self._on_disconnect,
            MessageKind.INVALID: self._on_misfit,
            MessageKind.UNEXPECTED: self._on_misfit,
        }

    def receive(self, now: float, frames: Frames, user: str = "") -> Step:
        """Handle a message from the ROUTER. ``user`` is the authenticated sender, or empty."""
        self._user, self._size = user, sum(map(len, frames))
        refusal = self._refusal(frames, self._size)
        command = parse(frames) if refusal is None else Command(MessageKind.INVALID, frames[0], MDP_01, problem=refusal)
        if self._door is not None and not self._door.lets_in(command, user):
            self._turn_away(now, command, user)
        else:
            self._handlers[command.kind](now, command)
        return self._step()

    def tick(self, now: float) -> Step:
        """Send due heartbeats; remove lost workers, expired requests and unused services."""
        due = self.deadline()
        if due is not None and now - due > self.options.heartbeat_seconds:
            self.counters.totals["late-ticks"] += 1
            self._staff.forgive_silence(now + self.options.heartbeat_seconds)
        for worker in self._staff.due(now):
            self._check_worker(now, worker)
        for service in self._table.due(now):
            for request in self._table.expire(now, service):
                self._refuse(now, request, "expired")
        return self._step()

    def failed(self, now: float, frames: Frames, reason: str) -> Step:
        """Handle a message that the socket refused; the reason is "full" or "unreachable"."""
        worker = self.workers.get(frames[0])
        if worker is None:
            self.counters.drop(f"client-{reason}")
            if reason == "full":
                self._warn(now, frames[0], "a reply was dropped, because the client does not read its replies")
        elif frames == worker.dialect.heartbeat_to(worker.address):
            self._on_refused_heartbeat(now, worker, reason)
        else:
            self._undeliver(now, worker, reason)
        return self._step()

    def deadline(self) -> float | None:
        """Return when ``tick`` has work to do, or None without a deadline."""
        of_workers, of_services = self._staff.first_deadline(), self._table.first_deadline()
        if of_workers is None or of_services is None:
            return of_workers if of_services is None else of_services
        return min(of_workers, of_services)

    def reply_inside(self, ticket: int, body: Frames) -> Step:
        """Send the reply of a service of this process."""
        request = self.inside.pop(ticket)
        self.budget.give(request.client, weight_of(request.body))
        self._answer(request, body)
        return self._step()

    def call_inside(self, now: float, number: int, service: bytes, body: Frames, user: str = "") -> Step:
        """Handle a request that this process made. It may call ``mmi.`` services too."""
        request = CallOfProcess(b"", MDP_01, service, body, user=user, reports=True, number=number)
        request.size = sum(map(len, body))
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
        return self._table.summary(len(self.workers))

    def _step(self) -> Step:
        step = (self._out, self._events)
        self._out, self._events = [], []
        return step

    # --- clients ------------------------------------------------------------------------------------------------

    def _on_request(self, now: float, command: Command) -> None:
        _, client, dialect, name, body, _ = command
        request = ServiceRequest(client, dialect, name, body, self._user, self.connection(), self._size)
        if name.startswith(_MMI) and name != _CALL:
            self.counters.totals["mmi"] += 1
            self._send_reply(request, name, self._mmi.answer(request))
        elif self._voter is not None and not self._voter(now):
            self.counters.drop("passive")
        elif name != _CALL:
            self._submit(now, request)
        elif len(body) < 2:
            self._send_reply(request, _CALL, [b"400", b"send the name of the service, then the request"])
        else:
            request.service, request.body, request.reports = body[0], body[1:], True
            self._submit(now, request)

    def _turn_away(self, now: float, command: Command, user: str) -> None:
        """Refuse a message that its user may not send, with the status of the protocol if it has one."""
        self.counters.drop("not-allowed")
        self._warn(now, command.sender, f"the user {user!r} may not {command.kind.name} {printable(command.name)}")
        if command.kind is MessageKind.READY:
            self._out.append(command.dialect.disconnect_to(command.sender))
            return
        if (body := answer_to_refused(command, self.inside.names)) is not None:
            self._send_reply(ServiceRequest(command.sender, command.dialect, command.name, []), command.name, body)

    def _submit(self, now: float, request: ServiceRequest) -> None:
        """Send the request to an idle worker, queue it, or refuse it."""
        self.counters.totals["requests"] += 1
        if request.service in self.inside.names:
            self._submit_inside(now, request)
            return
        service = self.services.get(request.service)
        if service is None:
            if (reason := self._table.refusal(request.service)) is not None:
                self._refuse(now, request, reason)
                return
            service = self._table.add(request.service)
        request.service = service.name  # one object for all requests
        service.counts["requests"] += 1
        if self._has_users:
            self._drop_cut_off(now, service)
        is_ready = service.idle and not service.queue and service.name not in self.disabled
        reason = self.budget.refusal_of_large(request) if is_ready else self._table.refusal_of(service, request)
        if reason is not None:
            self._refuse(now, request, reason)
            self._table.drop_if_unused(service)
        elif is_ready:
            self._assign(now, service.idle.popitem(last=False)[1], request)
        else:
            service.queue.put(now, request)
            if service.queue.count == 1:
                self._table.watch(service)

    def _submit_inside(self, now: float, request: ServiceRequest) -> None:
        """Give the request to a service of this process. A refusal is its status 500: nothing was stored, try again."""
        weight = weight_of(request.body)
        reason = self.budget.refusal(request.client, weight)
        if reason is None and self.inside.put(request):
            self.budget.take(request.client, weight)
            return
        self._refuse(now, request, reason or "queue-full")
        if not request.reports:
            self._send_reply(request, request.service, [*split_number(request.body)[0], b"500"])

    def _refuse(self, now: float, request: ServiceRequest, reason: str) -> None:
        """Count a request that gets no answer; report the reason to a client that called ``mmi.call``."""
        self.counters.drop(reason)
        if (service := self.services.get(request.service)) is not None:
            service.counts["errors"] += 1
        self._events.append(Event("refused", printable(request.service), printable(request.client), reason))
        if reason in _FULL:
            self._warn(now, request.client, f"a request for {printable(request.service)} was refused: {reason}")
        if request.reports:
            self._send_reply(request, _CALL, [REFUSAL_STATUS[reason], request.service, reason.encode()])

    def _warn(self, now: float, client: bytes, words: str) -> None:
        """Report that a client's message was dropped, at most once a minute."""
        if self._warnings.is_due(now, client):
            self._events.append(Event("warning", peer=printable(client), detail=words))

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
            self._out.append(request.reply(service, body))

    # --- workers ------------------------------------------------------------------------------------------------

    def _on_ready(self, now: float, command: Command) -> None:
        origin, known = self.origin(), self.workers.get(command.sender)
        if known is not None and known.origin != origin and known.origin.is_open():
            self._events.append(known.taken_by(origin))
            self.counters.drop("identity-taken")
            self._remove(now, known, "identity-taken")
        elif known is not None:
            self._expel(now, known, "second-ready")
            return
        if (reason := self._table.refusal_of_worker(command.name, len(self.workers))) is not None:
            self.counters.drop(reason)
            self._out.append(command.dialect.disconnect_to(command.sender))
            return
        service = self.services.get(command.name) or self._table.add(command.name)
        expires_at, heartbeat_at = now + self._expiry_seconds, now + self.options.heartbeat_seconds
        worker = Worker(
            command.sender, command.dialect, service.name, service.policy, expires_at, heartbeat_at, origin, self._user
        )
        self._has_users = self._has_users or worker.user != ""
        self.workers[worker.address] = service.workers[worker.address] = worker
        service.empty_since = None
        self._events.append(Event("worker-ready", printable(service.name), printable(worker.address)))
        self._staff.watch(worker)
        self._make_idle(now, worker)

    def _on_heartbeat(self, now: float, command: Command) -> None:
        if (worker := self._known(now, command)) is not None:
            worker.expires_at = now + self._expiry_seconds
            if worker.request is not None:
                worker.busy_beats += 1

    def _on_reply(self, now: float, command: Command) -> None:
        worker = self._owner(now, command)
        if worker is None or worker.request is None:
            return
        request, service = worker.request, self.services[worker.service]
        worker.end(self.budget)
        worker.expires_at = now + self._expiry_seconds
        service.counts["replies"] += 1
        service.busy_seconds += now - worker.busy_since
        self._answer(request, [*request.parts, *command.body] if request.parts else command.body)
        self._make_idle(now, worker)

    def _on_partial(self, now: float, command: Command) -> None:
        worker = self._owner(now, command)
        if worker is None or worker.request is None:
            return
        request = worker.request
        worker.expires_at = now + self._expiry_seconds
        self.counters.totals["partials"] += 1
        if request.dialect.client_partial and not request.reports:
            request.is_streaming = True
            self._out.append(request.partial(command.body))
        elif self.options.partials == "join":
            request.parts = (*request.parts, *command.body)
            if self.options.limits.refusal(request.parts) or self.budget.refusal(request.client, self._size):
                self._expel(now, worker, "joined-reply-too-large")
            else:
                self.budget.hold(request, self._size)
        else:
            self.counters.drop("partial")

    def _on_disconnect(self, now: float, command: Command) -> None:
        if (worker := self.workers.get(command.sender)) is not None:
            self._remove(now, worker, "disconnected")

    def _on_misfit(self, now: float, command: Command) -> None:
        """Drop a malformed message or a command that is not allowed here. Disconnect a worker that sent it."""
        worker, problem = self.workers.get(command.sender), command.problem or "unexpected-command"
        if worker is not None:
            self._expel(now, worker, problem)
            return
        self.counters.drop(problem)
        if command.kind is MessageKind.UNEXPECTED:
            self._out.append(command.dialect.disconnect_to(command.sender))
            return
        self._events.append(Event("dropped", peer=printable(command.sender), detail=problem))
        if problem == "no-body" and command.name in self.inside.names:
            self._out.append(command.dialect.to_client(command.sender, command.name, [b"400"]))

    def _known(self, now: float, command: Command) -> Worker | None:
        """Return the sending worker. Disconnect an unknown sender, or a sender that changed its dialect."""
        worker = self.workers.get(command.sender)
        if worker is None:
            self.counters.drop("unknown-worker")
            self._out.append(command.dialect.disconnect_to(command.sender))
        elif worker.dialect is not command.dialect or worker.user != self._user:
            self._expel(now, worker, "other-user" if worker.user != self._user else "other-dialect")
            return None
        return worker

    def _owner(self, now: float, command: Command) -> Worker | None:
        """Return the sending worker. Disconnect it if its request is not of the client that the reply names."""
        if (worker := self._known(now, command)) and (not worker.request or worker.request.client != command.name):
            self._expel(now, worker, "reply-without-request")
            return None
        return worker

    def _make_idle(self, now: float, worker: Worker) -> None:
        """Send the oldest queued request to the worker, or append it to the idle workers."""
        service = self.services[worker.service]
        while service.queue.count:
            request, is_late = service.queue.pop(now)
            if not is_late:
                self._assign(now, worker, request)
                return
            self._refuse(now, request, "expired")
        service.idle[worker.address] = worker
        if worker.armed_at is None or worker.heartbeat_at < worker.armed_at:
            self._staff.watch(worker)

    def _drop_cut_off(self, now: float, service: Service) -> None:
        """Remove idle workers of users whose connection is gone: another user's may have the identity by now."""
        while service.idle and (worker := next(iter(service.idle.values()))).has_left():
            self._remove(now, worker, "unreachable")

    def _assign(self, now: float, worker: Worker, request: ServiceRequest) -> None:
        worker.request, worker.busy_since, worker.busy_beats = request, now, 0
        worker.heartbeat_at = now + self.options.heartbeat_seconds
        request.tries += 1
        self.budget.hold_large(request)
        body = [request.user.encode(), *request.body] if worker.policy.user_frame else request.body
        self._out.append(worker.dialect.to_worker(worker.address, request.client, body))

    def _expel(self, now: float, worker: Worker, reason: str) -> None:
        """Send DISCONNECT and remove the worker from all lists."""
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
        worker.end(self.budget)
        if request is not None:
            self._after_loss(now, service, request)
        self._table.watch(service)

    def _after_loss(self, now: float, service: Service, request: ServiceRequest) -> None:
        """Queue an idempotent request again, before all others; refuse any other request."""
        may_repeat = service.policy.idempotent and request.tries < service.policy.tries_max
        if may_repeat and not request.is_streaming:
            self._requeue(now, service, request)
        else:
            self._refuse(now, request, "worker-lost")

    def _requeue(self, now: float, service: Service, request: ServiceRequest) -> None:
        """Put a request at the head of the queue, with a new patience."""
        request.parts = ()
        self.counters.totals["redispatched"] += 1
        self._drop_cut_off(now, service)
        if service.idle:
            self._assign(now, service.idle.popitem(last=False)[1], request)
            return
        service.queue.put_first(now, request)

    def _on_refused_heartbeat(self, now: float, worker: Worker, reason: str) -> None:
        """Remove a worker whose connection is gone. A request that it holds is lost: it may have been executed.

        A reply that was sent before the end may still wait in the socket. So a busy worker is tried a second time.
        """
        self.counters.drop(f"heartbeat-{reason}")
        if reason == "full":
            return
        again_seconds = min(_SECOND_TRY_SECONDS, self.options.heartbeat_seconds)
        if worker.request is None or worker.was_refused_since(now - 2 * again_seconds):
            self._remove(now, worker, reason)
            return
        worker.refused_at, worker.heartbeat_at = now, now + again_seconds
        self._staff.watch(worker)

    def _undeliver(self, now: float, worker: Worker, reason: str) -> None:
        """Remove a worker that the socket could not reach. Its request was not sent, so another worker gets it."""
        self.counters.drop(f"worker-{reason}")
        service, request = self.services[worker.service], worker.request
        worker.end(self.budget)
        self._remove(now, worker, reason)
        if request is not None:
            request.tries -= 1
            self._requeue(now, service, request)
            self._table.watch(service)

    def _check_worker(self, now: float, worker: Worker) -> None:
        if worker.lost_at() <= now:
            self.counters.totals["workers-expired"] += 1
            self._remove(now, worker, "expired")
        elif self._door is not None and not self._door.keeps(worker):
            self._expel(now, worker, "not-allowed")
        elif worker.heartbeat_at <= now and worker.is_cut_off(self.options.silent_link_seconds):
            self.counters.drop("link-silent")
            self._remove(now, worker, "unreachable")
        else:
            if worker.heartbeat_at <= now:
                worker.heartbeat_at = now + self.options.heartbeat_seconds
                self.counters.totals["heartbeats-sent"] += 1
                self._out.append(worker.dialect.heartbeat_to(worker.address))
            self._staff.watch(worker)
