"""Retention: remove events whose time is over, unless something still needs them.

::

    dead letters too old, and records that sources refused --> deleted
    whole partitions that are old and not needed --> detached beside running transactions, then dropped
    other old events --> deleted in batches, where a partition fills slowly, or an event of it is needed
    topics with a time of their own --> their events, sooner or later than the others
    audit entries, ended replays, dead API keys, ended subscriptions without references --> deleted
    topics, queues and services that their first use made, and that nobody uses --> deleted
    rows of the pipeline in the database --> deleted
    notes of erased events that are gone --> deleted

Needed events are never removed. These are events still owed to a broker or a subscription, events of kept dead letters,
and each topic's latest event. The ledger needs events that it has not folded, and a topic may keep its events for
longer. Any number of processes may run it: each batch is one statement.

Times are whole days, so each process walks over the events once a day; the rounds between continue the walk. Kept
events are therefore read once a day, and events that are not needed any more are deleted on the next day.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from typing import ClassVar

import structlog

from db.errors import Busy, DatabaseError, ServerTrouble
from db.pool import Database
from db.statements import for_partition
from runtime.periodic import Periodic

__all__ = ["Removed", "Retention", "RetentionOptions"]

_log = structlog.get_logger(__name__)
_PARTITION_IDS = 10_000_000  # as hookwire.ensure_partitions makes them
_LAST = 2**63 - 1  # the largest id
_HISTORY = ("history.purge_audit", "history.purge_replays", "history.purge_keys", "history.purge_subscriptions")
_NAMES = ("topic.forget_unused", "queue.forget_unused", "service.forget_unused")
_GOLD = ("gold.purge_metrics", "gold.purge_backlog", "gold.purge_slo", "gold.purge_batches")


def _utc_today() -> date:
    return datetime.now(UTC).date()


@dataclass(frozen=True, slots=True)
class RetentionOptions:
    """Options of retention. ``event_days``, ``dead_letter_days``, ``history_days``, ``gold_days``, ``name_days``:
    retention of each; 0: for ever.
    """

    event_days: int
    dead_letter_days: int
    history_days: int
    gold_days: int
    name_days: int = 0
    interval_seconds: float = 600.0
    batch: int = 5_000


@dataclass(frozen=True, slots=True)
class Removed:
    """The numbers that one round has removed."""

    events: int = 0
    dead_letters: int = 0
    partitions: int = 0
    history: int = 0
    gold: int = 0
    names: int = 0
    erased: int = 0


class Retention(Periodic):
    """Run every ``interval_seconds``. ``today`` returns the current date."""

    name = "retention"
    expected: ClassVar = (DatabaseError,)
    failure = "retention_failed"
    begins_later = True

    def __init__(self, database: Database, options: RetentionOptions, today: Callable[[], date] = _utc_today) -> None:
        super().__init__(options.interval_seconds)
        self._database = database
        self._options = options
        self._today = today
        # The day of each walk, and its last row.
        self._walked: dict[tuple[str, int | str | None], tuple[date, int]] = {}
        self._partitions_seen: tuple[date, int] | None = None  # the day, and the id up to which they were seen

    async def once(self) -> Removed:
        """Run one round. The other parts run after a failed part; then raise the first failure."""
        options = self._options
        parts = (
            (bool(options.dead_letter_days), self._purge_dead_letters),
            (bool(options.event_days), self._purge_events),
            (True, self._purge_topics),
            (bool(options.history_days), self._purge_history),
            (bool(options.gold_days), self._purge_gold),
            (bool(options.name_days), self._forget_names),
            (True, self._forget_erased),
        )
        counts: Counter[str] = Counter()
        failures: list[DatabaseError] = []
        for is_wanted, part in parts:
            if not is_wanted:
                continue
            try:
                counts.update(await part())
            except DatabaseError as error:
                failures.append(error)
        removed = Removed(**counts)
        if removed != Removed():
            _log.info("retention", **asdict(removed))
        if failures:
            raise failures[0]
        return removed

    async def _purge_events(self) -> dict[str, int]:
        bounds = await self._database.fetchrow("retention.bounds", self._options.event_days, _PARTITION_IDS)
        assert bounds is not None, "the ledger has its cursor"
        partitions, upto = await self._look_at_partitions(bounds["through_id"])
        events = await self._walk("retention.purge_events", max(bounds["delete_id"], upto), None)
        return {"events": events, "partitions": partitions}

    async def _purge_topics(self) -> dict[str, int]:
        """Purge topics with a retention of their own. The walk over all events leaves out topics that keep events
        longer.
        """
        removed = 0
        for topic in await self._database.fetch("retention.topics"):
            bounds = await self._database.fetchrow("retention.bounds", topic["retention_days"], _PARTITION_IDS)
            assert bounds is not None, "the ledger has its cursor"
            removed += await self._walk("retention.purge_events", bounds["through_id"], topic["name"])
        return {"events": removed}

    async def _purge_dead_letters(self) -> dict[str, int]:
        days = self._options.dead_letter_days
        bounds = await self._database.fetchrow("retention.bounds", days, _PARTITION_IDS)
        assert bounds is not None, "the ledger has its cursor"
        removed = 0
        for statement in ("retention.purge_dead_letters", "retention.purge_relay_dead_letters"):
            removed += await self._walk(statement, bounds["through_id"], days)
        removed += await self._purge_all("source.purge_refusals", days)
        return {"dead_letters": removed}

    async def _purge_history(self) -> dict[str, int]:
        """Purge audit entries, keys and ended subscriptions, by their own time and not by that of events."""
        removed = 0
        for statement in _HISTORY:
            removed += await self._walk(statement, _LAST, self._options.history_days)
        return {"history": removed}

    async def _purge_gold(self) -> dict[str, int]:
        """Purge the pipeline's rows, oldest first: a statement reads only rows that it removes."""
        return {"gold": sum([await self._purge_all(statement, self._options.gold_days) for statement in _GOLD])}

    async def _forget_names(self) -> dict[str, int]:
        # A process notes the use of a name once a day, so a name in use may be noted as used yesterday.
        days = max(self._options.name_days, 2)
        return {"names": sum([await self._purge_all(statement, days) for statement in _NAMES])}

    async def _forget_erased(self) -> dict[str, int]:
        """Delete the notes of erased events that are gone themselves."""
        return {"erased": await self._walk("erasure.forget", _LAST, None)}

    async def _purge_all(self, statement: str, days: float) -> int:
        """Purge batch after batch until nothing is left; return the number of deleted rows. Make batches smaller where
        one takes too long.
        """
        removed, batch = 0, self._options.batch
        while not self._is_stopping:
            try:
                purged = await self._database.fetchval(statement, days, batch)
            except Busy as busy:
                batch = _smaller(batch, busy)
                continue
            removed += purged
            if purged < batch:
                break
        return removed

    async def _walk(self, statement: str, upto: int, more: int | str | None) -> int:
        """Walk on from the last row of today's walk, batch after batch; return the number of deleted rows. An event has
        an attempt for each of its subscriptions, so a batch may take longer than a statement may. Then it is made
        smaller.
        """
        today, removed, batch = self._today(), 0, self._options.batch
        day, last = self._walked.get((statement, more), (today, 0))
        last = last if day == today else 0
        while not self._is_stopping and last < upto:
            try:
                row = await self._database.fetchrow(statement, last, upto, batch, more)
            except Busy as busy:
                batch = _smaller(batch, busy)
                continue
            assert row is not None, "aggregates give a row"
            removed += row["purged"]
            last = upto if row["examined"] < batch else row["last_id"]
            self._walked[statement, more] = (today, last)
        return removed

    async def _look_at_partitions(self, through_id: int) -> tuple[int, int]:
        """Drop partitions as :meth:`_drop_partitions`, unless that was done today up to this id."""
        seen = (self._today(), through_id)
        if self._partitions_seen == seen:
            return 0, 0
        dropped, needed_upto, waiting = await self._drop_partitions(through_id)
        self._partitions_seen = None if waiting or self._is_stopping else seen
        return dropped, needed_upto

    async def _drop_partitions(self, through_id: int) -> tuple[int, int, int]:
        """Drop whole partitions that are old and not needed. Return their number, the id up to which some are needed,
        and the number that could not be detached yet.
        """
        dropped, needed_upto, waiting = 0, 0, 0
        for row in await self._database.fetch("retention.partitions", through_id):
            if self._is_stopping:
                break
            if not row["is_free"]:
                needed_upto = max(needed_upto, row["high"] - 1)
            elif await self._detach(row["parent"], row["name"], pending=row["pending"]):
                dropped += 1
            else:
                waiting += 1
        for row in await self._database.fetch("retention.orphans"):
            partition = self._database.with_statements(for_partition(row["name"]))
            await partition.execute("partition.drop")
        return dropped, needed_upto, waiting

    async def _detach(self, parent: str, name: str, *, pending: bool) -> bool:
        partition = self._database.with_statements(for_partition(name, parent))
        try:
            await partition.execute("partition.finish_detach" if pending else "partition.detach")
        except (
            ServerTrouble,
            Busy,
        ) as error:  # another partition is being detached, or the detach waits for a long transaction
            _log.info("partition_waits", partition=name, error=str(error))
            return False
        return True


def _smaller(batch: int, busy: Busy) -> int:
    """Return the size to try next, where a batch took too long; raises ``busy`` for one that cannot be made smaller."""
    if batch == 1:
        raise busy
    return max(batch // 8, 1)
