"""The dispatcher and the three services, with a store in memory and a caller that the test holds in its hands."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from reqrep.frames import Frames
from reqrep.titanic.caller import NotAnswered
from reqrep.titanic.dispatcher import Dispatcher
from reqrep.titanic.memory_store import MemoryRequestStore
from reqrep.titanic.options import TitanicOptions
from reqrep.titanic.services import TITANIC_NAMES, TitanicServices
from reqrep.titanic.store import (
    AcceptedRequest,
    Receipt,
    RequestAnswer,
    RequestState,
    Settled,
    StoreFull,
    StoreUnavailable,
)  # fmt: skip
from tests.waiting import until

DEADLINE_SECONDS = 60
OPTIONS = TitanicOptions(concurrency=3, look_seconds=0.01, retry_seconds=0.001, retry_seconds_max=0.002)


class Workers:
    """A caller: ``live`` services answer what ``answer`` returns; calls are counted while they run.

    ``third_look`` is set when `absent` was asked for three times.
    """

    def __init__(self, answer: Callable[[AcceptedRequest], Any]) -> None:
        self.live = {"echo"}
        self.looks = 0
        self.third_look = asyncio.Event()
        self.calls: list[AcceptedRequest] = []
        self.running: dict[str, int] = {}
        self.most: dict[str, int] = {}
        self._answer = answer

    async def is_live(self, service: str) -> bool:
        self.looks += service == "absent"
        if self.looks == 3:
            self.third_look.set()
        return service in self.live

    async def call(self, request: AcceptedRequest) -> Frames:
        self.calls.append(request)
        self.running[request.service] = self.running.get(request.service, 0) + 1
        self.most[request.service] = max(self.most.get(request.service, 0), self.running[request.service])
        try:
            found = self._answer(request)
            return list(await found if asyncio.iscoroutine(found) else found)
        finally:
            self.running[request.service] -= 1


@asynccontextmanager
async def dispatching(
    store: MemoryRequestStore, workers: Workers, options: TitanicOptions = OPTIONS
) -> AsyncIterator[Dispatcher]:
    dispatcher = Dispatcher(store, workers, options)
    running = asyncio.create_task(dispatcher.run())
    async with asyncio.timeout(DEADLINE_SECONDS):
        yield dispatcher
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def answered(store: MemoryRequestStore, request_id: str) -> list[bytes]:
    async def found() -> RequestAnswer | None:
        answer = await store.fetch(request_id)
        return None if answer.state is RequestState.PENDING else answer

    answer: RequestAnswer = await until(found)
    return answer.reply


async def submit(store: MemoryRequestStore, body: bytes = b"x", service: str = "echo") -> str:
    return await store.accept(AcceptedRequest(service, [body]))


def echo(request: AcceptedRequest) -> Frames:
    return request.body


async def test_only_live_services_are_called_and_others_are_looked_at_again() -> None:
    """TI-10: a request without a service waits, and is executed when a worker comes."""
    store, workers = MemoryRequestStore(), Workers(echo)
    async with dispatching(store, workers):
        absent, there = await submit(store, service="absent"), await submit(store)
        first = await answered(store, there)
        await workers.third_look.wait()
        called = [each.service for each in workers.calls]
        workers.live.add("absent")
        assert (first, called, await answered(store, absent)) == ([b"x"], ["echo"], [b"x"])


async def test_accepts_of_a_service_without_a_worker_share_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """ZP-34: a look at the store for each accept would cost more than the accept."""
    monkeypatch.setattr("reqrep.titanic.dispatcher._IN_VAIN_PAUSE_SECONDS", 0.05)
    store, workers, began = Counted(), Workers(echo), time.monotonic()
    async with dispatching(store, workers):
        for _ in range(200):
            await submit(store, service="absent")
            for _ in range(10):
                await asyncio.sleep(0)
        seconds = time.monotonic() - began
        assert store.looks <= seconds / 0.05 + 3


class Counted(MemoryRequestStore):
    """A store that counts the looks at what waits."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0

    async def waiting(self) -> Sequence[str]:
        self.looks += 1
        return await super().waiting()


async def test_a_service_runs_no_more_at_once_than_it_may_and_fills_no_other() -> None:
    """TI-19."""
    go_on = asyncio.Event()

    async def slow(request: AcceptedRequest) -> Frames:
        if request.service == "slow":
            await go_on.wait()
        return request.body

    store, workers = MemoryRequestStore(), Workers(slow)
    workers.live.add("slow")
    async with dispatching(store, workers):
        blocked = [await submit(store, service="slow") for _ in range(10)]
        quick = [await answered(store, await submit(store)) for _ in range(10)]
        go_on.set()
        late = [await answered(store, request_id) for request_id in blocked]
    assert (quick, late, workers.most["slow"]) == ([[b"x"]] * 10, [[b"x"]] * 10, 3)


