"""The worker behind callbacks of services and jobs, with an outbound client and work of the test's own."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

from egress.callback import Callback, CallbackMessage, CallbackOptions
from egress.callback_worker import LEASED_EACH, CallbackWorker
from egress.client import Request, Response
from egress.failure import DeadlineExceeded
from tests.waiting import until

GOOD = 100
ANSWER = Response(204, (), b"", False, "", 0.0, 0.0, 0.0)


class Outbound:
    """A callback but the good one fails four times, and then never answers. ``last`` may answer the fourth."""

    def __init__(self, last: Response | None) -> None:
        self.silent = 0
        self._last = last
        self._asked: Counter[Any] = Counter()

    async def send(self, request: Request) -> Response:
        number: Any = request.target
        if number == GOOD:
            return ANSWER
        self._asked[number] += 1
        if self._asked[number] == LEASED_EACH and self._last is not None:
            return self._last
        if self._asked[number] <= LEASED_EACH:
            raise DeadlineExceeded("no answer")
        self.silent += 1
        await asyncio.Event().wait()
        raise AssertionError


class Book:
    async def open(self, wanted: Iterable[tuple[int, int]]) -> Mapping[int, Callback]:
        numbers: Iterable[Any] = (number for number, _ in wanted)
        return {number: Callback(number, "", None, lambda *_: []) for number in numbers}


class Worker(CallbackWorker):
    """Each subscription of ``ready`` has work without end; the first come first."""

    name = "test callbacks"

    def __init__(self, outbound: Any) -> None:
        super().__init__(outbound, Book(), CallbackOptions(60.0, 1000))
        self.ready = [*range(16)]
        self.recorded: Counter[int] = Counter()

    async def lease(self, full: Sequence[int], subscriptions: int) -> Sequence[Mapping[str, Any]]:
        chosen = [one for one in self.ready if one not in full][:subscriptions]
        return [{"id": one, "subscription_id": one, "version": 1} for one in chosen for _ in range(LEASED_EACH)]

    def message(self, work: Mapping[str, Any]) -> CallbackMessage:
        return CallbackMessage(str(work["id"]), [], b"")

    async def record(self, work: Mapping[str, Any], answer: Response | str) -> None:
        self.recorded[work["subscription_id"]] += 1


@pytest.mark.parametrize("last", [None, ANSWER], ids=["never", "now and then"])
async def test_callbacks_that_do_not_answer_leave_half_of_the_room_to_the_others(last: Response | None) -> None:
    """GW-01: its kind; twenty of them took the whole room, each time for as long as a POST may take."""
    outbound = Outbound(last)
    worker = Worker(outbound)
    running = asyncio.create_task(worker.run())
    await until(lambda: outbound.silent >= 32)
    worker.ready.append(GOOD)
    worker.poll_now()
    try:
        await until(lambda: worker.recorded[GOOD])
    finally:
        running.cancel()
        await asyncio.wait([running])

    assert outbound.silent == 32
