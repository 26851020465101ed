"""Publish: concurrent requests share a commit, and each is answered only when its own rows are durable.

::

    publish(drafts) --> queue --> writer 1 --+      +--> stored, replayed, conflict: answered
         ^                        writer 2 --+ one  |
         |                                     statement = one transaction
         +---- again, up to 3 times <-- busy <------+
                      |
                      +--> a transaction of its own, waiting for the key's lock --> answered, or KeyBusy

A *unit* is one request's drafts; it is stored whole or not at all. The rules behind the picture: a shared commit
takes key locks only by try-lock, so that a foreign transaction that sits on a key delays that key alone (RR-03);
a certain rollback is halved until the unit that caused it stands alone; an unknown COMMIT is an unknown for
every unit in it, and their publishers repeat with their Idempotency-Key (RR-12).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from db.errors import Busy, OutcomeUnknown, Refused, Unavailable
from db.pool import Database, Row, Session
from event.event import Draft

__all__ = [
    "Accepted",
    "IdempotencyConflict",
    "KeyBusy",
    "Overloaded",
    "PublishOptions",
    "PublishRefused",
    "Publisher",
]


class PublishRefused(Exception):
    """The database refused the unit's data; nothing of it was stored. The text is safe to show."""


class IdempotencyConflict(Exception):
    """An idempotency key was used before with other contents; nothing of the unit was stored."""


class KeyBusy(Exception):
    """Another transaction holds an ordering key of the unit for longer than the limit; nothing was stored."""


class Overloaded(Exception):
    """More units wait than the limit allows; nothing was stored."""


@dataclass(frozen=True, slots=True)
class PublishOptions:
    """Bounds of the group commit.

    A commit takes at most ``commit_drafts_max`` drafts and ``commit_bytes_max`` payload bytes; ``writers`` commits run
    at once. At most ``waiting_units_max`` units wait in memory. A unit whose key is held elsewhere waits
    ``key_lock_seconds`` in a transaction of its own; ``key_waiters`` of those run at once.
    """

    writers: int = 2
    commit_drafts_max: int = 512
    commit_bytes_max: int = 4 * 1024 * 1024
    waiting_units_max: int = 10_000
    key_lock_seconds: float = 2.0
    key_waiters: int = 3
    busy_retries: int = 3


@dataclass(frozen=True, slots=True)
class Accepted:
    """A stored event. ``sequence`` is None where its topic keeps no order; ``replayed`` tells a repeated key."""

    id: int
    topic: str
    key: str | None
    sequence: int | None
    accepted_at: datetime
    replayed: bool


class _Unit:
    __slots__ = ("answer", "bytes", "drafts", "fingerprint", "idempotency_keys", "retries")

    def __init__(
        self, drafts: Sequence[Draft], fingerprint: bytes | None, answer: asyncio.Future[list[Accepted]]
    ) -> None:
        self.drafts = drafts
        self.fingerprint = fingerprint
        self.answer = answer
        self.bytes = sum(len(draft.payload) for draft in drafts)
        self.idempotency_keys = {d.idempotency_key for d in drafts if d.idempotency_key is not None}
        self.retries = 0

    def fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


