"""Threads for plain functions. They are daemons, so that a function that never ends does not keep the process alive."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from queue import Empty, SimpleQueue
from typing import Any

from hookwire.slots import Ending, ending_of_call

__all__ = ["Threads"]


class Threads:
    """Runs each call in an idle thread, or in a new one. A call beyond ``most`` waits for a thread."""

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._most = most
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._count = 0

    def begin(self, call: Callable[[], None]) -> None:
        """Run a call that raises nothing. Raise RuntimeError, without running it, if there is no thread to spare."""
        if self._idle.acquire(blocking=False) or self._count >= self._most:
            self._calls.put(call)
            return
        threading.Thread(target=self._work, args=(call,), name=f"{self._name}-{self._count}", daemon=True).start()
        self._count += 1

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function and return its result. A first cancellation waits for its end, as no thread can be stopped."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[Ending] = loop.create_future()
        context = copy_context()

        def run() -> None:
            ending = ending_of_call(context.run, function, *arguments)
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(_tell, ended, ending)

        self.begin(run)
        try:
            ending = await asyncio.shield(ended)
        except asyncio.CancelledError:
            await asyncio.wait([ended])
            raise
        if isinstance(ending.error, StopIteration):
            raise RuntimeError("the function raised StopIteration") from ending.error
        if ending.error is not None:
            raise ending.error
        return ending.result

    def close(self) -> None:
        """End the threads that are idle; the others end after their call."""
        for _ in range(self._count):
            self._calls.put(None)

    def _work(self, call: Callable[[], None] | None) -> None:
        while call is not None:
            call()
            call = self._next()

    def _next(self) -> Callable[[], None] | None:
        try:
            return self._calls.get_nowait()
        except Empty:
            self._idle.release()
            return self._calls.get()


def _tell(ended: asyncio.Future[Ending], ending: Ending) -> None:
    if not ended.done():
        ended.set_result(ending)
