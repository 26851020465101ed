"""Workers of services: the work is a request, and a broker treats a request as lost whose handler has failed.

Pirate workers are left out: :class:`PirateWorker` runs its handler by the same loop as :class:`Worker`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from hookwire.services import AsyncWorker, Client, NoReply, Worker
from tests.contract.workers.harness import Hands
from tests.reqrep.running import FAST, WAIT_SECONDS

__all__ = ["KINDS", "Served", "ServedKind"]

GRACE_SECONDS = 0.2
OPTIONS: dict[str, Any] = {"heartbeat": FAST, "reconnect_seconds": 0.1, "grace_seconds": GRACE_SECONDS}


class Served:
    """A worker in a thread, with the endpoint of its broker."""

    def __init__(self, endpoint: str) -> None:
        self.stop: Callable[[], None] = lambda: None
        self._endpoint = endpoint
        self._thread = threading.Thread(daemon=True)

    def begin(self, run: Callable[[], None], stop: Callable[[], None]) -> None:
        """Run the worker in a thread."""
        self.stop = stop
        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()

    def ask(self, work: str, seconds: float = WAIT_SECONDS / 3, tries: int = 3) -> bytes | None:
        """Return the reply, or None if there is none."""
        client = Client(self._endpoint, timeout_seconds=seconds, tries=tries)
        try:
            return client.call("echo", work.encode())
        except NoReply:
            return None
        finally:
            client.close()

    def has_ended(self) -> bool:
        """Return whether the worker ends."""
        self._thread.join(WAIT_SECONDS)
        return not self._thread.is_alive()


class ServedKind(NamedTuple):
    """A class of worker. ``open`` begins one for a test."""

    name: str
    on_loop: bool
    open: Callable[[str, Hands], Served]


def threads(heartbeats_while_working: bool) -> Callable[[str, Hands], Served]:
    def opened(endpoint: str, hands: Hands) -> Served:
        worker, served = (
            Worker(endpoint, heartbeats_while_working=heartbeats_while_working, **OPTIONS),
            Served(endpoint),
        )
        worker.service("echo", concurrency=2)(lambda body: hands.plain(body.decode(), b"good"))
        served.begin(worker.run, worker.stop)
        return served

    return opened


def asynchronous(endpoint: str, hands: Hands) -> Served:
    served = Served(endpoint)

    async def run() -> None:
        loop = asyncio.get_running_loop()
        worker = AsyncWorker(endpoint, **OPTIONS)
        worker.service("echo", concurrency=2)(lambda body: hands.coroutine(body.decode(), b"good"))

        def stop() -> None:
            with suppress(RuntimeError):  # the loop is closed: the worker has ended
                loop.call_soon_threadsafe(worker.stop)

        served.stop = stop
        await worker.run()

    served.begin(lambda: asyncio.run(run()), lambda: None)
    return served


KINDS = [
    ServedKind("service_worker_in_threads", False, threads(True)),
    ServedKind("service_worker_in_one_thread", False, threads(False)),
    ServedKind("async_service_worker", True, asynchronous),
]
