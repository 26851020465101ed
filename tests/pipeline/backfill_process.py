"""A process that carries on a backfill, for a test that kills it: ``python -m tests.pipeline.backfill_process``.

Its range comes from no lake but from memory, so that the process needs no second JVM: so many events of four keys.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from app.cli.pipeline.backfilling import command
from app.cli.pipeline.backfilling.lake_range import LakeRange
from app.settings.settings import Settings
from event.event import Event
from event.identity import Incarnation


class RangeInMemory(LakeRange):
    """Events of an installation by their numbers, on the topic ``orders``; ``erased``: those that the lake notes.

    ``keys``: how many keys they have; 0: they have none.
    """

    def __init__(
        self, there: Sequence[int], incarnation: Incarnation, keys: int = 4, erased: Sequence[int] = ()
    ) -> None:
        self._there_now = there
        self._erased_now = erased
        self._incarnation = incarnation
        self._keys = keys

    def events(self, above: int) -> Iterator[Event]:
        """Yield the events above this number."""
        for n in self._there_now:
            if n > above:
                key = f"k{n % self._keys}" if self._keys else None
                yield Event(n, self._incarnation, "orders", key, None, {}, b"%d" % n, datetime.now(UTC), n)

    def numbers(self) -> Iterator[int]:
        """Yield the numbers."""
        return iter(self._there_now)

    def erased(self) -> Iterator[int]:
        """Yield those that the lake notes as erased."""
        return iter(self._erased_now)


def main() -> None:
    """Take the run and send."""
    url, folder, run, count = sys.argv[1:]
    settings = Settings(database_url=url, data_dir=folder, log_level="error")
    command._range_of = lambda place, found: RangeInMemory(range(1, int(count) + 1), place.incarnation)
    asyncio.run(command.backfilled(settings, None, None, "--resume", int(run)))


if __name__ == "__main__":
    main()
