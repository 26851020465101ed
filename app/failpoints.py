"""Fail points: faults injected at named steps, by wrappers round these steps.

``HOOKWIRE_FAILPOINTS=relay.after_send:kill@3,publish.after_commit:hang`` means: the third time a batch was
acknowledged, die by SIGKILL; after the first commit of a publish, hang. Actions: ``kill`` (SIGKILL of this process),
``hang`` (stop here for ever), ``error`` (raise), ``delay`` (a tenth of a second). ``stall`` blocks the whole event loop
for three seconds, or ``stall=1.5``. ``relay.before_send:error/50`` fails every fiftieth time. Refused in
production.

The rooms know nothing of this: points sit round the database's statement names and round the sinks' port. A point in
the middle of a call (``relay.mid_send``, ``relay.mid_purge``) is passed a moment after the call began, before its
answer.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from app.settings.settings import SettingsRefused
from db.errors import OutcomeUnknown
from db.pool import Database, Row, Session
from relay.sink import Batch, Receipt, Sink, Term

__all__ = ["MOMENTS", "POINTS", "QUEUE_POINTS", "FailpointDatabase", "FailpointSink", "Failpoints"]

_BEFORE = {
    "event.publish_batch": "publish.before_commit",
    "direct.publish": "publish.before_commit",
    "source.take": "source.before_commit",
    "outbox.claim": "relay.before_claim",
    "outbox.claim_heads": "relay.before_claim",
    "compat.mark": "relay.before_claim",
    "mapped.claim": "relay.before_claim",
    "mapped.claim_behind": "relay.before_claim",
    "manifest.write": "relay.before_manifest",
    "outbox.purge": "relay.before_purge",
    "compat.purge": "relay.before_purge",
    "mapped.purge": "relay.before_purge",
    "mapped.advance": "relay.before_purge",
    "mapped.purge_by_mark": "relay.before_purge",
    "manifest.purge": "relay.before_purge",
    "delivery.fan_out": "relay.before_fanout",
    "delivery.fan_out_slice": "relay.before_fanout",
    "delivery.settle": "deliver.after_response",
    "intent.close": "verify.before_close",
    "member.leave": "stop.before_leave",
    "request.make": "service.before_request",
    "request.make_for": "service.before_request",
    "request.reply": "service.before_reply",
    "message.submit": "queue.before_submit",
    "message.receive": "queue.before_receive",
    "message.accept": "queue.before_accept",
    "message.reject": "queue.before_reject",
    "message.reap": "queue.before_reap",
    "task.clean": "task.before_clean",
}
_DURING = {
    "outbox.purge": "relay.mid_purge",
    "compat.purge": "relay.mid_purge",
    "mapped.purge": "relay.mid_purge",
    "mapped.purge_by_mark": "relay.mid_purge",
    "manifest.purge": "relay.mid_purge",
}
_AFTER = {
    "event.publish_batch": "publish.after_commit",
    "direct.publish": "publish.after_commit",
    "source.take": "source.after_commit",
    "outbox.claim": "relay.after_claim",
    "outbox.claim_heads": "relay.after_claim",
    "compat.mark": "relay.after_claim",
    "mapped.claim": "relay.after_claim",
    "mapped.claim_behind": "relay.after_claim",
    "manifest.write": "relay.after_manifest",
    "outbox.purge": "relay.after_purge",
    "compat.purge": "relay.after_purge",
    "mapped.purge": "relay.after_purge",
    "mapped.advance": "relay.after_purge",
    "mapped.purge_by_mark": "relay.after_purge",
    "manifest.purge": "relay.after_purge",
    "delivery.fan_out": "relay.after_fanout",
    "delivery.fan_out_slice": "relay.after_fanout",
    "delivery.claim": "deliver.after_claim",
    "delivery.settle": "deliver.after_settle",
    "intent.close": "verify.after_close",
    "request.make": "service.after_request",
    "request.make_for": "service.after_request",
    "request.lease": "service.after_claim",
    "request.lease_for_callbacks": "service.after_claim",
    "request.reply": "service.after_reply",
    "message.submit": "queue.after_submit",
    "message.receive": "queue.after_receive",
    "message.accept": "queue.after_accept",
    "message.reject": "queue.after_reject",
    "message.reap": "queue.after_reap",
    "task.clean": "task.after_clean",
    "answer.keep": "repeat.before_commit",
}
QUEUE_POINTS = sorted(point for point in (*_BEFORE.values(), *_AFTER.values()) if point.startswith(("queue.", "task.")))
"""The points before and after each statement of the hub about messages and tasks."""
MOMENTS = (
    "relay.mid_purge", "relay.mid_send", "stop.before_leave", "service.before_request", "service.after_request",
    "service.after_claim", "service.before_reply", "service.after_reply", "repeat.before_commit",
    "repeat.after_commit", "source.before_commit", "source.after_commit", *QUEUE_POINTS,
)  # fmt: skip
"""Points that are not on the way of an event to its sinks."""
POINTS = sorted(
    {*_BEFORE.values(), *_AFTER.values(), "relay.before_send", "relay.after_send", "relay.after_init"} - {*MOMENTS}
)
"""The points before and after each step of an event on its way to its sinks."""
_PURGED_BATCHES = 9
"""The argument of manifest.write with the batches that it also purges; then it passes the points of a purge, too."""
_STALL_SECONDS = 3.0
_MIDDLE_SECONDS = 0.002
_PLAN = re.compile(
    r"([a-z_.]+):(?:(kill|hang|error|delay|stall)|stall=([0-9]{1,2}(?:\.[0-9])?))(?:(@|/)([1-9][0-9]*))?"
)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _Fault:
    """The action at a point: at its ``at``-th passing, or at each ``at``-th."""

    action: str
    at: int
    again: bool
    stall_seconds: float


class Failpoints:
    """A plan of faults, and the number of passings of each point. Without a plan nothing is wrapped."""

    def __init__(self, plan: str) -> None:
        self._plan: dict[str, _Fault] = {}
        self._passed: Counter[str] = Counter()
        for part in filter(None, plan.split(",")):
            match = _PLAN.fullmatch(part.strip())
            if match is None or match[1] not in (*POINTS, *MOMENTS):
                raise SettingsRefused(
                    f"HOOKWIRE_FAILPOINTS: {part!r} is not point:kill|hang|error|delay|stall[=seconds][@n or /n]; "
                    f"points: {', '.join((*POINTS, *MOMENTS))}"
                )
            self._plan[match[1]] = _Fault(
                match[2] or "stall", int(match[5] or 1), match[4] == "/", float(match[3] or _STALL_SECONDS)
            )

    def __bool__(self) -> bool:
        return bool(self._plan)

    async def reach(self, point: str | None) -> None:
        """Pass a point. Act by the plan at the n-th passing, or at every n-th; ``delay`` also acts at all later
        ones.
        """
        if point is None or point not in self._plan:
            return
        fault = self._plan[point]
        self._passed[point] += 1
        if fault.action == "delay" and self._passed[point] >= fault.at:
            await asyncio.sleep(0.1)
        if self._passed[point] != fault.at and not (fault.again and self._passed[point] % fault.at == 0):
            return
        if fault.action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif fault.action == "hang":
            await asyncio.Event().wait()
        elif fault.action == "stall":
            time.sleep(fault.stall_seconds)  # noqa: ASYNC251 - this action has to block the loop
        elif fault.action == "error":
            raise OutcomeUnknown(f"fail point {point}")

    async def under_way(self, point: str | None, doing: Callable[[], Awaitable[_T]]) -> _T:
        """Run ``doing``, and pass a point a moment after its start: it may have ended by then."""
        if point is None or point not in self._plan:
            return await doing()
        task = asyncio.ensure_future(doing())
        try:
            await asyncio.wait({task}, timeout=_MIDDLE_SECONDS)
            await self.reach(point)
        except BaseException:
            task.cancel()
            await asyncio.wait({task})
            raise
        return await task


class _FailpointSession:
    def __init__(self, inner: Any, points: Failpoints) -> None:
        self._inner = inner
        self._points = points

    async def fetch(self, name: str, *args: object) -> Sequence[Row]:
        rows: Sequence[Row] = await self._passing(name, args, lambda: self._inner.fetch(name, *args))
        return rows

    async def fetchrow(self, name: str, *args: object) -> Row | None:
        row: Row | None = await self._passing(name, args, lambda: self._inner.fetchrow(name, *args))
        return row

    async def fetchval(self, name: str, *args: object) -> Any:
        return await self._passing(name, args, lambda: self._inner.fetchval(name, *args))

    async def execute(self, name: str, *args: object) -> int:
        count: int = await self._passing(name, args, lambda: self._inner.execute(name, *args))
        return count

    async def _passing(self, name: str, args: Sequence[object], statement: Callable[[], Awaitable[Any]]) -> Any:
        names = (name, "manifest.purge") if name == "manifest.write" and args[_PURGED_BATCHES] else (name,)
        for each in names:
            await self._points.reach(_BEFORE.get(each))
        result = await self._points.under_way(_DURING.get(names[-1]), statement)
        for each in names:
            await self._points.reach(_AFTER.get(each))
        return result


class FailpointDatabase(_FailpointSession, Database):
    """A database whose statements pass fail points."""

    def __init__(self, inner: Database, points: Failpoints) -> None:
        super().__init__(inner, points)
        self.options = inner.options

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Session]:
        """Yield a transaction whose statements pass fail points."""
        async with self._inner.transaction() as transaction:
            yield _FailpointSession(transaction, self._points)

    @asynccontextmanager
    async def joined(self) -> AsyncIterator[Session]:
        """Join a task's statements; pass ``repeat.after_commit`` at the end."""
        async with self._inner.joined() as transaction:
            yield _FailpointSession(transaction, self._points)
        await self._points.reach("repeat.after_commit")

    def with_statements(self, statements: Mapping[str, str]) -> FailpointDatabase:
        """Return the same pool under other statements, whose names pass the same points."""
        return FailpointDatabase(self._inner.with_statements(statements), self._points)

    async def aclose(self) -> None:
        """Close the real one."""
        await self._inner.aclose()


class FailpointSink:
    """A sink that passes fail points round ``open`` and ``send``."""

    def __init__(self, inner: Sink, points: Failpoints) -> None:
        self.name = inner.name
        self.features = inner.features
        self._inner = inner
        self._points = points

    async def open(self, term: Term) -> int | None:
        """Open, then pass ``relay.after_init``."""
        committed = await self._inner.open(term)
        await self._points.reach("relay.after_init")
        return committed

    async def send(self, batch: Batch) -> Receipt:
        """Send between ``relay.before_send`` and ``relay.after_send``; pass ``relay.mid_send`` during the call."""
        await self._points.reach("relay.before_send")
        receipt = await self._points.under_way("relay.mid_send", lambda: self._inner.send(batch))
        await self._points.reach("relay.after_send")
        return receipt

    async def close(self) -> None:
        """Close the real one."""
        await self._inner.close()
