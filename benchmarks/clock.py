"""Clock: measures the rate at which events are acknowledged, for any relay."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field


@dataclass
class Clock:
    """A clock that starts at the first acknowledgement; ``done`` is set when ``events`` are acknowledged."""

    events: int
    done: asyncio.Event = field(default_factory=asyncio.Event)
    count: int = 0
    counted_before: int = 0
    began: float = 0.0

    def acknowledged(self, records: int) -> None:
        """Count confirmed events; the first call starts the time."""
        self.count += records
        if not self.began:
            self.began, self.counted_before = time.perf_counter(), self.count
        if self.count >= self.events:
            self.done.set()

    def rate(self) -> float:
        """Return events per second until now.

        Exit if the first acknowledgement was of all events: it started the time, so no rate can be measured. A time
        from the start would include connections and the election.
        """
        if self.counted_before >= self.events:
            raise SystemExit(
                f"all {self.events:,} events were acknowledged at once, in one batch: there is no rate to measure; "
                "ask for several times as many (--events)"
            )
        return (self.events - self.counted_before) / (time.perf_counter() - self.began)
