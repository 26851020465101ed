"""Publish: concurrent requests share a commit, and each is answered only when its own rows are durable.

::

    publish(drafts) --> queue --> writer 1 --+      +--> stored, replayed, conflict: answered
         ^                        writer 2 --+ one  |
         |                                     statement = one transaction
         +---- again, up to 3 times <-- busy <------+
                      |
                      +--> one more transaction, that waits for the key's lock --> answered, or KeyBusy
                           with every other unit of that key

A *unit* is one request's drafts; it is stored whole or not at all. A shared commit takes key locks only by try-lock, so
that a foreign transaction that holds a key delays that key alone. Our writers never hold units of one key at
once. After a certain rollback the batch is halved until the unit that caused it is alone. After an unknown COMMIT the
outcome of its units is unknown, and publishers repeat with their Idempotency-Key.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Sequence

from db.errors import Busy, HeldBack, OutcomeUnknown, Refused, Unavailable
from db.pool import Database, Row, Session
from db.statements import column
from event.event import Draft
from hub.direct import DirectCommit, DirectPath
from hub.options import PublishOptions
from hub.owed import ANYTHING, Owed, owed_by
from hub.publish_error import IdempotencyConflict, IdempotencyInFlight, KeyBusy, Overloaded, PublishRefused
from hub.stripes import StripesInUse, stripes_of
from hub.unit import Accepted, Unit
from runtime.pause import pause
from runtime.trouble import Trouble

__all__ = [
    "Accepted",
    "IdempotencyConflict",
    "IdempotencyInFlight",
    "KeyBusy",
    "Overloaded",
    "PublishOptions",
    "PublishRefused",
    "Publisher",
    "store_event",
]

_PASSED_OVER_MAX = 4
"""How often a unit is passed over because a key of it is in a commit. After that, no later unit passes it."""

_IN_FLIGHT_PAUSE_SECONDS = 0.02
"""The pause before a unit is tried again whose idempotency key is in an open transaction."""

_UNIQUE_VIOLATION = "23505"
"""``publish_batch`` raises it when a part of a unit conflicts. From an index it is a failure of the server."""


class Publisher:
    """The group commit of one process. Run :meth:`run` beside it; ``on_commit`` is called after each commit.

    Before it, ``on_stored`` gets each event that the commit has made, not those that it found by their idempotency key.
    ``stripes`` are those in a commit; a writer beside this one uses them through it, and calls :meth:`tell_stored`.
    By ``direct`` events may go to this process's worker; a commit that writes no outbox row does not wake the relays.
    """

    name = "publisher"

    def __init__(
        self, database: Database, on_commit: Callable[[Owed], None], options: PublishOptions | None = None,
        on_stored: Callable[[Draft, Accepted], object] = lambda _draft, _accepted: None,
        direct: DirectPath | None = None,
    ) -> None:  # fmt: skip
        self._database = database
        self._direct = direct
        self._on_commit = on_commit
        self._on_stored = on_stored
        self._options = options or PublishOptions()
        self._queue: deque[Unit] = deque()
        self._unanswered: dict[Unit, float] = {}
        self._expiry: asyncio.TimerHandle | None = None
        self._idle: list[asyncio.Event] = []
        self._is_called = False
        self._stopping = False
        self._keys_in_commit: set[tuple[str, str]] = set()
        self.stripes = StripesInUse(self._call)
        self._in_flight: set[Unit] = set()
        self._held: dict[frozenset[int], deque[Unit]] = {}
        self._held_units = 0
        self._key_waiters = asyncio.Semaphore(self._options.key_waiters)
        self.orders_across_topics = False
        self._trouble = Trouble("publishing_fails", "publishing_goes_on")

    def order_across_topics(self, across: bool) -> None:
        """Set the order scope of the layout: per key across topics, or per (topic, key)."""
        self.orders_across_topics = across

    async def publish(
        self, drafts: Sequence[Draft], fingerprint: bytes | Sequence[bytes | None] | None = None,
        published_by: str | None = None,
    ) -> list[Accepted]:  # fmt: skip
        """Store one unit and return when it is durable, one :class:`Accepted` per draft, in order.

        ``fingerprint`` is the digest of the whole request when its publisher chose the idempotency keys: the same key
        with another fingerprint is a conflict. A sequence has one for each draft. None means that a key is the event's
        identity (CloudEvents: source and id), and the fingerprint is the event's. Keys count for their topic. A unit
        conflicts whole or not at all. ``published_by`` is the id of the publisher's API key.

        Raises an error of :mod:`hub.publish_error`, ``db.errors.Unavailable`` (nothing stored) or
        ``db.errors.OutcomeUnknown`` (repeat with the same key).
        """
        waiting = len(self._queue) + self._held_units + len(self._in_flight)
        if waiting >= self._options.waiting_units_max or self._stopping:
            raise Overloaded
        of_each = [fingerprint] * len(drafts) if fingerprint is None or isinstance(fingerprint, bytes) else fingerprint
        try:
            stripes = stripes_of(drafts, across_topics=self.orders_across_topics)
            unit = Unit(drafts, stripes, of_each, asyncio.get_running_loop().create_future(), published_by)
        except UnicodeEncodeError:
            raise PublishRefused("a key is not Unicode text") from None
        self._queue.append(unit)
        self._call()
        self._await_answer(unit)
        try:
            return await unit.answer
        finally:
            del self._unanswered[unit]

    def _await_answer(self, unit: Unit) -> None:
        self._unanswered[unit] = asyncio.get_running_loop().time() + self._options.answer_seconds
        if self._expiry is None:
            self._expire_later()

    def _expire_later(self) -> None:
        self._expiry = asyncio.get_running_loop().call_later(self._options.answer_seconds / 20, self._expire)

    def _expire(self) -> None:
        """Fail the units that waited too long. One timer serves all units: a timer for each would cost every
        publish.
        """
        self._expiry = None
        now = asyncio.get_running_loop().time()
        for unit, until in self._unanswered.items():
            if until > now:  # they are in the order of their arrival
                break
            # A unit with an answer is never sent, so an unsent one has stored nothing.
            kind = OutcomeUnknown if unit.sent else Unavailable
            unit.fail(kind("the database does not answer"))
        if self._unanswered:
            self._expire_later()

    def stop(self) -> None:
        """Soft stop: accept no more, finish the waiting units."""
        self._stopping = True
        for unit in self._in_flight:
            unit.fail(IdempotencyInFlight())
        for idle in self._idle:
            idle.set()

    async def run(self) -> None:
        """Commit until stopped and the queue is empty."""
        async with asyncio.TaskGroup() as tasks:
            for number in range(self._options.writers):
                tasks.create_task(self._write(tasks), name=f"publish writer {number}")

    async def _write(self, tasks: asyncio.TaskGroup) -> None:
        while not (self._stopping and not self._queue):
            units = self._take()
            if not units:
                if not self._stopping or self._queue:
                    await self._wait_for_work()
                continue
            self._call()
            keys = set().union(*(unit.idempotency_keys for unit in units))
            stripes = set().union(*(unit.stripes for unit in units))
            self._keys_in_commit |= keys
            self.stripes.take(stripes)
            try:
                busy = await self._commit(units, wait=False)
            finally:
                self._keys_in_commit -= keys
                self.stripes.release(stripes)
            for unit in busy:
                self._again(unit, tasks)

    def _call(self) -> None:
        """Call one writer that waits, if there is work and no other one that was called has yet to look at it."""
        if self._queue and self._idle and not self._is_called:
            self._is_called = True
            self._idle.pop().set()

    async def _wait_for_work(self) -> None:
        called = asyncio.Event()
        self._idle.append(called)
        try:
            # Units whose key is in a commit stay in the queue: look at them again soon.
            await pause(called, 0.01 if self._queue else None)
        finally:
            if called in self._idle:
                self._idle.remove(called)

    def _take(self) -> list[Unit]:
        """Return the next commit's units, without those of a key that is being committed."""
        self._is_called = False
        most = self._options.commit_drafts_max
        units: list[Unit] = []
        set_aside: list[Unit] = []
        keys = set(self._keys_in_commit)
        drafts = size = 0
        while self._queue and drafts < most and size < self._options.commit_bytes_max and len(set_aside) < most:
            unit = self._queue.popleft()
            if unit.answer.done():  # its publisher has disconnected, or it has failed already
                continue
            if unit.stripes in self._held:
                self._hold(unit)
            elif unit.idempotency_keys & keys or unit.stripes & self.stripes.in_commit:
                set_aside.append(unit)
                unit.passed_over += 1
                if unit.passed_over > _PASSED_OVER_MAX:  # otherwise a unit of many keys might wait for ever
                    break
            else:
                keys |= unit.idempotency_keys
                unit.sent = True
                units.append(unit)
                drafts += len(unit.drafts)
                size += unit.bytes
        self._queue.extendleft(reversed(set_aside))
        self.stripes.want(frozenset().union(*(unit.stripes for unit in set_aside)))
        return units

    async def _commit(self, units: Sequence[Unit], *, wait: bool) -> list[Unit]:
        """Store units in one transaction and answer them; return those whose key was busy."""
        direct = None if wait else self._begin_direct(units)
        try:
            mark = await self._database.fence_mark()
            rows = await (self._store_waiting(units) if wait else _store(self._database, units, direct, wait=False))
            await self._database.pass_fence(mark)
        except (Unavailable, OutcomeUnknown) as error:
            self._trouble.tell(error)
            for unit in units:
                unit.fail(OutcomeUnknown(str(error)) if isinstance(error, HeldBack) else error)
            return []
        except (Refused, Busy) as error:
            if len(units) > 1 and not (wait and isinstance(error, Busy)):
                middle = len(units) // 2
                first = await self._commit(units[:middle], wait=wait)
                return first + await self._commit(units[middle:], wait=wait)
            for unit in units:
                unit.fail(_failure(error))
            return []
        self._trouble.over()
        busy = self._answer(units, rows)
        if direct is not None:
            direct.take(rows)
        if not self._queue:  # no commit waits for this writer, so its publishers go first
            await asyncio.sleep(0)
        self._tell(units, rows, is_direct=direct is not None)
        return busy

    def _tell(self, units: Sequence[Unit], rows: Sequence[Row], *, is_direct: bool) -> None:
        """Tell which relays have new outbox rows, if any."""
        drafts = [draft for unit in units for draft in unit.drafts]
        owed = owed_by(drafts, rows, is_direct=is_direct, across_topics=self.orders_across_topics)
        if owed.others:
            self._on_commit(owed)

    def tell_stored(self, drafts: Sequence[Draft], accepted: Sequence[Accepted]) -> None:
        """Tell of events that another writer of this process has committed."""
        for draft, one in zip(drafts, accepted, strict=True):
            self._on_stored(draft, one)
        if accepted:
            self._on_commit(ANYTHING)

    def _begin_direct(self, units: Sequence[Unit]) -> DirectCommit | None:
        return None if self._direct is None else self._direct.begin(sum(len(unit.drafts) for unit in units))

    def _answer(self, units: Sequence[Unit], rows: Sequence[Row]) -> list[Unit]:
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
                unit.in_flight = any(row["in_flight"] for row in mine)
                busy.append(unit)
            elif "conflict" in outcomes:
                unit.fail(IdempotencyConflict())
            else:
                self._answer_stored(unit, mine)
        return busy

    def _answer_stored(self, unit: Unit, rows: Sequence[Row]) -> None:
        accepted = [_accepted(draft, row) for draft, row in zip(unit.drafts, rows, strict=True)]
        for draft, one in zip(unit.drafts, accepted, strict=True):
            if not one.replayed:
                self._on_stored(draft, one)
        if not unit.answer.done():
            unit.answer.set_result(accepted)

    def _again(self, unit: Unit, tasks: asyncio.TaskGroup) -> None:
        unit.sent = False
        if unit.in_flight:
            self._wait_for_first(unit)
            return
        unit.retries += 1
        if unit.retries <= self._options.busy_retries:
            self._queue.append(unit)
            self._call()
            return
        if unit.stripes not in self._held:
            self._held[unit.stripes] = deque()
            tasks.create_task(self._wait_for_keys(unit.stripes, tasks), name="publish waiting for a key")
        self._hold(unit)

    def _wait_for_first(self, unit: Unit) -> None:
        """Try the unit again after a pause; fail it if its idempotency key stays in an open transaction."""
        loop = asyncio.get_running_loop()
        if unit.in_flight_until is None:
            unit.in_flight_until = loop.time() + self._options.key_lock_seconds
        if self._stopping or loop.time() >= unit.in_flight_until:
            unit.fail(IdempotencyInFlight())
            return
        self._in_flight.add(unit)
        loop.call_later(_IN_FLIGHT_PAUSE_SECONDS, self._queue_again, unit)

    def _queue_again(self, unit: Unit) -> None:
        self._in_flight.discard(unit)
        unit.in_flight = False
        self._queue.append(unit)
        self._call()

    def _hold(self, unit: Unit) -> None:
        self._held[unit.stripes].append(unit)
        self._held_units += 1

    async def _wait_for_keys(self, stripes: frozenset[int], tasks: asyncio.TaskGroup) -> None:
        """Wait for these stripes in one transaction, for all units that need them."""
        held = self._held[stripes]
        try:
            while held:
                if units := self._take_held(held):
                    for unit in await self._commit(units, wait=True):
                        self._again(unit, tasks)
        finally:
            del self._held[stripes]

    def _take_held(self, held: deque[Unit]) -> list[Unit]:
        units: list[Unit] = []
        drafts = size = 0
        while held and drafts < self._options.commit_drafts_max and size < self._options.commit_bytes_max:
            unit = held.popleft()
            self._held_units -= 1
            if not unit.answer.done():
                unit.sent = True
                units.append(unit)
                drafts += len(unit.drafts)
                size += unit.bytes
        return units

    async def _store_waiting(self, units: Sequence[Unit]) -> Sequence[Row]:
        seconds = self._options.key_lock_seconds
        try:
            async with asyncio.timeout(seconds):
                await self._key_waiters.acquire()
        except TimeoutError:
            raise Busy("too many publishes wait for other keys") from None
        try:
            async with self._database.transaction() as transaction:
                await transaction.fetchval("event.set_lock_timeout", f"{int(seconds * 1000)}ms")
                return await _store(transaction, units, wait=True)
        finally:
            self._key_waiters.release()


