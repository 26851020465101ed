"""A process that carries on a backfill, for a test that kills it: ``python -m tests.pipeline.backfill_process``.

Its range comes from no lake but from memory, so that the process needs no second JVM: so many events of four keys.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from datetime import UTC, datetime

from app.cli.pipeline.backfilling import command
from app.cli.pipeline.backfilling.lake_range import LakeRange
from app.settings.settings import Settings
from event.event import Event
from event.identity import Incarnation


class RangeInMemory(LakeRange):
    """The events 1 to ``count`` of an installation."""

    def __init__(self, count: int, incarnation: Incarnation) -> None:
        self._count = count
        self._incarnation = incarnation

    def events(self, above: int) -> Iterator[Event]:
        """Yield the events above this number."""
        for n in range(above + 1, self._count + 1):
            yield Event(
                n, self._incarnation, "orders", f"k{n % 4}", None, {}, b"%d" % n, datetime.now(UTC), n
            )  # fmt: skip


def main() -> None:
    """Take the run and send."""
    url, folder, run, count = sys.argv[1:]
    settings = Settings(database_url=url, data_dir=folder, log_level="error")
    command._range_of = lambda place, found: RangeInMemory(int(count), place.incarnation)
    asyncio.run(command.backfilled(settings, None, None, "--resume", int(run)))


if __name__ == "__main__":
    main()
