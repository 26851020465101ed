"""Memory that this process gives back to the operating system (glibc keeps what was freed between two live blocks)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

__all__ = ["FreedMemory"]

_WORTH_BYTES = 16 * 1024 * 1024


def _trim() -> Callable[[int], object] | None:
    """Return the C library's function, or None without it, as on musl."""
    found: Callable[[int], object] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return found


class FreedMemory:
    """Watches how many bytes are held, and trims the heap once most of them are gone."""

    def __init__(self, trim: Callable[[int], object] | None = None) -> None:
        self._trim = trim or _trim()
        self._largest = 0

    def note(self, held_bytes: int) -> None:
        """Take the present number. Trim if it has fallen to less than half, by what is worth it."""
        self._largest = max(self._largest, held_bytes)
        if self._trim is not None and held_bytes < self._largest / 2 and self._largest >= _WORTH_BYTES:
            self._trim(0)
            self._largest = held_bytes
