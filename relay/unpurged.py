"""Unpurged: batches that the broker has acknowledged and whose records are still in the outbox.

A manifest is written while its batch is sent. Only the commit waits for it. A batch that was committed waits a moment,
so that the statement that writes the next manifest also purges it. The two then need one round trip and one flush of
the log together. Where no batch follows, it is purged alone. A crash before the purge repeats nothing: its manifest
stands, and the progress marker covers its number.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from db.errors import DatabaseError, HeldBack
from relay.holds.hold import Holds
from relay.metrics import RelayMetrics
from relay.outbox import Outbox
from relay.record import Record
from relay.sink import Batch, Sink, Term
from runtime.cancellation import TaskGroup

__all__ = ["Acknowledged", "Unpurged"]

_NEXT_MANIFEST_SECONDS = 0.05
"""How long an acknowledged batch waits for the next manifest: some pauses between two small batches."""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """Records of a batch that the broker has confirmed; ``held`` records lie in the side table."""

    batch: Batch
    records: Sequence[Record]
    held: bool = False
    is_purged: asyncio.Event = field(default_factory=asyncio.Event)


class Unpurged:
    """The acknowledged batches of one partition group. They stay in memory until the database has confirmed their
    purge. Methods raise :class:`db.errors.DatabaseError`; the batches then wait for :meth:`purge_all`.
    """

    def __init__(self, sink: Sink, outbox: Outbox, holds: Holds, metrics: RelayMetrics) -> None:
        self._sink = sink
        self._outbox = outbox
        self._holds = holds
        self._metrics = metrics
        self._batches: dict[int, Acknowledged] = {}
        self._waiting: list[Acknowledged] = []
        self._writing: asyncio.Task[Batch] | None = None

    def forget(self) -> None:
        """Forget all batches: another term settles their manifests, or their ids belong to other events."""
        self._batches.clear()
        self._waiting.clear()

    async def purge(self, done: Acknowledged) -> None:
        """Delete acknowledged records and the batch's manifest now."""
        batch, records = done.batch, done.records
        if not records and batch.number is None:
            return
        await batch.written()
        self._batches[id(batch)] = done
        try:
            if done.held:
                await self._holds.purge(records)
            if batch.number is not None or not (done.held or self._sink.features.purges):
                await self._outbox.purge(batch, records)
        except DatabaseError:
            self._metrics.purge_failed(self._sink.name, batch.term.group)
            raise
        self._batches.pop(id(batch), None)

    async def purge_all(self) -> None:
        """Purge all that is left of an earlier life of the sink."""
        self._waiting.clear()
        self._writing = None
        for left in list(self._batches.values()):
            await self.purge(left)

    async def purge_soon(self, done: Acknowledged) -> None:
        """Wait until the next manifest has purged a whole batch. Purge it alone where none comes."""
        self._batches[id(done.batch)] = done
        self._waiting.append(done)
        try:
            async with asyncio.timeout(_NEXT_MANIFEST_SECONDS):
                await done.is_purged.wait()
        except TimeoutError:
            if done in self._waiting:
                self._waiting.remove(done)
                await self.purge(done)
            else:
                await done.is_purged.wait()  # by a statement that has begun

    async def begin_manifest(self, term: Term, records: Sequence[Record], tasks: TaskGroup) -> Batch:
        """Number a batch and begin to store its contents, as one of ``tasks``. Its number follows from the manifest
        before it, which is stored by now. Wait for the first manifest of a life of the sink.

        Raises the error of a manifest that could not be stored.
        """
        if self._writing is not None:
            await self._writing
        number = self._outbox.next_number
        self._writing = tasks.create_task(self.write_manifest(term, records), name=f"{self._sink.name} manifest")
        return await self._writing if number is None else Batch(term, records, number, writing=self._writing)

    async def write_manifest(self, term: Term, records: Sequence[Record]) -> Batch:
        """Number a batch and store its contents; purge the waiting batches in the same statement.

        Raises :class:`relay.election.port.LeadershipLost` when the term is over.
        """
        before, self._waiting = self._waiting, []
        try:
            batch = await self._outbox.write_manifest(term, records, [done.batch for done in before])
        except HeldBack:
            raise  # the statement has purged them
        except DatabaseError:
            if before:
                self._metrics.purge_failed(self._sink.name, term.group)
            raise
        for done in before:
            self._batches.pop(id(done.batch), None)
            done.is_purged.set()
        return batch