async def test_a_call_that_takes_too_long_is_made_again() -> None:
    """TI-18: the time is a setting of 15 minutes, not one second."""
    store = MemoryRequestStore()

    async def once_stuck(request: AcceptedRequest) -> Frames:
        if len(workers.calls) == 1:
            await asyncio.Event().wait()
        return request.body

    workers = Workers(once_stuck)
    options = TitanicOptions(look_seconds=0.01, retry_seconds=0.001, execution_seconds=0.05)
    async with dispatching(store, workers, options) as dispatcher:
        reply = await answered(store, await submit(store))
        drops = dict(dispatcher.counters.drops)
    assert (reply, len(workers.calls), drops, TitanicOptions().execution_seconds) == (
        [b"x"], 2, {"execution-timeout": 1}, 900.0
    )  # fmt: skip


async def test_a_lost_worker_is_followed_by_another_attempt() -> None:
    """TI-08."""
    store = MemoryRequestStore()

    def lost_twice(request: AcceptedRequest) -> Frames:
        if len(workers.calls) < 3:
            raise NotAnswered("worker-lost")
        return request.body

    workers = Workers(lost_twice)
    async with dispatching(store, workers) as dispatcher:
        reply = await answered(store, await submit(store))
        assert (reply, len(workers.calls), dict(dispatcher.counters.drops)) == ([b"x"], 3, {"worker-lost": 2})


class Troubled(MemoryRequestStore):
    """A store that fails at the first attempt of each step."""

    def __init__(self) -> None:
        super().__init__()
        self.failed: set[str] = set()

    def fail_once(self, step: str) -> None:
        if step not in self.failed:
            self.failed.add(step)
            raise StoreUnavailable(f"simulated: {step}")

    async def claim(self, *arguments: Any) -> Any:
        self.fail_once("claim")
        return await super().claim(*arguments)

    async def settle(self, receipt: Receipt, reply: Frames) -> Settled:
        self.fail_once("settle")
        return await super().settle(receipt, reply)


async def test_a_reply_outlives_a_failure_of_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """TI-12: it is stored when the store answers again; the request is not executed twice."""
    monkeypatch.setattr("reqrep.titanic.dispatcher._STORE_PAUSE_SECONDS", 0.01)
    store, workers = Troubled(), Workers(echo)
    async with dispatching(store, workers):
        reply = await answered(store, await submit(store))
    assert (reply, len(workers.calls), store.failed) == ([b"x"], 1, {"claim", "settle"})


async def test_a_failure_of_the_store_is_500_and_nothing_else_is() -> None:
    """TI-05: retry later; of all three services."""

    class Full(MemoryRequestStore):
        async def accept(self, request: AcceptedRequest) -> str:
            raise StoreFull("simulated")

        async def fetch(self, request_id: str) -> RequestAnswer:
            raise StoreUnavailable("simulated")

        async def close(self, request_id: str) -> None:
            raise StoreUnavailable("simulated")

    services = TitanicServices(Full())
    found = [await services.answer(name, [b"echo", b"x"]) for name in sorted(TITANIC_NAMES)]
    assert found == [[b"500"]] * 3


async def test_missing_frames_are_answered() -> None:
    """TI-20."""
    services = TitanicServices(MemoryRequestStore())
    found = [await services.answer(name, []) for name in sorted(TITANIC_NAMES)]
    assert found == [[b"200"], [b"400"], [b"400"]]


async def test_nothing_that_a_client_sends_gets_anything_but_a_status() -> None:
    """TI-05, TI-20: ten thousand bodies of random frames, among them ids that exist and numbers of a pipeline."""
    dice, store = random.Random(5), MemoryRequestStore()
    services = TitanicServices(store)
    pieces = [(await submit(store)).encode(), b"echo", b"", b"\x00hookwire-number:", b"\xff" * 32, b"0" * 32, b"mmi.x"]
    statuses = set()
    for _ in range(10_000):
        body = [
            dice.choice(pieces) if dice.random() < 0.7 else dice.randbytes(dice.randrange(40))
            for _ in range(dice.randrange(4))
        ]
        found = await services.answer(dice.choice(sorted(TITANIC_NAMES)), body)
        statuses.add(found[1] if found[0].startswith(b"\x00hookwire-number:") else found[0])
    assert statuses <= {b"200", b"300", b"400"}
