"""Options of a Majordomo broker, and the policy of each service. Times are seconds."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from typing import Any, Literal

from reqrep.frames import FrameLimits

__all__ = ["BrokerOptions", "OptionsRefused", "ServicePolicy", "policies_from"]


class OptionsRefused(ValueError):
    """An option is unknown or out of its bounds; the message names it."""


@dataclass(frozen=True, slots=True)
class ServicePolicy:
    """How the broker treats the requests and workers of one service.

    * ``request_seconds_max``: a request expires after this time in the queue, counted from when a worker last took a
      request of its client.
    * ``queue_requests_max``, ``queue_bytes_max``: the most queued requests of the service, and their most bytes.
    * ``busy_seconds_max``: a worker that needs longer for a request counts as lost, even with heartbeats.
    * ``idempotent``: if a worker is lost, another worker gets its request.
    * ``tries_max``: the most workers that get an idempotent request.
    * ``without_workers``: "queue" a request for a service without workers, or "refuse" it.
    * ``user_frame``: the first frame of the body for the worker is the client's authenticated user.
    """

    request_seconds_max: float = 60.0
    queue_requests_max: int = sys.maxsize
    queue_bytes_max: int = sys.maxsize
    busy_seconds_max: float = 900.0
    idempotent: bool = False
    tries_max: int = 3
    without_workers: Literal["queue", "refuse"] = "queue"
    user_frame: bool = False

    def __post_init__(self) -> None:
        _require(self.request_seconds_max > 0, "request_seconds_max", self.request_seconds_max, "above 0")
        _require(self.queue_requests_max >= 0, "queue_requests_max", self.queue_requests_max, "0 or more")
        _require(self.queue_bytes_max >= 0, "queue_bytes_max", self.queue_bytes_max, "0 or more")
        _require(self.busy_seconds_max > 0, "busy_seconds_max", self.busy_seconds_max, "above 0")
        _require(self.tries_max >= 1, "tries_max", self.tries_max, "1 or more")
        _require(
            self.without_workers in {"queue", "refuse"}, "without_workers", self.without_workers, "queue or refuse"
        )


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """Options of the broker. By default, as in 7/MDP, a peer is gone after three heartbeats of 2.5 s.

    * ``ping_seconds``: the interval of ZeroMQ's own heartbeats (PING); 0 means none.
    * ``queue_bytes_max``: the most bytes of waiting requests and waiting replies; a client may hold a quarter.
    * ``policies``: the policy of each pattern of service names; the first match wins.
    * ``policy``: the policy of all other services.
    * ``partials``: "join" a 0.2 worker's PARTIAL bodies with the last reply for a 0.1 client, or "drop" them (M2-06).
    * ``controllers``: users that may disable and enable services; "*" means every user.
    """

    heartbeat_seconds: float = 2.5
    liveness: int = 3
    ping_seconds: float = 0.0
    limits: FrameLimits = field(default_factory=FrameLimits)
    services_max: int = 1_000
    workers_max: int = 10_000
    queue_bytes_max: int = 256 * 1024 * 1024
    service_name_bytes_max: int = 255
    service_idle_seconds: float = 60.0
    partials: Literal["join", "drop"] = "join"
    policies: Mapping[str, ServicePolicy] = field(default_factory=dict)
    policy: ServicePolicy = field(default_factory=ServicePolicy)
    controllers: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        _require(0.01 <= self.heartbeat_seconds <= 30, "heartbeat_seconds", self.heartbeat_seconds, "0.01 to 30")
        _require(0 <= self.ping_seconds <= 3_600, "ping_seconds", self.ping_seconds, "0 to 3600")
        _require(1 <= self.liveness <= 100, "liveness", self.liveness, "1 to 100")
        _require(self.queue_bytes_max >= 0, "queue_bytes_max", self.queue_bytes_max, "0 or more")
        _require(self.service_idle_seconds >= 0, "service_idle_seconds", self.service_idle_seconds, "0 or more")

    @property
    def expiry_seconds(self) -> float:
        """Seconds of silence after which a worker counts as gone."""
        return self.heartbeat_seconds * self.liveness

    @property
    def silent_link_seconds(self) -> float:
        """Seconds without an acknowledgement of the peer's host after which a link counts as gone.

        A heartbeat goes out within one interval, so all of it takes ``expiry_seconds``.
        """
        return self.heartbeat_seconds * max(1, self.liveness - 1)

    def policy_of(self, service: bytes) -> ServicePolicy:
        """Return the policy of the first pattern that matches a service's name, or the default policy."""
        if not self.policies:
            return self.policy
        name = service.decode("utf-8", "replace")
        return next((policy for pattern, policy in self.policies.items() if fnmatchcase(name, pattern)), self.policy)

    def accepts_name(self, service: bytes) -> bool:
        """Return whether a service may have this name: not empty, not too long, no control characters."""
        return 0 < len(service) <= self.service_name_bytes_max and _CONTROL.search(service) is None


_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")


def policies_from(table: Mapping[str, Any]) -> dict[str, ServicePolicy]:
    """Return the policies in a table of a TOML file: pattern of service names -> fields of :class:`ServicePolicy`.

    Raise :class:`OptionsRefused` for an unknown field or a value out of its bounds.
    """
    kinds = {given.name: type(given.default) for given in fields(ServicePolicy)}
    policies = {}
    for pattern, chosen in table.items():
        if not isinstance(chosen, Mapping):
            raise OptionsRefused(f"services: {pattern!r} is no table of options")
        for name, value in chosen.items():
            _check_field(pattern, name, value, kinds)
        policies[pattern] = ServicePolicy(**chosen)
    return policies


def _check_field(pattern: str, name: str, value: object, kinds: Mapping[str, type]) -> None:
    if name not in kinds:
        raise OptionsRefused(f"services.{pattern!r}: there is no option {name!r}; choose from {', '.join(kinds)}")
    kind = kinds[name]
    fits = type(value) is kind or (kind is float and type(value) is int)
    if not fits:
        raise OptionsRefused(f"services.{pattern!r}.{name} = {value!r}: expected {kind.__name__}")


def _require(holds: bool, name: str, value: object, bounds: str) -> None:
    if not holds:
        raise OptionsRefused(f"{name} = {value!r} is out of its bounds: {bounds}")
