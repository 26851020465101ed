"""The note of a source about the messages that it refused and kept, for people."""

from __future__ import annotations

import time
from datetime import UTC, datetime

__all__ = ["KeptNote"]

_KEPT_SECONDS = 86_400.0


class KeptNote:
    """``text`` says how many there are, when the last came, and why and where."""

    def __init__(self) -> None:
        self.text = ""
        self._count = 0
        self._until = 0.0

    def add(self, reason: str, place: str) -> None:
        """Note one more message, why it was refused, and where it is."""
        self._count += 1
        self._until = time.monotonic() + _KEPT_SECONDS
        noun = "message was" if self._count == 1 else "messages were"
        moment = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        self.text = f"{self._count:,} refused {noun} kept, the latest at {moment} in {place}: {reason}"

    def is_recent(self) -> bool:
        """Return whether the last one was kept within a day."""
        return time.monotonic() < self._until
