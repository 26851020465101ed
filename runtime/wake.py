"""Wake-up: what was committed here is relayed at once; everything else is found by polling (RO-09).

Ringing is free and may happen any number of times; the waiter sees at least one ring that came after it last
looked. The pause between polls grows while nothing happens, because an idle hub should be idle: where somebody else
keeps watch and rings when there is something to do, polling all but ends.
"""

from __future__ import annotations

import asyncio

__all__ = ["Wake"]

_WATCHED_SECONDS = 300.0


class Wake:
    """One waiter's bell. ``poll_seconds_min`` to ``poll_seconds_max`` bound the pause without a ring; where it
    ``is_watched``, the pause after the longest one is minutes."""

    def __init__(
        self, poll_seconds_min: float = 0.05, poll_seconds_max: float = 1.0, *, is_watched: bool = False
    ) -> None:
        self._rung = asyncio.Event()
        self._minimum = poll_seconds_min
        self._maximum = poll_seconds_max
        self._idle = _WATCHED_SECONDS if is_watched else poll_seconds_max
        self._pause = poll_seconds_min

    def ring(self) -> None:
        """There is something to do."""
        self._rung.set()

    def busy(self) -> None:
        """Something was found: poll fast again."""
        self._pause = self._minimum

    async def wait(self) -> None:
        """Return at a ring, or after the poll pause; the pause doubles each time nothing rang."""
        try:
            async with asyncio.timeout(self._pause):
                await self._rung.wait()
        except TimeoutError:
            self._pause = self._pause * 2 if self._pause * 2 <= self._maximum else self._idle
        self._rung.clear()
