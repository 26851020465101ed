"""The services of a broker by name: added with their first request or worker, removed when nobody needs them."""

from __future__ import annotations

from reqrep.deadlines import Deadlines
from reqrep.majordomo.budget import Budget, weight_of
from reqrep.majordomo.options import BrokerOptions
from reqrep.majordomo.request import ServiceRequest
from reqrep.majordomo.request_queue import RequestQueue
from reqrep.majordomo.service import Service

__all__ = ["ServiceTable"]

_MMI = b"mmi."


class ServiceTable:
    """Holds the services in ``by_name``, and when to look at each of them again.

    A service in ``disabled`` gets no new request.
    """

    def __init__(self, options: BrokerOptions, budget: Budget, names_inside: frozenset[bytes]) -> None:
        self.by_name: dict[bytes, Service] = {}
        self.disabled: set[bytes] = set()
        self._options = options
        self._budget = budget
        self._names_inside = names_inside
        self._deadlines: Deadlines[Service] = Deadlines()

    def refusal(self, name: bytes) -> str | None:
        """Return the reason why there can be no new service of this name, or None."""
        if not self._options.accepts_name(name) or name.startswith(_MMI):
            return "bad-service-name"
        return "too-many-services" if len(self.by_name) >= self._options.services_max else None

    def refusal_of_worker(self, name: bytes, workers: int) -> str | None:
        """Return the reason why a worker may not serve a service of this name beside so many others, or None."""
        reason = "bad-service-name" if name in self._names_inside else self.refusal(name)
        if reason == "too-many-services" and name in self.by_name:
            reason = None
        if reason is not None:
            return f"worker-{reason}"
        return "too-many-workers" if workers >= self._options.workers_max else None

    def refusal_of(self, service: Service, request: ServiceRequest) -> str | None:
        """Weigh a request. Return the reason why it may not wait for a service, or None."""
        policy, weight = service.policy, weight_of(request.body)
        request.weight = weight
        if service.name in self.disabled:
            return "disabled"
        if not service.workers and policy.without_workers == "refuse":
            return "no-workers"
        queue = service.queue
        if queue.count >= policy.queue_requests_max or queue.bytes + weight > policy.queue_bytes_max:
            return "queue-full"
        return self._budget.refusal(request.client, weight)

    def add(self, name: bytes) -> Service:
        """Make a service with the policy of its name."""
        policy = self._options.policy_of(name)
        queue = RequestQueue(self._budget, policy.request_seconds_max)
        service = self.by_name[name] = Service(name, policy, queue)
        return service

    def summary(self, workers: int) -> dict[str, int]:
        """Return the numbers of services, workers and queued requests, and the bytes that are kept for clients."""
        queued = sum(len(service.queue) for service in self.by_name.values())
        return {
            "services": len(self.by_name), "workers": workers, "queued": queued, "queued_bytes": self._budget.held,
        }  # fmt: skip

    def watch(self, service: Service) -> None:
        """Look at the service at its next deadline."""
        at = service.needed_until(self._options.service_idle_seconds)
        if at is not None and (service.armed_at is None or at < service.armed_at):
            service.armed_at = at
            self._deadlines.add(at, service)

    def first_deadline(self) -> float | None:
        """Return when :meth:`due` has something to return, or None."""
        return self._deadlines.first()

    def due(self, now: float) -> list[Service]:
        """Return the services to look at now."""
        found = []
        for at, service in self._deadlines.due(now):
            if self.by_name.get(service.name) is service and service.armed_at == at:
                service.armed_at = None
                found.append(service)
        return found

    def expire(self, now: float, service: Service) -> list[ServiceRequest]:
        """Take the expired requests of a service, and remove the service if it is unused."""
        gone = service.queue.expired(now)
        self.watch(service)
        idle_end = None if service.empty_since is None else service.empty_since + self._options.service_idle_seconds
        if idle_end is not None and idle_end <= now and not service.queue and not service.workers:
            del self.by_name[service.name]
        else:
            self.drop_if_unused(service)
        return gone

    def drop_if_unused(self, service: Service) -> None:
        """Remove a service that never had a worker and has no queued request."""
        if not service.queue and not service.workers and service.empty_since is None:
            del self.by_name[service.name]
