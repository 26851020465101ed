"""What a call can end with instead of a reply."""

from __future__ import annotations

__all__ = ["ClientClosed", "NoReply"]


class NoReply(Exception):
    """All tries are used up. The service may have run the request: repeat it only if it is idempotent (LP-08)."""

    def __init__(self, service: str, reason: str) -> None:
        super().__init__(f"service {service!r}: {reason}")
        self.service = service
        self.reason = reason


class ClientClosed(Exception):
    """The client was closed, from this thread or another one."""
