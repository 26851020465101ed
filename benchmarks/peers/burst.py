"""Burst: some seconds of load for one product, and what became of each event."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import httpx

from benchmarks.load import milliseconds
from benchmarks.peers.clients import Clients
from benchmarks.peers.product import Product

__all__ = ["Burst", "Load", "run_burst"]

_POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Load:
    """What is offered: ``rate`` events a second whatever the answers, or, without a rate, ``clients`` that each send
    the next event after an answer. ``patience_seconds``: so long may no copy come before the rest counts as lost.
    """

    seconds: float
    rate: float | None = None
    clients: int = 32
    size: int = 200
    patience_seconds: float = 20.0

    @property
    def name(self) -> str:
        """Return its name in the table."""
        return f"{self.clients} clients" if self.rate is None else f"{self.rate:g}/s"


@dataclass(frozen=True)
class Burst:
    """What was measured. Times are milliseconds from the POST, or None if nothing came.

    ``ack_rate`` and ``copy_rate`` are per second. ``processor_ms`` is for each copy. ``lost``: copies of acknowledged
    events that did not come. ``twice``: copies beyond those of the subscriptions.
    """

    acknowledged: int
    refused: int
    ack_rate: float
    ack_p50: float | None
    copy_rate: float
    received_p50: float | None
    received_p99: float | None
    processor_ms: float | None
    memory_bytes: int
    lost: int
    twice: int
    ack_p99: float | None = None


class _Sender:
    """Sends the events of a burst, and notes when each was sent and acknowledged."""

    def __init__(self, product: Product, load: Load) -> None:
        self.name = secrets.token_hex(4)
        self.sent: dict[int, float] = {}
        self.acknowledged: dict[int, float] = {}
        self.refused: Counter[str] = Counter()
        self._product = product
        self._load = load
        self._clients: Clients = product.clients()

    async def send_all(self) -> None:
        """Send for the load's time, and wait for all answers."""
        await (self._closed_loop() if self._load.rate is None else self._at_rate(self._load.rate))
        self._clients.close()

    async def _closed_loop(self) -> None:
        ends = time.monotonic() + self._load.seconds

        async def client() -> None:
            while time.monotonic() < ends:
                await self._send()

        async with asyncio.TaskGroup() as group:
            for _ in range(self._load.clients):
                group.create_task(client())

    async def _at_rate(self, rate: float) -> None:
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for number in range(max(int(rate * self._load.seconds), 1)):
                await asyncio.sleep(max(began + number / rate - time.monotonic(), 0.0))
                group.create_task(self._send())

    async def _send(self) -> None:
        number = len(self.sent)
        request = self._product.request(self.name, number, self._load.size)
        self.sent[number] = time.monotonic()
        try:
            status = await self._clients.post(request)
        except OSError as error:
            self.refused[type(error).__name__] += 1
            return
        if 200 <= status < 300:
            self.acknowledged[number] = time.monotonic()
        else:
            self.refused[str(status)] += 1


async def run_burst(product: Product, sink: httpx.AsyncClient, load: Load) -> Burst:
    """Offer a load, wait for the copies, and return the figures."""
    sender, used = _Sender(product, load), product.cpu_seconds()
    await sender.send_all()
    copies = await _copies(sender, sink, product.copies, load.patience_seconds)
    used = product.cpu_seconds() - used
    if sender.refused:
        print(f"  {product.name}, {load.name}: refused {dict(sender.refused)}", flush=True)
    return _burst(sender, copies, product, used)


async def _copies(
    sender: _Sender, sink: httpx.AsyncClient, copies: int, patience_seconds: float
) -> list[tuple[int, float]]:
    """Return number and time of each copy, once all owed are there or none has come for a while.

    What comes twice is looked for a moment longer.
    """
    found: list[tuple[int, float]] = []
    latest, is_last = time.monotonic(), False
    while not is_last:
        counts = Counter([number for number, _ in found])
        is_complete = all(counts[number] >= copies for number in sender.acknowledged)
        is_last = is_complete or time.monotonic() - latest > patience_seconds
        await asyncio.sleep(_POLL_SECONDS)
        lines = (await sink.get(f"/{sender.name}")).text.split("\n")[:-1]
        found += [(int(number), float(at)) for number, _, at in [line.partition(" ") for line in lines]]
        if lines:
            latest = time.monotonic()
    return found


def _burst(sender: _Sender, copies: Sequence[tuple[int, float]], product: Product, used: float) -> Burst:
    counts = Counter([number for number, _ in copies])
    sent, acknowledged = sender.sent, sender.acknowledged
    first_at = min(sent.values())
    owed = list(_owed(copies, product.copies))
    received = [at - sent[number] for number, at in owed]
    acks = [at - sent[number] for number, at in acknowledged.items()]
    return Burst(
        acknowledged=len(acknowledged),
        refused=sender.refused.total(),
        ack_rate=_rate(acknowledged.values(), first_at),
        ack_p50=milliseconds(acks, 0.5) if acks else None,
        copy_rate=_rate([at for _, at in owed], first_at),
        received_p50=milliseconds(received, 0.5) if received else None,
        received_p99=milliseconds(received, 0.99) if received else None,
        processor_ms=1000 * used / len(owed) if owed else None,
        memory_bytes=product.memory_bytes(),
        lost=sum(max(product.copies - counts[number], 0) for number in acknowledged),
        twice=len(copies) - len(owed),
        ack_p99=milliseconds(acks, 0.99) if acks else None,
    )


def _owed(copies: Sequence[tuple[int, float]], each: int) -> Iterator[tuple[int, float]]:
    """Yield the copies without those that came beyond ``each`` of an event."""
    counts: Counter[int] = Counter()
    for number, at in copies:
        counts[number] += 1
        if counts[number] <= each:
            yield number, at


def _rate(times: Collection[float], first_at: float) -> float:
    return len(times) / (max(times) - first_at) if times else 0.0
