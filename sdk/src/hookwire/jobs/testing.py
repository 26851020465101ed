"""Helpers for tests: capture enqueued jobs without a hub, compare them, and run them in the test's process.

::

    with capture() as captured:
        place_order(connection=None, order=7)              calls enqueue(connection, "mail.send", {"order": 7})
        captured.assert_enqueued("mail.send", {"order": 7})
        await captured.run(handlers)                       runs these jobs and the jobs that they enqueue
    assert captured.events == [{"topic": "orders.placed", "payload": {"order": 7}}]
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from hookwire.jobs.failure import reason_of
from hookwire.jobs.handlers import Handlers
from hookwire.jobs.job import RECORDER, Failed, Job, Snoozed
from hookwire.threads import Threads

__all__ = ["Captured", "Ran", "capture"]

_JOBS_MAX = 10_000
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Ran:
    """An attempt that was run: ``completed`` with a result, ``failed`` with an error, or ``snoozed``."""

    kind: str
    args: Any
    outcome: str
    result: Any = None


@dataclass(slots=True)
class Captured:
    """The captured jobs. ``enqueued``: all jobs in order, even after they ran. ``events``: of completed jobs."""

    enqueued: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    ran: list[Ran] = field(default_factory=list)
    _waiting: list[tuple[str, dict[str, Any], int]] = field(default_factory=list)
    _live: dict[tuple[str, str], str] = field(default_factory=dict)

    def add(self, draft: dict[str, Any]) -> str:
        """Add a job and return its id. It merges with a waiting job of the same ``uniq``, as in the database."""
        uniq = repr(draft["args"]) if draft.get("uniq") == "-" else draft.get("uniq")
        if uniq is not None and (live := self._live.get((draft["kind"], uniq))) is not None:
            return live
        job = str(uuid.uuid4())
        if uniq is not None:
            self._live[draft["kind"], uniq] = job
        self.enqueued.append(draft)
        self._waiting.append((job, draft, 1))
        return job

    def of(self, kind: str) -> list[Any]:
        """Return the arguments of the enqueued jobs of a kind."""
        return [draft["args"] for draft in self.enqueued if draft["kind"] == kind]

    def assert_enqueued(self, kind: str, args: Any = None, *, count: int | None = None) -> None:
        """Raise AssertionError unless a job of the kind, with ``args`` if given, was enqueued ``count`` times."""
        found = [one for one in self.of(kind) if args is None or one == args]
        if not found if count is None else len(found) != count:
            wanted = f"{kind} {args if args is not None else ''}".strip()
            seen = [(draft["kind"], draft["args"]) for draft in self.enqueued]
            raise AssertionError(f"{wanted} was enqueued {len(found)} times; enqueued was {seen}")

    async def run(self, handlers: Handlers, *, connection: Any = None) -> list[Ran]:
        """Run the waiting jobs by priority, and the jobs that they enqueue. Return the attempts.

        Delays are skipped. A failed job is repeated up to its ``attempts_max``. A handler in a transaction gets
        ``connection``. Raise KeyError for a kind without a handler.
        """
        first = len(self.ran)
        while self._waiting:
            if len(self.ran) - first >= _JOBS_MAX:
                raise RuntimeError(f"stopped after {_JOBS_MAX} attempts: jobs enqueue each other without end")
            self._waiting.sort(key=lambda one: -one[1].get("priority", 0))
            await self._run(handlers, *self._waiting.pop(0), connection)
        return self.ran[first:]

    async def _run(self, handlers: Handlers, job_id: str, draft: dict[str, Any], attempt: int, connection: Any) -> None:
        handler = handlers.of(draft["kind"])
        most = draft.get("attempts_max", _ATTEMPTS)
        job = Job(job_id, attempt, draft["kind"], draft["args"], draft.get("key"), attempt, most, None)
        arguments = (job, connection) if handler.in_transaction else (job,)
        threads = Threads("hookwire-job", 1)
        try:
            result = await handler.call(*arguments, threads=threads)
        except Snoozed:
            self.ran.append(Ran(job.kind, job.args, "snoozed"))
        except (Exception, SystemExit, GeneratorExit, asyncio.CancelledError) as error:
            if _is_cancelled():
                raise
            self.ran.append(Ran(job.kind, job.args, "failed", reason_of(error)))
            if attempt < most and not (isinstance(error, Failed) and error.dead):
                self._waiting.append((job_id, draft, attempt + 1))
                return
        else:
            self.ran.append(Ran(job.kind, job.args, "completed", result))
            self.events += job.events
        finally:
            threads.close()
        self._live = {name: live for name, live in self._live.items() if live != job_id}
        if self.ran[-1].outcome == "completed":
            for follow_up in job.jobs:
                self.add(follow_up)


def _is_cancelled() -> bool:
    """Return whether the test itself is being cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


@contextmanager
def capture() -> Iterator[Captured]:
    """Capture each ``enqueue`` in this context in memory. Its connection is not used and may be None."""
    captured = Captured()
    token = RECORDER.set(captured.add)
    try:
        yield captured
    finally:
        RECORDER.reset(token)
