"""The one error of the embedded server: its text says the problem and the cure."""

from __future__ import annotations

__all__ = ["EmbeddedError"]


class EmbeddedError(Exception):
    """The embedded PostgreSQL cannot be used; the message says why and which setting helps.

    ``reason`` is the sentence without its full stop; ``cure`` replaces the usual advice.
    """

    CURE = "Set HOOKWIRE_DATA_DIR to another folder, or HOOKWIRE_DATABASE_URL to a PostgreSQL of your own."

    def __init__(self, reason: str, cure: str = CURE) -> None:
        super().__init__(f"{reason}. {cure}")
        self.reason = reason
