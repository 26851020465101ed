"""Relay: an object for programs that relay in their own process; it has the states of goharvest's.

::

    created --start()--> running --stop()--> stopping --nothing is in flight--> stopped
                            |                                                        ^
                            +-------- a part failed: wait() raises it ---------------+

It carries any number of harvesters, of our own outbox or of goharvest's table, each with its observer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from relay.observer import Observer
from relay.record import Record
from runtime.cancellation import TaskGroup

__all__ = ["Attendant", "Harvests", "Relay"]

State = Literal["created", "running", "stopping", "stopped"]


class Harvests(Protocol):
    """A harvester of any table."""

    name: str

    @property
    def in_flight(self) -> Mapping[int, Record]:
        """Return the records in flight, by id."""
        ...

    async def run(self) -> None:
        """Relay until stopped."""
        ...

    def stop(self) -> None:
        """Ask for a soft stop."""
        ...


class Attendant(Protocol):
    """A service that harvesters need while they run, such as an election."""

    name: str

    async def run(self) -> None:
        """Serve until stopped."""
        ...

    def stop(self) -> None:
        """Ask for the end."""
        ...


class Relay:
    """Start it once. ``async with`` starts, stops and waits. ``attendants``, such as an election, outlast the parts."""

    def __init__(self, parts: Sequence[tuple[Harvests, Observer]], attendants: Sequence[Attendant] = ()) -> None:
        self._parts = parts
        self._attendants = attendants
        self._work: asyncio.Task[None] | None = None
        self._stopping = False

    @property
    def phases(self) -> list[list[Harvests | Observer | Attendant]]:
        """Return the services in the order of a soft stop, for a process that runs them itself."""
        return [
            [harvester for harvester, _ in self._parts],
            [*(observer for _, observer in self._parts), *self._attendants],
        ]

    @property
    def state(self) -> State:
        """Return the state in one word: created, running, stopping or stopped."""
        if self._work is None:
            return "created"
        if self._work.done():
            return "stopped"
        return "stopping" if self._stopping else "running"

    @property
    def is_leader(self) -> bool:
        """Return whether it leads any group, as far as it knows; only the fence decides."""
        return any(observer.leader_ids for _, observer in self._parts)

    @property
    def leader_ids(self) -> list[str]:
        """Return the terms that it leads at the moment."""
        return [leader_id for _, observer in self._parts for leader_id in observer.leader_ids]

    @property
    def in_flight_records(self) -> int:
        """Return the number of records in flight."""
        return sum(len(harvester.in_flight) for harvester, _ in self._parts)

    @property
    def in_flight_keys(self) -> set[str]:
        """Return the keys of the records in flight."""
        records = [record for harvester, _ in self._parts for record in harvester.in_flight.values()]
        return {record.key for record in records if record.key is not None}

    async def start(self) -> None:
        """Start the election and the relay; return at once. Raise RuntimeError when it was started before."""
        if self._work is not None:
            raise RuntimeError(f"this relay is {self.state}; make another one")
        self._work = asyncio.create_task(self._run(), name="relay")

    def stop(self) -> None:
        """Ask for a soft stop; returns at once, and may be called again."""
        self._stopping = True
        for harvester, _ in self._parts:
            harvester.stop()

    async def wait(self) -> None:
        """Wait until it has stopped; raise the error that ended it, if any."""
        if self._work is not None:
            await asyncio.shield(self._work)

    async def __aenter__(self) -> Relay:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()
        await self.wait()

    async def _run(self) -> None:
        """Run all parts. Each observer outlives its harvester, so that the last reading is complete."""
        async with TaskGroup() as attendance:
            for attendant in self._attendants:
                attendance.create_task(attendant.run(), name=attendant.name)
            async with TaskGroup() as tasks:
                for harvester, observer in self._parts:
                    tasks.create_task(observer.run(), name=observer.name)
                    tasks.create_task(_until_done(harvester, observer), name=harvester.name)
            for attendant in self._attendants:
                attendant.stop()


async def _until_done(harvester: Harvests, observer: Observer) -> None:
    await harvester.run()
    observer.stop()
