"""Failures of an outbound attempt without an answer: one error for each class of webhooks' outcome table.

An attempt ends in a `Response` or in one of these errors. `kind` is the class that is stored with the attempt. `detail`
is our own short text, which a tenant may read; a foreign exception's text may hold addresses. `reason` is for
the operator's log only and may name addresses and settings.
"""

from typing import ClassVar

NOT_ALLOWED = "the target is not allowed"
"""The only text that a tenant reads for a target that the guard denies (it must not reveal the range)."""


class NotSent(Exception):
    """Nothing was sent, because it has become too late: the process was stopped, or has no processor time.

    It says nothing of the target.
    """


class OutboundError(Exception):
    """An attempt failed before a status line was read.

    Args:
        detail: a short clause that a tenant may read.
        reason: a text for operators; empty means the same as `detail`.
    """

    kind: ClassVar[str] = "outbound"

    def __init__(self, detail: str, reason: str = "") -> None:
        super().__init__(detail)
        self.detail = detail
        self.reason = reason or detail


class Blocked(OutboundError):
    """The guard refused the target or a header; no socket was used for it."""

    kind = "blocked"

    def __init__(self, reason: str, detail: str = NOT_ALLOWED) -> None:
        super().__init__(detail, reason)


class DnsFailed(OutboundError):
    """The host name gave no addresses in time."""

    kind = "dns"


class ConnectFailed(OutboundError):
    """No connection came about, or the peer closed it without one byte of an answer."""

    kind = "connect"


class TlsFailed(OutboundError):
    """The handshake failed or the certificate was not accepted."""

    kind = "tls"


class DeadlineExceeded(OutboundError):
    """The total deadline of the attempt passed before a status line was read."""

    kind = "timeout"


class BadResponse(OutboundError):
    """The peer's answer is not HTTP/1.1 within our limits, and no final status line was read."""

    kind = "bad_response"
