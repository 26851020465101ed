"""Exceptions of calls."""

from __future__ import annotations

__all__ = ["ClientClosed", "NoReply", "RequestRefused", "RequestUnknown", "StillPending"]


class NoReply(Exception):
    """No try got a reply. The service may have run the request: repeat it only if it is idempotent (LP-08)."""

    def __init__(self, service: str, reason: str) -> None:
        super().__init__(f"service {service!r}: {reason}")
        self.service = service
        self.reason = reason


class ClientClosed(Exception):
    """The client was closed, in this thread or another."""


class RequestRefused(Exception):
    """Titanic refused the request. A repetition fails too (TI-05)."""

    def __init__(self, service: str, status: str) -> None:
        super().__init__(f"Titanic refuses a request for {service!r} with status {status}; check the service's name")
        self.service = service
        self.status = status


class RequestUnknown(LookupError):
    """Titanic does not know the id: the request was closed, has expired or never existed (TI-05)."""

    def __init__(self, request_id: str) -> None:
        super().__init__(f"Titanic does not know the request {request_id[:64]!r}; it may have been closed or expired")
        self.request_id = request_id


class StillPending(TimeoutError):
    """There is no reply yet. The request stays stored: wait for ``request_id`` again, or close it."""

    def __init__(self, request_id: str) -> None:
        super().__init__(f"request {request_id} has no reply yet; it stays stored, so ask again later or close it")
        self.request_id = request_id
