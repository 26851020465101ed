"""Sink relay: harvest every partition group of one sink whose lease this process gets.

::

    acquiring --> lease --> a harvester's term over its group ... --> the lease is free
        ^          |
        +----------+  and again, for the next lease, while the first terms go on
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from relay.election.port import Election, Lease, next_lease
from relay.harvester import Harvester
from relay.outbox import LowWater
from relay.record import Record
from runtime.cancellation import TaskGroup

__all__ = ["SinkRelay"]

_RANK = ("refused", "backing off", "leading", "standby")
"""The sink shows the first of these states that one of its groups has."""


class SinkRelay:
    """Carries one sink's records for as long as :meth:`run` runs. ``state`` is one word for people."""

    def __init__(self, sink: str, election: Election, harvester_of: Callable[[int], Harvester]) -> None:
        self.name = f"relay {sink}"
        self.sink_name = sink
        self._election = election
        self._harvester_of = harvester_of
        self._harvesters: dict[int, Harvester] = {}
        self._leases: set[Lease] = set()
        self._stopping = asyncio.Event()
        self._stopped = False

    @property
    def state(self) -> str:
        """Return the state of the sink, from the states of its groups."""
        if self._stopped:
            return "stopped"
        states = {harvester.state for harvester in self._harvesters.values()}
        return next((state for state in _RANK if state in states), "standby")

    @property
    def in_flight(self) -> Mapping[int, Record]:
        """Return the records in flight of all groups, by id."""
        return {number: record for h in self._harvesters.values() for number, record in h.in_flight.items()}

    @property
    def low_water(self) -> LowWater | None:
        """Return the low-water mark of all groups that this process leads; None where it leads none, or origins
        differ.
        """
        marks = [mark for harvester in self._harvesters.values() if (mark := harvester.low_water) is not None]
        if len({mark.origin for mark in marks}) != 1:
            return None
        return LowWater(sum(mark.shards for mark in marks), min(mark.id for mark in marks), marks[0].origin)

    @property
    def last_error(self) -> str:
        """Return the last error of the group whose state stands for the sink, if any."""
        ranked = sorted(self._harvesters.values(), key=lambda harvester: _RANK.index(harvester.state))
        return next((harvester.last_error for harvester in ranked if harvester.last_error), "")

    def leads(self, shards: frozenset[int]) -> bool:
        """Return whether this process leads all of these shards."""
        for harvester in self._harvesters.values():
            shards = shards - harvester.shards
        return not shards

    def stop(self) -> None:
        """Soft stop: finish and purge the records in flight, free the leases."""
        self._stopping.set()
        for lease in self._leases:
            lease.ask()

    async def run(self) -> None:
        """Acquire a lease, lead, acquire again, until stopped."""
        async with TaskGroup() as terms:
            while (lease := await next_lease(self._election, self._stopping)) is not None:
                terms.create_task(self._lead(lease), name=f"{self.name} {lease.term.group}")
            await self._election.end_candidacy()
        self._stopped = True

    async def _lead(self, lease: Lease) -> None:
        group = lease.term.group
        if group not in self._harvesters:
            self._harvesters[group] = self._harvester_of(group)
        self._leases.add(lease)
        if self._stopping.is_set():
            lease.ask()
        try:
            await self._harvesters[group].lead(self._election, lease)
        finally:
            self._leases.discard(lease)
