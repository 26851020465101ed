"""The events of a relay for its embedding program: leadership and throughput, under goharvest's names.

::

    LeaderAcquired --> LeaderRefreshed ... --> LeaderRevoked      the term ended by itself: a soft stop
                                          \\-> LeaderFenced    another leader exists, or may exist: stop at once
    MeterRead                                                     every few seconds, also when nothing moves

Each goes to the log and to the one handler. A handler is called on the relay's own task. It should return at once, and
its exception ends the relay. A CancelledError would look like a stop, so it becomes a RuntimeError.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import structlog

from runtime.pause import pause

__all__ = [
    "Event", "Handler", "LeaderAcquired", "LeaderFenced", "LeaderRefreshed", "LeaderRevoked", "MeterRead", "Observer",
]  # fmt: skip

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LeaderAcquired:
    """This relay leads.

    ``leader_id`` names the term: the identity of marks in compat mode, else sink, group and term.
    """

    relay: str
    leader_id: str


@dataclass(frozen=True, slots=True)
class LeaderRefreshed:
    """It leads on under another identity, after a failure with an unknown outcome."""

    relay: str
    leader_id: str


@dataclass(frozen=True, slots=True)
class LeaderRevoked:
    """It has released its lease; no record was in flight."""

    relay: str
    leader_id: str


@dataclass(frozen=True, slots=True)
class LeaderFenced:
    """It no longer leads, or cannot be sure that it leads. It sends nothing more."""

    relay: str
    leader_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class MeterRead:
    """Records that the broker has confirmed since the start, and since the last reading."""

    relay: str
    total: int
    total_per_second: float
    interval: int
    interval_per_second: float


Event = LeaderAcquired | LeaderRefreshed | LeaderRevoked | LeaderFenced | MeterRead
Handler = Callable[[Event], None]


class Observer:
    """Passes events on and reads the meter; a service of the process, one for each relay.

    ``leader_ids`` are the present terms, one for each partition group that it leads. Counts rise at each
    acknowledgement.
    """

    def __init__(self, relay: str, handler: Handler | None = None, meter_seconds: float = 5.0) -> None:
        self.name = f"meter {relay}"
        self.leader_ids: list[str] = []
        self._relay = relay
        self._handler = handler
        self._meter_seconds = meter_seconds
        self._stopping = asyncio.Event()
        self._started_at = self._read_at = time.monotonic()
        self._total = self._read_total = 0

    def acquired(self, leader_id: str) -> None:
        """Report that a term began."""
        self.leader_ids.append(leader_id)
        self._tell(LeaderAcquired(self._relay, leader_id))

    def refreshed(self, before: str, leader_id: str) -> None:
        """Report that a term goes on under another identity."""
        self.leader_ids[self.leader_ids.index(before)] = leader_id
        self._tell(LeaderRefreshed(self._relay, leader_id))

    def revoked(self, leader_id: str) -> None:
        """Report that a term was given up, unless it was lost before."""
        if leader_id in self.leader_ids:
            self.leader_ids.remove(leader_id)
            self._tell(LeaderRevoked(self._relay, leader_id))

    def fenced(self, leader_id: str, reason: str) -> None:
        """Report that a term was lost, unless it was given up before."""
        if leader_id in self.leader_ids:
            self.leader_ids.remove(leader_id)
            self._tell(LeaderFenced(self._relay, leader_id, reason))

    def acknowledged(self, records: int) -> None:
        """Count confirmed records."""
        self._total += records

    def stop(self) -> None:
        """Stop reading the meter."""
        self._stopping.set()

    async def run(self) -> None:
        """Read the meter on a timer until stopped, and once more then."""
        while not self._stopping.is_set():
            await pause(self._stopping, self._meter_seconds)
            self._read()

    def _read(self) -> None:
        now = time.monotonic()
        interval = self._total - self._read_total
        self._tell(
            MeterRead(
                self._relay,
                total=self._total,
                total_per_second=round(self._total / max(now - self._started_at, 1e-9), 1),
                interval=interval,
                interval_per_second=round(interval / max(now - self._read_at, 1e-9), 1),
            )
        )
        self._read_at, self._read_total = now, self._total

    def _tell(self, event: Event) -> None:
        log = _log.warning if isinstance(event, LeaderFenced) else _log.info
        log(type(event).__name__, **asdict(event))
        if self._handler is not None:
            try:
                self._handler(event)
            except asyncio.CancelledError as error:
                raise RuntimeError("the handler of the relay's events raised CancelledError") from error
