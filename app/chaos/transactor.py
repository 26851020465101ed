"""A transactor: publish one key in overlapping SQL transactions, like a foreign service (F51).

::

    time  ----------------------------------------------------------->
    n     BEGIN publish ......... held ......... COMMIT
    n+1         BEGIN publish ~~~ waits for the key ~~~ ... held ... COMMIT
    n+2                                                   BEGIN publish ~~~ ...

The next transaction asks for the key only after its predecessor has published, and long before that ends. With the
key's lock (RO-02) they commit in the order of n. Without it n+1 commits first, and a reader in between sees the higher
id before the lower. Some transactions are rolled back instead: theirs must be nowhere (I2).

Outcomes of a failure: a statement that failed before COMMIT left is a certain "fail". A COMMIT without an answer stays
"unknown", because plain SQL has no Idempotency-Key to repeat it with.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable

from app.chaos.history import Attempt, HistoryWriter, PublishOutcome
from app.chaos.mark import Mark
from db.errors import DatabaseError
from db.pool import Database

__all__ = ["Transactor"]

_HELD_SECONDS = (0.05, 0.35)
_ROLLED_BACK_SHARE = 0.15
_UNDER_WAY_MAX = 3


class _RolledBack(Exception):
    """Ends a transaction on purpose."""


class Transactor:
    """The only publisher of its key; runs until stopped. ``on_ok`` is called after each commit."""

    def __init__(
        self, database: Database, history: HistoryWriter, run: str, topic: str, key: str, chance: random.Random,
        on_ok: Callable[[], None],
    ) -> None:  # fmt: skip
        self._database = database
        self._history = history
        self._run, self._topic, self._key = run, topic, key
        self._chance = chance
        self._on_ok = on_ok
        self._stopping = False

    def stop(self) -> None:
        """Begin no further transaction."""
        self._stopping = True

    async def run(self) -> None:
        """Publish until stopped and all that was begun has ended."""
        n = 0
        under_way = asyncio.Semaphore(_UNDER_WAY_MAX)
        async with asyncio.TaskGroup() as transactions:
            while not self._stopping:
                n += 1
                await under_way.acquire()
                holding = asyncio.Event()
                task = transactions.create_task(self._transact(Mark(self._run, self._topic, self._key, n), holding))
                task.add_done_callback(lambda _: under_way.release())
                await holding.wait()

    async def _transact(self, mark: Mark, holding: asyncio.Event) -> None:
        """Run one transaction; ``holding`` is set when it holds the key, or never will."""
        began_at = time.time()
        held_seconds = self._chance.uniform(*_HELD_SECONDS)
        rolled_back = self._chance.random() < _ROLLED_BACK_SHARE
        self._history.record(Attempt(mark, PublishOutcome.UNKNOWN, None, 1, began_at))
        outcome, event_id = PublishOutcome.FAIL, None
        try:
            async with self._database.transaction() as transaction:
                event_id = await transaction.fetchval(
                    "witness.publish", mark.topic, mark.to_payload(began_at), mark.key
                )
                holding.set()
                await asyncio.sleep(held_seconds)
                if rolled_back:
                    raise _RolledBack
                outcome = PublishOutcome.UNKNOWN  # from here on COMMIT may be on its way
            outcome = PublishOutcome.OK
            self._on_ok()
        except _RolledBack:
            pass
        except DatabaseError:
            await asyncio.sleep(0.1)
        finally:
            self._history.record(
                Attempt(mark, outcome, event_id if outcome is PublishOutcome.OK else None, 1, began_at)
            )
            holding.set()
