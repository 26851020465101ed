"""Batches: calls that arrive during a run share the next run, and so share one commit.

After a run, its callers get their answers and may call again. The next run therefore waits for them, but at most for
half the time of the last one. Without this wait, the first caller to return would get a commit alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from db.errors import OutcomeUnknown, Refused

__all__ = ["Batches"]

_GATHER_SECONDS_MAX = 0.005
Given = TypeVar("Given")
Result = TypeVar("Result")


class _Call(Generic[Given, Result]):
    """An item, and the futures of its caller: its result, and ``turn``, which lets the caller run the next batch."""

    __slots__ = ("answer", "item", "turn")

    def __init__(self, item: Given) -> None:
        loop = asyncio.get_running_loop()
        self.item = item
        self.answer: asyncio.Future[Result] = loop.create_future()
        self.turn: asyncio.Future[None] = loop.create_future()


class Batches(Generic[Given, Result]):
    """Collects the items of concurrent callers into batches.

    ``run`` gets at most ``most`` items and returns one result per item, in the same order. At most ``at_once`` runs are
    in progress. The caller that has waited longest runs the next batch. If the database refuses a batch, each of its
    items runs alone, so that one refused item does not affect the others.
    """

    def __init__(
        self, run: Callable[[Sequence[Given]], Awaitable[Sequence[Result]]], most: int = 200, at_once: int = 2
    ) -> None:
        self._run = run
        self._most = most
        self._at_once = at_once
        self._waiting: list[_Call[Given, Result]] = []
        self._running = 0
        self._wanted = 0
        self._gathering: asyncio.TimerHandle | None = None

    async def add(self, item: Given) -> Result:
        """Return the item's result. Raise the exception of its run."""
        call: _Call[Given, Result] = _Call(item)
        self._waiting.append(call)
        self._pass_turn()
        try:
            await asyncio.wait((call.answer, call.turn), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._leave(call)
            raise
        if call.turn.done():
            await self._run_next()
        return await call.answer

    def _leave(self, call: _Call[Given, Result]) -> None:
        """Remove a caller that was cancelled while it waited. If it had the turn, pass the turn on."""
        call.answer.cancel()
        if call in self._waiting:
            self._waiting.remove(call)
            if call.turn.done():
                self._running -= 1
                self._pass_turn()

    def _pass_turn(self) -> None:
        """Let the caller that has waited longest run the next batch. It is not its turn while ``at_once`` runs are in
        progress, or while the callers of the last one are expected.
        """
        if not self._waiting or self._running >= self._at_once or self._waiting[0].turn.done():
            return
        if self._gathering is not None:
            if len(self._waiting) < self._wanted:
                return
            self._gathering.cancel()
            self._gathering = None
        self._running += 1
        self._waiting[0].turn.set_result(None)

    def _gather(self, answered: int, seconds: float) -> None:
        """Expect the callers that were answered after so many seconds, beside those that wait."""
        self._wanted = min(answered + len(self._waiting), self._most)
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        if self._wanted > max(1, len(self._waiting)):
            self._gathering = asyncio.get_running_loop().call_later(_patience(seconds), self._gathered)

    def _gathered(self) -> None:
        self._gathering = None
        self._pass_turn()

    async def _run_next(self) -> None:
        batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
        began = time.monotonic()
        try:
            await self._answer(batch)
        except BaseException:  # Cancelled: it is unknown whether the batch was stored.
            _fail(batch, OutcomeUnknown("the call that ran this batch was cancelled"))
            raise
        finally:
            self._running -= 1
            self._gather(len(batch), time.monotonic() - began)
            self._pass_turn()

    async def _answer(self, batch: Sequence[_Call[Given, Result]]) -> None:
        try:
            results = await self._run([call.item for call in batch])
        except Refused as error:
            if len(batch) == 1:
                _fail(batch, error)
                return
            for call in batch:
                await self._answer([call])
        except Exception as error:  # noqa: BLE001 - awaiting the result raises it again
            _fail(batch, error)
        else:
            for call, result in zip(batch, results, strict=True):
                if not call.answer.done():
                    call.answer.set_result(result)


def _patience(run_seconds: float) -> float:
    """Return how long to wait for the callers of a run that has taken so many seconds."""
    return min(run_seconds / 2, _GATHER_SECONDS_MAX)


def _fail(batch: Sequence[_Call[Given, Result]], error: Exception) -> None:
    for call in batch:
        if not call.answer.done():
            call.answer.set_exception(error)
