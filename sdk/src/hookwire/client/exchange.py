"""Exchange: one call to the hub with its repeats, without I/O, so that both clients have the same rules.

::

    Sending --> 2xx ----------------------------------------------> the answer
       ^   '--> refused connection, broken connection, late answer,
       |        408, 409 in flight, 425, 429, 502, 503, 504 --> Pause --+
       |   '--> any other answer ---------------------------> ApiRefused |
       +------------------------ until the deadline --------------------+ --> Unreachable, TimedOut, ApiRefused

A request that may have taken effect is repeated only if a repeat has no second effect. It reads, replaces or deletes,
or it has an Idempotency-Key, which all its repeats keep.
"""

from __future__ import annotations

import email.utils
import json
import logging
import random
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from hookwire.error import ApiRefused, HookwireError, TimedOut, Unreachable

__all__ = ["Answer", "NoAnswer", "NotSent", "Pause", "Request", "Sending", "Steps", "exchange", "json_of"]

_log = logging.getLogger("hookwire")
T = TypeVar("T")
_PAUSE_SECONDS: Final = 0.1
_PAUSE_SECONDS_MAX: Final = 5.0
_LEAST_SECONDS: Final = 1.0
"""No attempt begins with less time than this: it would only make the outcome unknown."""
_PASSING: Final = frozenset({408, 425, 429, 502, 503, 504})
_IN_FLIGHT: Final = "idempotency-key-in-flight"
_NOTHING_DONE: Final = frozenset({408, 425, 429})
_NOTHING_STORED: Final = frozenset({"busy", "database-unavailable", "shutting-down", "too-many-requests"})
"""Kinds of problems of a 503 that say that nothing was done."""
_TEXT_MAX: Final = 300


@dataclass(frozen=True, slots=True)
class Request:
    """One request. ``what`` names it in messages. Its headers hold the token, so they are never shown."""

    method: str
    path: str
    what: str
    headers: Mapping[str, str] = field(repr=False)
    content: bytes | None = field(default=None, repr=False)
    idempotency_key: str | None = None

    @property
    def is_repeatable(self) -> bool:
        """Return whether a repeat has no second effect."""
        return self.method not in ("POST", "PATCH") or self.idempotency_key is not None


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer; the names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes


@dataclass(frozen=True, slots=True)
class Sending:
    """A step: send this request, and wait for its answer no longer than this."""

    request: Request
    seconds: float


@dataclass(frozen=True, slots=True)
class Pause:
    """A step: wait."""

    seconds: float


Steps = Generator[Sending | Pause, Any, T]
"""A call as its steps; a ``Sending`` is answered with an :class:`Answer`, or ``NotSent`` or ``NoAnswer`` is thrown."""


class NotSent(Exception):
    """No connection was made, so nothing was sent. ``is_final``: a repeat fails too, as with a bad certificate."""

    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        super().__init__(reason)
        self.is_final = is_final


class NoAnswer(Exception):
    """The request was sent, at least in part, and no whole answer came. ``is_late``: the time was over."""

    def __init__(self, reason: str, *, is_late: bool = False) -> None:
        super().__init__(reason)
        self.is_late = is_late


def exchange(request: Request, timeout_seconds: float, place: str) -> Steps[Answer]:
    """Return the steps of a request to the hub at ``place``; their result is a 2xx. Raise :class:`HookwireError`."""
    state = _Attempts(request, place, time.monotonic() + timeout_seconds, timeout_seconds)
    while True:
        failure: Answer | NotSent | NoAnswer
        try:
            answer: Answer = yield Sending(request, max(0.001, state.deadline - time.monotonic()))
        except (NotSent, NoAnswer) as error:
            failure = error
        else:
            if 200 <= answer.status < 300:
                return answer
            failure = answer
        pause = state.pause_after(failure)
        _log.info("%s is repeated in %.2f s: %s", request.what, pause, _short(failure))
        yield Pause(pause)