class Publisher:
    """The group commit of one process. Run :meth:`run` beside it; ``on_commit`` is called after each commit."""

    name = "publisher"

    def __init__(
        self, database: Database, on_commit: Callable[[], None], options: PublishOptions | None = None
    ) -> None:
        self._database = database
        self._on_commit = on_commit
        self._options = options or PublishOptions()
        self._queue: deque[_Unit] = deque()
        self._arrived = asyncio.Event()
        self._stopping = False
        self._keys_in_commit: set[str] = set()
        self._waiting_for_keys = asyncio.Semaphore(self._options.key_waiters)
        self._key_waiters_queued = 0

    async def publish(self, drafts: Sequence[Draft], fingerprint: bytes | None = None) -> list[Accepted]:
        """Store one unit and return when it is durable, one :class:`Accepted` per draft, in order.

        ``fingerprint`` is the digest of the whole request when its publisher chose the idempotency keys: the same key
        with another fingerprint is a conflict. None means that a key is the event's identity (CloudEvents: source
        and id), so that its repeat is the same event by definition. Either way a unit conflicts whole or not at all.

        Raises :class:`PublishRefused`, :class:`IdempotencyConflict`, :class:`KeyBusy`, :class:`Overloaded`,
        ``db.errors.Unavailable`` (nothing stored) and ``db.errors.OutcomeUnknown`` (repeat with the same key).
        """
        if len(self._queue) >= self._options.waiting_units_max or self._stopping:
            raise Overloaded
        unit = _Unit(drafts, fingerprint, asyncio.get_running_loop().create_future())
        self._queue.append(unit)
        self._arrived.set()
        return await unit.answer

    def stop(self) -> None:
        """Soft stop: take no more, finish what waits."""
        self._stopping = True
        self._arrived.set()

    async def run(self) -> None:
        """Commit until stopped and the queue is empty."""
        async with asyncio.TaskGroup() as tasks:
            for number in range(self._options.writers):
                tasks.create_task(self._write(tasks), name=f"publish writer {number}")

    async def _write(self, tasks: asyncio.TaskGroup) -> None:
        while not (self._stopping and not self._queue):
            units = self._take()
            if not units:
                self._arrived.clear()
                if not self._stopping or self._queue:
                    await self._wait_for_work()
                continue
            keys = set().union(*(unit.idempotency_keys for unit in units))
            self._keys_in_commit |= keys
            try:
                await self._commit(units, tasks)
            finally:
                self._keys_in_commit -= keys

    async def _wait_for_work(self) -> None:
        # The bound matters only for units that were set aside because their idempotency key is in a commit.
        try:
            async with asyncio.timeout(0.01 if self._queue else None):
                await self._arrived.wait()
        except TimeoutError:
            return

    def _take(self) -> list[_Unit]:
        """The next commit's units. One whose idempotency key is being committed waits for the next (RR-12)."""
        units: list[_Unit] = []
        set_aside: list[_Unit] = []
        keys = set(self._keys_in_commit)
        drafts = size = 0
        while self._queue and drafts < self._options.commit_drafts_max and size < self._options.commit_bytes_max:
            unit = self._queue.popleft()
            if unit.answer.done():  # its publisher has gone away before anything was written
                continue
            if unit.idempotency_keys & keys:
                set_aside.append(unit)
                continue
            keys |= unit.idempotency_keys
            units.append(unit)
            drafts += len(unit.drafts)
            size += unit.bytes
        self._queue.extendleft(reversed(set_aside))
        return units

    async def _commit(self, units: Sequence[_Unit], tasks: asyncio.TaskGroup) -> None:
        try:
            rows = await _store(self._database, units, wait=False)
        except (Unavailable, OutcomeUnknown) as error:
            for unit in units:
                unit.fail(error)
        except (Refused, Busy) as error:
            if len(units) > 1:
                middle = len(units) // 2
                await self._commit(units[:middle], tasks)
                await self._commit(units[middle:], tasks)
            else:
                units[0].fail(PublishRefused(error.message) if isinstance(error, Refused) else KeyBusy())
        else:
            busy = _answer(units, rows)
            self._on_commit()
            for unit in busy:
                self._again(unit, tasks)

    def _again(self, unit: _Unit, tasks: asyncio.TaskGroup) -> None:
        unit.retries += 1
        if unit.retries <= self._options.busy_retries:
            self._queue.append(unit)
            self._arrived.set()
        elif self._key_waiters_queued >= 32 * self._options.key_waiters:
            unit.fail(KeyBusy())
        else:
            self._key_waiters_queued += 1
            tasks.create_task(self._wait_for_keys(unit), name="publish waiting for a key")

    async def _wait_for_keys(self, unit: _Unit) -> None:
        """A transaction of its own that waits for the stripes, so that only this unit is delayed (RR-03)."""
        try:
            async with self._waiting_for_keys, self._database.transaction() as transaction:
                await transaction.fetchval("event.set_lock_timeout", f"{int(self._options.key_lock_seconds * 1000)}ms")
                rows = await _store(transaction, [unit], wait=True)
        except Refused as error:
            unit.fail(PublishRefused(error.message))
        except Busy:
            unit.fail(KeyBusy())
        except (Unavailable, OutcomeUnknown) as error:
            unit.fail(error)
        else:
            _answer([unit], rows)
            self._on_commit()
        finally:
            self._key_waiters_queued -= 1


async def _store(session: Session, units: Sequence[_Unit], *, wait: bool) -> Sequence[Row]:
    numbers, drafts, fingerprints = [], [], []
    for number, unit in enumerate(units):
        for draft in unit.drafts:
            numbers.append(number)
            drafts.append(draft)
            fingerprints.append(_fingerprint(unit, draft))
    return await session.fetch(
        "event.publish_batch",
        "default",
        numbers,
        [draft.topic for draft in drafts],
        [draft.key for draft in drafts],
        [draft.content_type for draft in drafts],
        [json.dumps(dict(draft.headers)) if draft.headers else None for draft in drafts],
        [draft.payload for draft in drafts],
        [draft.idempotency_key for draft in drafts],
        fingerprints,
        wait,
    )


def _fingerprint(unit: _Unit, draft: Draft) -> bytes | None:
    if draft.idempotency_key is None:
        return None
    return unit.fingerprint or hashlib.sha256(draft.idempotency_key.encode()).digest()


def _answer(units: Sequence[_Unit], rows: Sequence[Row]) -> list[_Unit]:
    """Answer every unit that was decided; return those whose key was busy."""
    by_item = {row["item"]: row for row in rows}
    busy = []
    item = 0
    for unit in units:
        mine = []
        for _ in unit.drafts:
            item += 1
            mine.append(by_item[item])
        outcomes = {row["outcome"] for row in mine}
        if "busy" in outcomes:
            busy.append(unit)
        elif "conflict" in outcomes:
            unit.fail(IdempotencyConflict())
        elif not unit.answer.done():
            unit.answer.set_result([_accepted(draft, row) for draft, row in zip(unit.drafts, mine, strict=True)])
    return busy


def _accepted(draft: Draft, row: Row) -> Accepted:
    identity = row["event_id"]
    return Accepted(
        id=identity,
        topic=draft.topic,
        key=draft.key,
        sequence=identity if row["ordered"] else None,
        accepted_at=row["accepted_at"],
        replayed=row["outcome"] == "replayed",
    )
