"""8/MMI: the broker itself answers services whose names start with ``mmi.`` (MM-01).

``mmi.service`` and the status 501 come from the RFC. The other services are extensions; those that return data answer
with a status frame and one frame of JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, Protocol

from reqrep.counters import Counters
from reqrep.frames import Frames, printable
from reqrep.majordomo.inside import Inside
from reqrep.majordomo.options import BrokerOptions
from reqrep.majordomo.request import ServiceRequest
from reqrep.majordomo.service import Service

__all__ = ["Management"]

_OK: Final = b"200"
_NOT_ALLOWED: Final = b"403"
_NOT_FOUND: Final = b"404"
_NOT_IMPLEMENTED: Final = b"501"
_EVERYBODY: Final = "*"


class Managed(Protocol):
    """The broker, as far as its management services read and change it."""

    options: BrokerOptions
    inside: Inside
    counters: Counters
    services: dict[bytes, Service]
    disabled: set[bytes]
    state: Callable[[], dict[str, object]]

    def summary(self) -> dict[str, int]:
        """Return the numbers of services, workers and requests."""


class Management:
    """Answers requests about a broker, and disables and enables its services."""

    def __init__(self, broker: Managed) -> None:
        self._broker = broker
        self._answers: dict[bytes, Callable[[ServiceRequest], Frames]] = {
            b"mmi.service": self._service,
            b"mmi.list": self._list,
            b"mmi.workers": self._workers,
            b"mmi.stats": self._stats,
            b"mmi.heartbeat": self._heartbeat,
            b"mmi.titanic": self._titanic,
            b"mmi.disable": self._disable,
            b"mmi.enable": self._enable,
        }

    def answer(self, request: ServiceRequest) -> Frames:
        """Return the body of the reply. Its service frame repeats the requested name (MM-05)."""
        answer = self._answers.get(request.service)
        return [_NOT_IMPLEMENTED] if answer is None else answer(request)

    def _service(self, request: ServiceRequest) -> Frames:
        """Return 200 if the service has a worker, busy or idle, else 404, even with queued requests (MM-02, MM-04)."""
        service = self._broker.services.get(request.body[0])
        is_there = request.body[0] in self._broker.inside.names or (service is not None and bool(service.workers))
        return [_OK if is_there else _NOT_FOUND]

    def _list(self, request: ServiceRequest) -> Frames:
        return _json([self._about(service) for service in self._broker.services.values()])

    def _workers(self, request: ServiceRequest) -> Frames:
        service = self._broker.services.get(request.body[0])
        if service is None:
            return [_NOT_FOUND]
        return _json(
            [
                {
                    "address": printable(worker.address),
                    "dialect": worker.dialect.name,
                    "busy": worker.request is not None,
                }
                for worker in service.workers.values()
            ]
        )

    def _stats(self, request: ServiceRequest) -> Frames:
        """Return the numbers of the service that the body names, or of the broker for an empty body (MM-08)."""
        if request.body[0]:
            service = self._broker.services.get(request.body[0])
            return [_NOT_FOUND] if service is None else _json(self._about(service))
        return _json({**self._broker.counters.snapshot(), **self._broker.summary(), "state": self._broker.state()})

    def _heartbeat(self, request: ServiceRequest) -> Frames:
        """Return the heartbeat interval and the liveness that workers should use (HB-08)."""
        options = self._broker.options
        return _json({"interval_ms": round(options.heartbeat_seconds * 1000), "liveness": options.liveness})

    def _titanic(self, request: ServiceRequest) -> Frames:
        """Return how many requests Titanic holds, or 404 for a broker without Titanic."""
        return _json(self._broker.inside.counts()) if self._broker.inside.names else [_NOT_FOUND]

    def _disable(self, request: ServiceRequest) -> Frames:
        """Let the broker refuse new requests for a service. Queued requests are still sent to workers."""
        if not self._may_control(request):
            return [_NOT_ALLOWED]
        if request.body[0] not in self._broker.services:
            return [_NOT_FOUND]
        self._broker.disabled.add(request.body[0])
        return [_OK]

    def _enable(self, request: ServiceRequest) -> Frames:
        if not self._may_control(request):
            return [_NOT_ALLOWED]
        if request.body[0] not in self._broker.disabled:
            return [_NOT_FOUND]
        self._broker.disabled.discard(request.body[0])
        return [_OK]

    def _may_control(self, request: ServiceRequest) -> bool:
        allowed = self._broker.options.controllers
        return _EVERYBODY in allowed or (request.user != "" and request.user in allowed)

    def _about(self, service: Service) -> dict[str, Any]:
        return {
            "name": service.name.decode("utf-8", "replace"),
            "workers": len(service.workers),
            "idle": len(service.idle),
            "queued": len(service.queue),
            "disabled": service.name in self._broker.disabled,
            "requests": service.counts["requests"],
            "replies": service.counts["replies"],
            "errors": service.counts["errors"],
            "busy_seconds": round(service.busy_seconds, 6),
        }


def _json(value: object) -> Frames:
    return [_OK, json.dumps(value, separators=(",", ":")).encode()]