def _failure(error: Refused | Busy) -> Exception:
    if isinstance(error, Busy):
        return KeyBusy()
    if error.sqlstate == _UNIQUE_VIOLATION:
        return IdempotencyConflict()
    if error.is_ours:
        return PublishRefused(error.message)
    return PublishRefused(f"the event holds a value that cannot be stored (SQLSTATE {error.sqlstate})")


async def _store(
    session: Session, units: Sequence[Unit], direct: DirectCommit | None = None, *, wait: bool
) -> Sequence[Row]:
    numbers: list[int] = []
    drafts: list[Draft] = []
    fingerprints: list[bytes | None] = []
    publishers: list[str | None] = []
    for number, unit in enumerate(units):
        numbers += [number] * len(unit.drafts)
        drafts += unit.drafts
        fingerprints += unit.fingerprints
        publishers += [unit.published_by] * len(unit.drafts)
    return await session.fetch(
        "event.publish_batch" if direct is None else "direct.publish",
        "default",
        numbers,
        [draft.topic for draft in drafts],
        [draft.key for draft in drafts],
        [draft.content_type for draft in drafts],
        column([_headers(draft) for draft in drafts]),
        [draft.payload for draft in drafts],
        [draft.idempotency_key for draft in drafts],
        column(fingerprints),
        wait,
        column(publishers),
        *(() if direct is None else direct.terms),
    )


async def store_event(session: Session, tenant: str, draft: Draft) -> int:
    """Store one event in the caller's transaction, which waits for the locks of its key; return the event's number."""
    rows = await session.fetch(
        "event.publish_batch", tenant, [0], [draft.topic], [draft.key], [draft.content_type], [_headers(draft)],
        [draft.payload], [None], [None], True, None,
    )  # fmt: skip
    number: int = rows[0]["event_id"]
    return number


def _headers(draft: Draft) -> str | None:
    return json.dumps(dict(draft.headers)) if draft.headers else None


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