@dataclass(slots=True)
class _Attempts:
    """The attempts of one call so far."""

    request: Request
    place: str
    deadline: float
    timeout_seconds: float
    failures: int = 0
    is_unknown: bool = False

    def pause_after(self, failure: Answer | NotSent | NoAnswer) -> float:
        """Return the pause before the next attempt; raise if there is none."""
        slug = _slug(failure)
        if isinstance(failure, Answer) and failure.status not in _PASSING and slug != _IN_FLIGHT:
            raise refusal_of(failure, self.request, self.place, is_unknown=self.is_unknown)
        if _is_open(failure, slug):
            self.is_unknown = True
        if (self.is_unknown and not self.request.is_repeatable) or getattr(failure, "is_final", False):
            raise self._error(failure) from None
        most = min(_PAUSE_SECONDS_MAX, _PAUSE_SECONDS * 2.0 ** min(self.failures, 10))
        self.failures += 1
        pause = random.uniform(0, most)  # noqa: S311 - spreads load
        if isinstance(failure, Answer):
            pause += _retry_after(failure)
        least = min(_LEAST_SECONDS, self.timeout_seconds / 5)
        if time.monotonic() + pause + least >= self.deadline or getattr(failure, "is_late", False):
            raise self._error(failure) from None
        return pause

    def _error(self, failure: Answer | NotSent | NoAnswer) -> HookwireError:
        key = self.request.idempotency_key
        facts: dict[str, Any] = {"may_have_been_stored": self.is_unknown, "idempotency_key": key}
        cure = ""
        if self.is_unknown:
            cure = "; it may have taken effect" + (f", so repeat it with idempotency_key={key!r}" if key else "")
        if isinstance(failure, Answer) and not self.is_unknown:
            return refusal_of(failure, self.request, self.place, is_unknown=False)
        if isinstance(failure, Answer) or getattr(failure, "is_late", False):
            words = f"{self.request.what} got no success from {self.place} in {self.timeout_seconds:g} s"
            return TimedOut(f"{words} ({_short(failure)}){cure}", **facts)
        words = f"{self.request.what}: the hub at {self.place} cannot be reached ({_short(failure)})"
        return Unreachable(f"{words}{cure or '; is it running, and is HOOKWIRE_URL right?'}", **facts)


def json_of(answer: Answer, request: Request, place: str) -> Any:
    """Return the JSON of a success; raise :class:`ApiRefused` if another program than a hub answered."""
    if answer.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json":
        try:
            return json.loads(answer.content)
        except ValueError:
            pass
    raise refusal_of(answer, request, place, is_unknown=request.method != "GET")


def refusal_of(answer: Answer, request: Request, place: str, *, is_unknown: bool) -> ApiRefused:
    """Return the error for an answer that is no success of a hub."""
    problem = _problem(answer)
    facts: dict[str, Any] = {
        "status": answer.status, "may_have_been_stored": is_unknown, "idempotency_key": request.idempotency_key,
        "request_id": answer.headers.get("x-request-id"),
    }  # fmt: skip
    kind = ApiRefused.of_status.get(answer.status, ApiRefused)
    if problem:
        names = ("type", "title", "detail")
        facts |= {name: problem[name] for name in names if isinstance(problem.get(name), str)}
        errors = problem.get("errors")
        facts["errors"] = [error for error in errors if isinstance(error, dict)] if isinstance(errors, list) else []
        page = f"; see {facts['type']}" if "://" in facts.get("type", "") else ""
        text = facts.get("detail") or facts.get("title", "")
        return kind(f"{request.what} was refused with {answer.status}: {text}{page}", **facts)
    if 300 <= answer.status < 400:
        target = answer.headers.get("location", "")[:_TEXT_MAX]
        words = f"{place} redirects to {target}; give that address as the hub's, because a POST follows no redirect"
        return kind(f"{request.what}: {words}", **facts)
    if answer.status == 401:
        return kind(f"{request.what} was refused with 401: pass token= or set HOOKWIRE_TOKEN", **facts)
    content_type = answer.headers.get("content-type", "no type")[:80]
    words = f"{place} answered {answer.status} with {content_type}, which is no answer of a hub"
    return kind(f"{request.what}: {words}; is a proxy in between, and is HOOKWIRE_URL right?", **facts)


def _problem(answer: Answer) -> dict[str, Any]:
    if answer.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/problem+json":
        return {}
    try:
        found = json.loads(answer.content)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _slug(failure: Answer | NotSent | NoAnswer) -> str:
    return str(_problem(failure).get("type", "")).rpartition("/")[2] if isinstance(failure, Answer) else ""


def _is_open(failure: Answer | NotSent | NoAnswer, slug: str) -> bool:
    """Return whether the request may have taken effect."""
    if isinstance(failure, Answer):
        return failure.status not in _NOTHING_DONE and slug not in _NOTHING_STORED
    return isinstance(failure, NoAnswer)


def _retry_after(answer: Answer) -> float:
    """Return the seconds that the answer asks for: a number or a date (RFC 9110, 10.2.3)."""
    value = answer.headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return min(float(value), 86_400.0)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (TypeError, ValueError):
        return 0.0


def _short(failure: Answer | NotSent | NoAnswer) -> str:
    if isinstance(failure, Answer):
        return f"{failure.status} {_slug(failure)}".strip()
    return (str(failure) or type(failure).__name__)[:_TEXT_MAX]
