"""A service that works in rounds: what ends a pause, what ends the service."""

import asyncio
from typing import ClassVar

import pytest

from runtime.periodic import Periodic, later

HOURS = 3_600.0


class Counted(Periodic):
    """Counts its rounds and raises what it is told to raise in the first."""

    name = "counted"
    expected: ClassVar = (OSError,)

    def __init__(self, first_error: Exception | None = None, interval_seconds: float | None = HOURS) -> None:
        super().__init__(interval_seconds)
        self.rounds = 0
        self.failures: list[Exception] = []
        self.began = asyncio.Event()
        self._first_error = first_error

    async def once(self) -> None:
        self.rounds += 1
        self.began.set()
        if self._first_error is not None and self.rounds == 1:
            raise self._first_error

    def failed(self, error: Exception) -> None:
        self.failures.append(error)
        self.notify()


async def test_a_notification_ends_the_pause_and_a_stop_ends_the_service() -> None:
    service = Counted()
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        tasks.create_task(service.run())
        await service.began.wait()
        service.began.clear()
        service.notify()
        await service.began.wait()
        service.stop()
    assert service.rounds == 2


async def test_without_an_interval_each_round_waits_for_a_notification() -> None:
    """Also the first: a stop before it ends the service without a round."""
    idle, service = Counted(interval_seconds=None), Counted(interval_seconds=None)
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        tasks.create_task(idle.run())
        tasks.create_task(service.run())
        await asyncio.sleep(0)
        begun = service.rounds
        service.notify()
        await service.began.wait()
        idle.stop()
        service.stop()
    assert (begun, service.rounds, idle.rounds) == (0, 1, 0)


class CountedLater(Counted):
    """Has work that can wait."""

    begins_later: ClassVar[bool] = True


async def test_work_that_can_wait_begins_at_a_notification() -> None:
    """At a start it leaves the database to the first requests."""
    idle, service = CountedLater(), CountedLater()
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        tasks.create_task(idle.run())
        tasks.create_task(service.run())
        await asyncio.sleep(0)
        begun = service.rounds
        service.notify()
        await service.began.wait()
        idle.stop()
        service.stop()
    assert (begun, service.rounds, idle.rounds) == (0, 1, 0)


async def test_work_that_can_wait_begins_by_itself() -> None:
    service = CountedLater(interval_seconds=0.01)
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        tasks.create_task(service.run())
        await service.began.wait()
        service.stop()
    assert service.rounds > 0


def test_work_that_can_wait_begins_after_five_to_ten_seconds() -> None:
    seconds = [later(interval) for interval in (60.0, 600.0) for _ in range(100)]
    assert (min(seconds) >= 5.0, max(seconds) <= 10.0) == (True, True)


async def test_a_service_that_is_stopped_before_it_runs_does_nothing() -> None:
    service = Counted()
    service.stop()
    await service.run()
    assert service.rounds == 0


async def test_an_expected_error_is_reported_and_the_next_round_follows() -> None:
    error = OSError("away")
    service = Counted(error)
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        tasks.create_task(service.run())
        while service.rounds < 2:  # noqa: ASYNC110 - a round is one turn of the loop
            await asyncio.sleep(0)
        service.stop()
    assert service.failures == [error]


async def test_any_other_error_ends_the_service() -> None:
    with pytest.raises(KeyError):
        await Counted(KeyError("a mistake")).run()
