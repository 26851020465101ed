"""Why an outbound attempt brought no answer: one error per class of webhooks' outcome table.

An attempt ends in a `Response` or in one of these. `kind` is the class that is stored with the attempt; `detail` is a
short text of ours that a tenant may read (OB-11: never a foreign exception's words, they may hold addresses); `reason`
is for the operator's log only and may name addresses and settings.
"""

from typing import ClassVar

NOT_ALLOWED = "the target is not allowed"
"""The one text a tenant reads for every target the guard denies (EG-03: wording must not tell ranges apart)."""


class OutboundError(Exception):
    """An attempt failed before a status line was read.

    Args:
        detail: what a tenant may read, at most a short clause.
        reason: what an operator may read; empty means the same as `detail`.
    """

    kind: ClassVar[str] = "outbound"

    def __init__(self, detail: str, reason: str = "") -> None:
        super().__init__(detail)
        self.detail = detail
        self.reason = reason or detail


class Blocked(OutboundError):
    """The guard refused the target or a header; no socket was used for it (EG-03, EG-16)."""

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
    """The total deadline of the attempt passed before a status line was read (OB-01)."""

    kind = "timeout"


class BadResponse(OutboundError):
    """What the peer sent is not an HTTP/1.1 answer within our limits, and no final status line was read."""

    kind = "bad_response"
