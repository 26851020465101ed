"""Batches: calls that come while one runs share the next, and with it one commit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

__all__ = ["Batches"]

Given = TypeVar("Given")
Result = TypeVar("Result")


class Batches(Generic[Given, Result]):
    """``run`` gets at most ``most`` items and returns a result for each, in their order.

    Where it raises one of ``refusals`` for several items, each of them is tried alone, so that an item that is refused
    costs no other one. At most ``at_once`` runs are under way.
    """

    def __init__(
        self, run: Callable[[Sequence[Given]], Awaitable[Sequence[Result]]], refusals: type[Exception], most: int = 200,
        at_once: int = 2,
    ) -> None:  # fmt: skip
        self._run = run
        self._refusals = refusals
        self._most = most
        self._at_once = at_once
        self._waiting: list[tuple[Given, asyncio.Future[Result]]] = []
        self._running: set[asyncio.Task[None]] = set()

    async def add(self, item: Given) -> Result:
        """Return the item's result, or raise what its run has raised."""
        answer: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, answer))
        self._begin()
        return await answer

    async def aclose(self) -> None:
        """Wait for what was begun."""
        while self._running:
            await asyncio.wait(self._running)

    def _begin(self) -> None:
        if self._waiting and len(self._running) < self._at_once:
            task = asyncio.get_running_loop().create_task(self._turn(), name="batch")
            self._running.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._begin()

    async def _turn(self) -> None:
        batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
        try:
            await self._answer(batch)
        except self._refusals as error:
            if len(batch) == 1:
                _fail(batch, error)
            else:
                for one in batch:
                    await self._answer_alone(one)
        except Exception as error:  # noqa: BLE001 - it is raised again where the result is awaited
            _fail(batch, error)

    async def _answer_alone(self, one: tuple[Given, asyncio.Future[Result]]) -> None:
        try:
            await self._answer([one])
        except Exception as error:  # noqa: BLE001 - it is raised again where the result is awaited
            _fail([one], error)

    async def _answer(self, batch: Sequence[tuple[Given, asyncio.Future[Result]]]) -> None:
        results = await self._run([item for item, _ in batch])
        for (_, answer), result in zip(batch, results, strict=True):
            if not answer.done():
                answer.set_result(result)


def _fail(batch: Sequence[tuple[Given, asyncio.Future[Result]]], error: Exception) -> None:
    for _, answer in batch:
        if not answer.done():
            answer.set_exception(error)
