"""Outcome: the meaning of an answer, or of its absence. Pure.

::

    2xx delivered   3xx redirect   410 gone   429 502 504 throttled   other 4xx client_error   5xx server_error
    no answer: timeout, connect, tls, dns, bad_response, blocked (the words of egress.failure)
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from egress.client import Response
from egress.failure import OutboundError
from egress.retry_after import retry_after_seconds

__all__ = ["Outcome", "outcome_of_error", "outcome_of_response"]

_KEPT_HEADERS = ("content-type", "retry-after", "webhook-delivery")


class Outcome(NamedTuple):
    """The result of one attempt.

    ``kind`` is the class; ``status`` None when no status line came. ``retry_after_seconds`` is the wait that the
    receiver asked for, already capped. ``asked`` is its request in ``webhook-delivery``: "abort-message", "disable" or
    None. ``detail`` is one safe line for the subscriber.
    """

    kind: str
    status: int | None
    detail: str | None = None
    retry_after_seconds: float | None = None
    asked: str | None = None
    address: str | None = None
    connect_seconds: float | None = None
    first_byte_seconds: float | None = None
    total_seconds: float = 0.0
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None

    @property
    def is_plain_success(self) -> bool:
        """Return whether it was delivered and the receiver asked for nothing."""
        return self.kind == "delivered" and self.asked is None


def _kind(status: int) -> str:
    if 200 <= status < 300:
        return "delivered"
    if 300 <= status < 400:
        return "redirect"
    if status == 410:
        return "gone"
    if status in (429, 502, 504):
        return "throttled"
    return "client_error" if status < 500 else "server_error"


def outcome_of_response(response: Response, now: datetime, retry_after_max: Callable[[], float]) -> Outcome:
    """Judge an answer. ``now`` is wall-clock time with a zone, for Retry-After dates. ``retry_after_max`` returns the
    longest wait in seconds that is granted; it is asked after a failure only.
    """
    status = response.status
    kind = _kind(status)
    if kind == "delivered" and not response.headers:
        return Outcome(
            kind, status, None, None, None, response.address, response.connect_seconds, response.first_byte_seconds,
            response.total_seconds,
        )  # fmt: skip
    wish = next(iter(response.values("webhook-delivery")), "").strip().lower()
    # abort-message says that a failed message need not come again, so it means nothing on a success.
    asked = wish if wish == "disable" or (wish == "abort-message" and kind != "delivered") else None
    wait = None if kind == "delivered" else retry_after_seconds(response.values("retry-after"), now, retry_after_max())
    detail = "redirects are not followed; register the new address" if kind == "redirect" else None
    return Outcome(
        kind, status, detail, wait, asked, response.address, response.connect_seconds, response.first_byte_seconds,
        response.total_seconds,
        tuple(field for field in response.headers if field[0] in _KEPT_HEADERS) if kind != "delivered" else (),
        response.body if kind != "delivered" else None,
    )  # fmt: skip


def outcome_of_error(error: OutboundError, total_seconds: float) -> Outcome:
    """Judge an attempt that brought no status line."""
    return Outcome(error.kind, None, error.detail, total_seconds=total_seconds)
