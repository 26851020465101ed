"""Jobs: enqueueing in the caller's transaction, the job that a handler gets, and exceptions that end an attempt."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypeAlias

from hookwire.call import Statement, call
from hookwire.jobs.failure import reason_of

__all__ = ["Failed", "Job", "Snoozed", "encode", "enqueue"]

_ADD: Final = Statement(
    "SELECT CAST(id AS text) FROM hookwire.add_jobs(CAST(CAST({drafts} AS text) AS jsonb), CAST({requester} AS text))",
    "drafts", "requester",
)  # fmt: skip
Recorder: TypeAlias = Callable[[dict[str, Any]], str]
RECORDER: ContextVar[Recorder | None] = ContextVar("hookwire_jobs_recorder", default=None)
"""Replaces the database while a test captures jobs (:mod:`hookwire.jobs.testing`)."""
_ENCODER: Final = json.JSONEncoder(allow_nan=False)


class Failed(Exception):
    """Raised by a handler whose attempt failed. ``dead``: do not retry. ``retry_seconds`` replaces the backoff."""

    dead: bool = False
    retry_seconds: float | None = None

    def __init__(self, reason: str, *, dead: bool = False, retry_seconds: float | None = None) -> None:
        super().__init__(reason)
        self.dead = dead
        self.retry_seconds = retry_seconds


class Snoozed(Exception):
    """Raised by a handler to postpone its job without costing an attempt. A ``token`` lets it be resumed earlier."""

    seconds: float = 0.0
    token: str | None = None

    def __init__(self, seconds: float, *, token: str | None = None) -> None:
        super().__init__(f"snoozed for {seconds:g} s")
        self.seconds = seconds
        self.token = token


@dataclass(slots=True)
class Job:
    """A job that a worker holds. ``id`` and ``attempt`` form an idempotency key.

    :meth:`publish` and :meth:`enqueue` collect events and jobs, which are committed with the result.
    """

    id: str
    claim: int
    kind: str
    args: Any
    key: str | None
    attempt: int
    attempts_max: int
    run_until: datetime | None
    resumed: Any = None
    events: list[dict[str, Any]] = field(default_factory=list)
    jobs: list[dict[str, Any]] = field(default_factory=list)

    def publish(
        self, topic: str, payload: Any, *, key: str | None = None, content_type: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        """Publish an event in the commit that completes this job. A text is sent as it is, any other value as JSON."""
        event = {"topic": topic, "payload": payload, "key": key, "content_type": content_type}
        if headers is not None:
            event["headers"] = dict(headers)
        self.events.append({name: value for name, value in event.items() if value is not None or name == "payload"})

    def enqueue(self, kind: str, args: Any = None, **options: Any) -> None:
        """Enqueue a job in the commit that completes this job. ``options`` are those of :func:`enqueue`."""
        self.jobs.append(draft_of(kind, args, options))

    def extra(self, note: str | None = None) -> dict[str, Any]:
        """Return the events, jobs and the note to commit with the result."""
        if not (self.events or self.jobs or note):
            return {}
        named = (("events", self.events), ("jobs", self.jobs), ("note", note))
        return {name: value for name, value in named if value}


class _Id(str):
    """An id that can be awaited like the result of an asynchronous connection."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, str]:
        return str(self)
        yield  # makes this a generator, which __await__ must return


def encode(value: Any) -> str:
    """Return a handler's value as JSON. Any exception of the value's own code becomes a ValueError."""
    try:
        return _ENCODER.encode(value)
    except BaseException as error:  # noqa: BLE001 - a user's classes may raise anything
        raise ValueError(reason_of(error)) from None


def draft_of(kind: str, args: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job as a body of ``POST /jobs``."""
    draft: dict[str, Any] = {"kind": kind, "args": {} if args is None else args}
    for name, value in options.items():
        if value is not None:
            draft[name] = value.isoformat() if isinstance(value, datetime) else value
    return draft


def enqueue(connection: Any, kind: str, args: Any = None, *, requester: str | None = None, **options: Any) -> Any:
    """Enqueue a job in the connection's open transaction. Return its id, or an awaitable of it.

    ``args`` is any value that JSON can encode; the default is ``{}``. ``options`` are the members of ``POST /jobs``::

        uniq, uniq_seconds, on_conflict, key, queue, priority, due_at, delay_seconds, due_local, due_zone,
        attempts_max, run_seconds, deadline_seconds, assignee, callbacks

    Raise :class:`hookwire.NotInTransaction`, and TypeError or ValueError for a value that JSON cannot encode.
    Exceptions of the driver pass; SQLSTATE 22023 means an unknown or invalid option.
    """
    draft = draft_of(kind, args, options)
    text = json.dumps([draft], ensure_ascii=False, allow_nan=False)
    if (recorder := RECORDER.get()) is not None:
        return _Id(recorder(json.loads(text)[0]))
    made: str | Awaitable[str] = call(connection, _ADD, (text, requester), lambda rows: str(rows[0][0]), name="enqueue")
    return made
