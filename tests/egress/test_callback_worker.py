"""The worker behind callbacks of services and jobs, with an outbound client and work of the test's own."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from egress.callback import Callback, CallbackMessage, CallbackOptions
from egress.callback_worker import LEASE_MARGIN_SECONDS, LEASED_EACH, CallbackWorker
from egress.client import Request, Response
from egress.failure import DeadlineExceeded
from tests.waiting import until

GOOD = 100
SECONDS_MAX = 60.0
ANSWER = Response(204, (), b"", False, "", 0.0, 0.0, 0.0)


class Outbound:
    """A callback but the good one fails four times, and then never answers. ``last`` may answer the fourth.

    It fails by ``failure``, or without an answer.
    """

    def __init__(self, last: Response | None = None, failure: Response | None = None) -> None:
        self.silent = 0
        self._last = last
        self._failure = failure
        self._asked: Counter[Any] = Counter()

    async def send(self, request: Request) -> Response:
        number: Any = request.target
        if number == GOOD:
            return ANSWER
        self._asked[number] += 1
        if self._asked[number] == LEASED_EACH and self._last is not None:
            return self._last
        if self._asked[number] <= LEASED_EACH:
            if self._failure is not None:
                return self._failure
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
        super().__init__(outbound, Book(), CallbackOptions(SECONDS_MAX, 1000))
        self.ready = [*range(16)]
        self.recorded: Counter[int] = Counter()

    async def lease(self, full: Sequence[int], subscriptions: int) -> Sequence[Mapping[str, Any]]:
        chosen = [one for one in self.ready if one not in full][:subscriptions]
        return [{"id": one, "subscription_id": one, "version": 1} for one in chosen for _ in range(LEASED_EACH)]

    def message(self, work: Mapping[str, Any]) -> CallbackMessage:
        return CallbackMessage(str(work["id"]), [], b"")

    async def record(self, work: Mapping[str, Any], answer: Response | str) -> None:
        self.recorded[work["subscription_id"]] += 1


class Late(Worker):
    """Its first lease was asked for so long ago; it leases once."""

    def __init__(self, outbound: Any, ago_seconds: float, seconds_max: float | None) -> None:
        super().__init__(outbound)
        self.ready = [GOOD]
        self._ago_seconds = ago_seconds
        self._seconds_max = seconds_max

    async def lease(self, full: Sequence[int], subscriptions: int) -> Sequence[Mapping[str, Any]]:
        leased, self.ready = await super().lease(full, subscriptions), []
        return leased

    async def _work(self, work: Mapping[str, Any], callback: Callback | None, asked_at: float) -> None:
        await super()._work(work, callback, asked_at - self._ago_seconds)

    def message(self, work: Mapping[str, Any]) -> CallbackMessage:
        return replace(super().message(work), seconds_max=self._seconds_max)


@pytest.mark.parametrize(
    ("ago_seconds", "seconds_max", "sends"),
    [(LEASE_MARGIN_SECONDS - 5, None, True), (LEASE_MARGIN_SECONDS + 1, None, False), (3.0, 2.0, False)],
    ids=["in time", "after the margin", "after its own limit"],
)
async def test_work_whose_lease_has_become_too_short_is_neither_sent_nor_recorded(
    ago_seconds: float, seconds_max: float | None, sends: bool
) -> None:
    """RR-10: the process was stopped since the lease, and another worker may have the work."""
    sent: list[Request] = []

    class Checked(Outbound):
        async def send(self, request: Request) -> Response:
            request.check_time()
            sent.append(request)
            return await super().send(request)

    worker = Late(Checked(None), ago_seconds, seconds_max)
    worker.poll_now()
    running = asyncio.create_task(worker.run())
    await until(lambda: not worker.ready and not worker._in_flight)
    worker.stop()
    await running

    assert (len(sent), worker.recorded[GOOD]) == ((LEASED_EACH, LEASED_EACH) if sends else (0, 0))


@pytest.mark.parametrize(
    "outbound",
    [
        Outbound(), Outbound(last=ANSWER), Outbound(failure=ANSWER._replace(total_seconds=SECONDS_MAX / 4)),
        *(Outbound(failure=ANSWER._replace(status=status)) for status in (502, 503, 504)),
    ],
    ids=["never", "now and then", "slowly", "502", "503", "504"],
)  # fmt: skip
async def test_callbacks_that_do_not_answer_leave_half_of_the_room_to_the_others(outbound: Outbound) -> None:
    """GW-01: its kind; twenty of them took the whole room, each time for as long as a POST may take."""
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


@pytest.mark.parametrize("failure", [ANSWER._replace(status=500), ANSWER._replace(total_seconds=SECONDS_MAX / 5)])
async def test_callbacks_that_answer_soon_may_take_the_whole_room(failure: Response) -> None:
    outbound = Outbound(failure=failure)
    running = asyncio.create_task(Worker(outbound).run())
    try:
        await until(lambda: outbound.silent == 64)
    finally:
        running.cancel()
        await asyncio.wait([running])
