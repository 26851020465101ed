"""Trouble: log a line when it begins and a line when it ends, for any number of tries in between."""

from __future__ import annotations

import time
from typing import Final

import structlog

__all__ = ["Trouble"]

_log = structlog.get_logger(__name__)
_TEXTS_MAX: Final = 8  # limit of remembered errors: a text may differ each time
_TELL_AGAIN_SECONDS: Final = 3_600.0


class Trouble:
    """A lasting failure of one service. ``begins`` and ``ends`` are the events of its log lines, and ``labels`` name
    the owner there. ``last_error`` is the latest text, for people; it outlasts the trouble.
    """

    def __init__(self, begins: str, ends: str) -> None:
        self._begins = begins
        self._ends = ends
        self._began_at: float | None = None
        self._told: set[str] = set()
        self._told_until = 0.0
        self.last_error = ""

    @property
    def lasts(self) -> bool:
        """Return whether it has begun and not ended."""
        return self._began_at is not None

    def tell(self, error: BaseException, **labels: object) -> None:
        """Log a warning for each different error, and again after an hour; in between log at the level debug."""
        self.last_error = str(error)
        now = time.monotonic()
        if self._began_at is None:
            self._began_at = now
        if now >= self._told_until:
            self._told.clear()
            self._told_until = now + _TELL_AGAIN_SECONDS
        text = str(error) or "no answer in time"
        is_news = text not in self._told and len(self._told) < _TEXTS_MAX
        if is_news:
            self._told.add(text)
        (_log.warning if is_news else _log.debug)(self._begins, **labels, error=text)

    def over(self, **labels: object) -> None:
        """Log a line with the duration if there was any trouble."""
        if self._began_at is not None:
            _log.info(self._ends, **labels, seconds=round(time.monotonic() - self._began_at, 1))
            self.forget()

    def forget(self) -> None:
        """Forget the trouble, because another process has taken over."""
        self._began_at = None
        self._told_until = 0.0
