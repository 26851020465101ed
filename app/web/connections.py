"""All open connections of one server: their limits, their number, and the sweep that ends the slow ones.

Timers cost: arming and disarming three of them costs more than parsing a request. So a connection has no timers. It
stores its deadlines as plain numbers (`deadline`, `write_deadline`). One periodic sweep per server ends late
connections::

    connection:   deadline = clock + headers_seconds        (two attribute reads and an addition per phase)
    sweep:        every sweep_seconds: for each connection with deadline <= now: connection.expire(now)

`clock` is the end of the current sweep interval on a clock that stands still while the process does. If the process was
stopped or busy for ten seconds, its clients must not be cut off for that time. A deadline is never early; it is late by
two sweeps at most.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from email.utils import formatdate
from typing import Final, Protocol

from typing_extensions import override

from app.web.limits import RequestIds
from app.web.problem import Problem, Problems
from runtime.loop_steps import LoopSteps

NEVER: Final = float("inf")


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits of one connection on the wire, before any request reaches the application.

    `first_byte_seconds` runs from the connect, `headers_seconds` from the first byte of a request, `body_seconds` from
    the end of its header. After `body_grace_seconds` a body must also have brought `body_bytes_per_second` on average.
    None of them runs while this process itself pauses the reading. `write_seconds` is how long a reader may leave its
    full buffer untouched. After a refusal or an early answer up to `linger_bytes_max` bytes are discarded, after a
    refusal for at most `linger_seconds`. So the answer is not lost in a reset. Connections from trusted proxies do not
    count towards `connections_per_address_max`. While more than `crowd` connections are open, one that is idle is ended
    after `crowd_keep_alive_seconds`.
    """

    header_bytes_max: int = 32 * 1024
    header_fields_max: int = 100
    url_bytes_max: int = 8 * 1024
    chunk_overhead_bytes_max: int = 16 * 1024
    pipelined_requests_max: int = 16
    first_byte_seconds: float = 5.0
    headers_seconds: float = 10.0
    body_seconds: float = 30.0
    body_grace_seconds: float = 1.0
    body_bytes_per_second: int = 1024
    keep_alive_seconds: float = 75.0
    crowd_keep_alive_seconds: float = 5.0
    write_seconds: float = 30.0
    linger_seconds: float = 30.0
    linger_bytes_max: int = 64 * 1024 * 1024
    connections_max: int = 8192
    connections_per_address_max: int = 1024
    backlog_connections: int = 2048
    sweep_seconds: float = 0.25

    @property
    def crowd(self) -> int:
        """Return the number of open connections above which idle ones wait less long: half of those allowed."""
        return self.connections_max // 2


class KeptHeaders(list[tuple[bytes, bytes]]):
    """Headers of an answer after which the connection stays. uvicorn adds those of the application to them."""

    @override
    def __add__(self, others: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:  # type: ignore[override]
        """Return both, without our words about the connection if the application ends it."""
        if b"connection" in [name.lower() for name, _ in others]:
            return [*(one for one in self if b"keep-alive" not in one), *others]
        return [*self, *others]


class InboundConnection(Protocol):
    """The part of a connection that the sweep uses."""

    deadline: float
    write_deadline: float

    @property
    def is_idle(self) -> bool:
        """Return whether it waits for another request."""

    def expire(self, now: float) -> None:
        """Act on a deadline that has passed."""


class Connections:
    """Admission, the clock and the sweep. `refused` counts refusals by problem kind, for the metrics."""

    def __init__(
        self,
        limits: ServerLimits,
        *,
        problems: Problems | None = None,
        trusted_proxies: Iterable[str] = (),
        request_ids: RequestIds | None = None,
    ) -> None:
        self.limits = limits
        self.problems = problems or Problems()
        self.request_ids = request_ids or RequestIds()
        self.refused: Counter[str] = Counter()
        self.clock = 0.0
        self.date_headers: list[tuple[bytes, bytes]] = []
        self.kept_headers: list[tuple[bytes, bytes]] = KeptHeaders()  # of answers after which the connection stays
        self._keep_alive = (
            (b"connection", b"keep-alive"),
            (b"keep-alive", b"timeout=%d" % limits.keep_alive_seconds),
        )
        self.count = 0
        self.leaving = False
        self.steps = LoopSteps()  # of requests that were sent ahead; other requests do not wait for them
        self.none_open = asyncio.Event()
        self.none_open.set()
        self._trusted = tuple(ipaddress.ip_network(network) for network in trusted_proxies)
        self._per_address: Counter[str] = Counter()
        self._swept: Collection[InboundConnection] = ()
        self._now = self._real = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def admit(self, address: str | None) -> Problem | None:
        """Count a new connection; return the problem to answer with when there are too many. Pair with `release`."""
        self.count += 1
        self.none_open.clear()
        key = self._key(address)
        self._per_address[key] += 1
        if self.leaving:  # accepted by the kernel before the listener was closed
            return Problem("shutting-down")
        if self.count > self.limits.connections_max:
            return Problem("busy", "This process has as many connections open as it accepts.")
        if key and self._per_address[key] > self.limits.connections_per_address_max:
            return Problem("too-many-requests", "Too many connections are open from this address.")
        return None

    def release(self, address: str | None) -> None:
        """Record the end of a connection, admitted or not."""
        self.count -= 1
        key = self._key(address)
        self._per_address[key] -= 1
        if not self._per_address[key]:
            del self._per_address[key]
        if not self.count:
            self.none_open.set()

    def _key(self, address: str | None) -> str:
        """Return the key that a connection counts for: an IPv4 address, an IPv6 /64; none for Unix sockets and trusted
        proxies.
        """
        if address is None:
            return ""
        ip = ipaddress.ip_address(address.partition("%")[0])
        if isinstance(ip, ipaddress.IPv6Address):
            ip = ip.ipv4_mapped or ip
        if any(ip in network for network in self._trusted):
            return ""
        return str(ip) if ip.version == 4 else ip.exploded[:19]

    def start_sweep(self, swept: Collection[InboundConnection]) -> None:
        """Begin to sweep the connections in `swept`, a live collection; needs a running loop."""
        assert self._timer is None, "the sweep runs already"
        self._swept = swept
        self._real = asyncio.get_running_loop().time()
        self._sweep()

    def stop_sweep(self) -> None:
        """End the sweep; may be called again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        every = self.limits.sweep_seconds
        self._timer = loop.call_later(every, self._sweep)
        real = loop.time()
        # A sweep that comes much too late means that the process was stopped or busy: that time counts for no
        # connection.
        self._now += min(real - self._real, 2 * every)
        self._real = real
        self.clock = self._now + every
        self.date_headers[:] = [(b"date", formatdate(usegmt=True).encode("ascii"))]
        self.kept_headers[:] = [*self.date_headers, *self._keep_alive]
        limits = self.limits
        crowded = self.count > limits.crowd
        idle_until = self._now + max(0.0, limits.keep_alive_seconds - limits.crowd_keep_alive_seconds)
        for connection in tuple(self._swept):
            is_late = connection.deadline <= self._now or connection.write_deadline <= self._now
            if is_late or (crowded and connection.is_idle and connection.deadline <= idle_until):
                connection.expire(self._now)
