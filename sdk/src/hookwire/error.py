"""Errors of the client: which of them are worth a repeat is said by their class, and their text names the cure.

::

    HookwireError
      Unreachable          no connection, or it broke
      TimedOut             the deadline passed
      ApiRefused           the hub, or a proxy before it, answered with a refusal
        NotFound 404   Conflict 409   TooLarge 413   RateLimited 429   Forbidden 401, 403

No text holds a token, a secret or a payload.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

__all__ = [
    "ApiRefused", "Conflict", "Forbidden", "HookwireError", "NotFound", "RateLimited", "TimedOut", "TooLarge",
    "Unreachable",
]  # fmt: skip


class HookwireError(Exception):
    """A call that did not succeed.

    ``may_have_been_stored``: its effect is unknown. Repeat it with ``idempotency_key``, and it takes effect once.
    """

    def __init__(self, text: str, *, may_have_been_stored: bool = False, idempotency_key: str | None = None) -> None:
        super().__init__(text)
        self.may_have_been_stored = may_have_been_stored
        self.idempotency_key = idempotency_key


class Unreachable(HookwireError):
    """The hub could not be reached, or the connection broke before its answer."""


class TimedOut(HookwireError):
    """The deadline of the call passed."""


class ApiRefused(HookwireError):
    """The answer was no success. The attributes are those of its problem document (RFC 9457)."""

    of_status: ClassVar[dict[int, type[ApiRefused]]] = {}

    def __init__(
        self, text: str, *, status: int, type: str = "", title: str = "", detail: str = "",  # noqa: A002 - RFC 9457
        errors: Sequence[Mapping[str, Any]] = (), request_id: str | None = None, may_have_been_stored: bool = False,
        idempotency_key: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(text, may_have_been_stored=may_have_been_stored, idempotency_key=idempotency_key)
        self.status = status
        self.type = type
        self.title = title
        self.detail = detail
        self.errors = tuple(errors)
        self.request_id = request_id

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), str(self), self.__dict__)


class NotFound(ApiRefused):
    """404: there is no such thing, or this token may not see it."""


class Conflict(ApiRefused):
    """409: the state of the thing does not permit it."""


class TooLarge(ApiRefused):
    """413: the body is larger than the hub accepts."""


class RateLimited(ApiRefused):
    """429: too many requests for the time that the call had."""


class Forbidden(ApiRefused):
    """401 or 403: the token is missing or unknown, or does not permit it."""


ApiRefused.of_status.update(
    {401: Forbidden, 403: Forbidden, 404: NotFound, 409: Conflict, 413: TooLarge, 429: RateLimited}
)


def _again(kind: type[ApiRefused], text: str, state: dict[str, Any]) -> ApiRefused:
    """Make the error anew, in another process."""
    error = kind(text, status=state["status"])
    error.__dict__.update(state)
    return error
