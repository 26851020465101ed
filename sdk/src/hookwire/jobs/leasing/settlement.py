"""Settlement: tells the source how each handler has ended. It retries while the connection fails, up to the lease."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from hookwire.jobs.failure import is_refusal, passes, reason_of
from hookwire.jobs.leasing.source import Report, Source
from hookwire.slots import Ending

__all__ = ["Batching", "Settlement", "Tally"]

W = TypeVar("W")
T = TypeVar("T")
_RETRY_SECONDS: Final = 0.5
_STALE: Final = "HW001"


class _RefusedValue(Exception):
    """The error of an attempt whose own settlement was refused."""


@dataclass(slots=True)
class Tally:
    """How many pieces of work ended. ``stale``: they were not held any more."""

    done: int = 0
    failed: int = 0
    stale: int = 0
    released: int = 0

    @property
    def ended(self) -> int:
        """Return the number of ended attempts."""
        return self.done + self.failed + self.stale


@dataclass(frozen=True, slots=True)
class Batching:
    """Wait for ``seconds`` until results share a statement, but not if there are ``enough`` of them."""

    seconds: float
    enough: int

    async def gather(self, count: int, *, are_more_expected: bool) -> None:
        """Wait for more results."""
        if are_more_expected and count < self.enough:
            await asyncio.sleep(self.seconds)


class Settlement(Generic[W]):
    """Settles results together, and everything else alone. ``held`` is the work that is not settled yet.

    ``settled`` is called after each settlement, and after work was given up.
    """

    def __init__(self, source: Source[W], lease_seconds: float, report: Report, settled: Callable[[], None]) -> None:
        self.tally = Tally()
        self.held: dict[int, W] = {}
        self.is_needed = asyncio.Event()
        self._source = source
        self._lease_seconds = lease_seconds
        self._report = report
        self._settled = settled
        self._results: list[tuple[W, Any, float]] = []

    def add(self, work: W, result: Any) -> None:
        """Take the result of a handler, to be settled with others."""
        self._results.append((work, result, time.monotonic() + self._lease_seconds))
        self.is_needed.set()

    def forget(self, work: W) -> None:
        """Drop work that is settled or given up."""
        if self.held.pop(id(work), None) is not None:
            self._settled()

    async def run(self, batching: Batching, is_busy: Callable[[], bool]) -> None:
        """Settle results until cancelled."""
        while True:
            await self.is_needed.wait()
            await batching.gather(len(self._results), are_more_expected=is_busy())
            self.is_needed.clear()
            await self._settle_results()

    async def settle(self, work: W, ending: Ending) -> None:
        """Settle work whose handler has raised, or was cancelled by the worker."""
        assert ending.error is not None, "results are settled together"
        if ending.was_cancelled:
            await self.release([work])
        else:
            await self._fail(work, ending.error)
        self.forget(work)

    async def release(self, works: Sequence[W]) -> None:
        """Return work without costing an attempt."""
        self.tally.released += len(works)
        await self._patiently(works[0], lambda: self._source.release(works))

    async def _settle_results(self) -> None:
        results, self._results = self._results, []
        try:
            await self._succeed([(work, result) for work, result, _ in results])
        except Exception as error:
            if not passes(error):
                raise
            self._keep(results, reason_of(error))
            await asyncio.sleep(_RETRY_SECONDS)
            self.is_needed.set()

    def _keep(self, results: list[tuple[W, Any, float]], reason: str) -> None:
        """Keep results for the next try, and give up those whose lease must be over."""
        self._report("settle_failed", None, reason)
        late = [work for work, _, until in results if until <= time.monotonic()]
        for work in late:
            self._give_up(work, reason)
        self._results = [one for one in results if id(one[0]) in self.held] + self._results

    def _give_up(self, work: W, reason: str) -> None:
        self._report("outcome_lost", work, reason)
        self.forget(work)

    async def _succeed(self, done: list[tuple[W, Any]]) -> None:
        """Settle results. A refused result fails alone; a batch is then settled one by one."""
        if not done:
            return
        try:
            late = await self._source.succeed(done)
        except Exception as error:
            if not is_refusal(error):
                raise
            if len(done) > 1:
                for one in done:
                    await self._succeed([one])
                return
            await self._fail_refused(done[0][0], error)
            late = []
        else:
            self.tally.done += len(done) - len(late)
        for work in late:
            self._was_late(work)
        for work, _ in done:
            self.held.pop(id(work), None)
        self._settled()

    async def _fail(self, work: W, error: BaseException) -> None:
        """Fail the attempt as the handler asked, or plainly if that is refused, for example by a negative delay."""
        self._report("failed", work, reason_of(error))
        try:
            was_held = await self._patiently(work, lambda: self._source.fail(work, error))
        except Exception as refusal:
            if not is_refusal(refusal):
                raise
            await self._fail_refused(work, refusal, is_last=isinstance(error, _RefusedValue))
            return
        self.tally.failed += was_held is True
        if was_held is False:
            self._was_late(work)

    async def _fail_refused(self, work: W, refusal: Exception, *, is_last: bool = False) -> None:
        if is_last:
            self._report("settle_refused", work, reason_of(refusal))
            return
        await self._fail(work, _RefusedValue(f"refused: {reason_of(refusal)}"))

    def _was_late(self, work: W) -> None:
        self.tally.stale += 1
        self._report("settled_late", work, "")

    async def _patiently(self, work: W, settle: Callable[[], Awaitable[T]]) -> T | bool | None:
        """Return the outcome, False if the claim is over, or None after the time of the lease."""
        until = time.monotonic() + self._lease_seconds
        while True:
            try:
                return await settle()
            except Exception as error:
                if getattr(error, "sqlstate", None) == _STALE:
                    return False
                if not passes(error):
                    raise
                if time.monotonic() >= until:
                    self._report("outcome_lost", work, reason_of(error))
                    return None
                self._report("settle_failed", work, reason_of(error))
            await asyncio.sleep(_RETRY_SECONDS)
