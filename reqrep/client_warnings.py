"""Who was warned about: one line per client and minute in the log, however many of its messages are refused."""

from __future__ import annotations

__all__ = ["ClientWarnings"]

_SECONDS = 60.0
_CLIENTS_MAX = 100


class ClientWarnings:
    """Knows which clients have had a warning within the last minute, a hundred at most."""

    def __init__(self) -> None:
        self._until: dict[bytes, float] = {}

    def is_due(self, now: float, client: bytes) -> bool:
        """Return whether a warning about the client may be printed now, and count it as printed."""
        if self._until.get(client, now) > now:
            return False
        if len(self._until) >= _CLIENTS_MAX:
            self._until = {one: until for one, until in self._until.items() if until > now}
        if len(self._until) >= _CLIENTS_MAX:
            return False
        self._until[client] = now + _SECONDS
        return True
