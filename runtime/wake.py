"""Wake-up: a local commit wakes its relay at once; polling finds everything else.

A notification is cheap and may be repeated; the waiter sees at least one that came after its last wait. The pause
between polls grows while nothing happens. Where another service polls and notifies, this polling almost ends.
"""

from __future__ import annotations

import asyncio

__all__ = ["Wake"]

_WATCHED_SECONDS = 300.0


class Wake:
    """Wakes one waiter. ``poll_seconds_min`` to ``poll_seconds_max`` limit the pause without a notification.

    With ``is_watched`` another service polls and notifies. Then the pause is five minutes at first, and again when it
    has grown beyond the longest one.
    """

    def __init__(
        self, poll_seconds_min: float = 0.05, poll_seconds_max: float = 1.0, *, is_watched: bool = False
    ) -> None:
        self._woken = asyncio.Event()
        self._is_notified = False
        self._minimum = poll_seconds_min
        self._maximum = poll_seconds_max
        self._idle = _WATCHED_SECONDS if is_watched else poll_seconds_max
        self._pause = _WATCHED_SECONDS if is_watched else poll_seconds_min

    def notify(self) -> None:
        """End the wait: there is work."""
        self._is_notified = True
        self._woken.set()

    def poll(self) -> None:
        """End the wait as the end of the pause does: there may be work without a notification."""
        self._woken.set()

    def busy(self) -> None:
        """Poll fast again, because work was found without a notification."""
        self._pause = self._minimum

    async def wait(self) -> bool:
        """Wait for a notification, for at most the poll pause; return whether it came. Without a notification the pause
        doubles.
        """
        try:
            async with asyncio.timeout(self._pause):
                await self._woken.wait()
        except TimeoutError:
            self._pause = self._pause * 2 if self._pause * 2 <= self._maximum else self._idle
        was_notified, self._is_notified = self._is_notified, False
        self._woken.clear()
        return was_notified
