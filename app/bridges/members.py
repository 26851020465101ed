"""Members: the membership of a process that delivers, and what it takes over from dead ones on other hosts (ADR 99).

::

    enter: row, session lock --> beat: the lock is held, who else is there --> leave
                                   |                     |
                                   |                     '-- a lock was free for the stored trust and more: take over
                                   '-- no answer: trust ends, requests are aborted --> enter anew, with another id

A lock that is free is no death. Its holder may live, and learn of the loss later than others. So a member trusts its
membership only for a time from before its last answered beat. It stores this time in its row, and others wait for it.
A member that was alone has stored no time. Nobody takes over from it, and it aborts nothing.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Final, NamedTuple

import structlog

from app.bridges.membership import DeliveryMembership
from db.direct import Direct
from db.errors import DatabaseError
from db.pool import Database, Row
from relay.election.port import boot_seconds
from runtime.cancellation import TaskGroup, end_if_cancelled
from runtime.pause import pause
from runtime.trouble import Trouble

__all__ = ["Members"]

_log = structlog.get_logger(__name__)
_CHANNEL: Final = "hookwire_members"
_TRUST_SECONDS: Final = 1.0
"""For so long a member beside others trusts its membership."""
_GRACE_SECONDS: Final = 1.0
"""So much longer others wait: for the abort of its requests, and for a process that is late."""
_BEAT_SECONDS: Final = 0.3
_BEAT_SECONDS_ALONE: Final = 60.0
"""Nothing depends on the beats of a process that is alone. A new member announces itself."""
_ANSWER_SECONDS_MAX: Final = 5.0
_WARY_SECONDS: Final = 10.0
"""So long after a late answer, claims are of no member: where answers are late, each one would abort requests."""
_AGAIN_SECONDS: Final = 0.25


class _Lost(Exception):
    """The server does not know the membership any more."""


class _Gone(NamedTuple):
    """A member whose lock is free since that time, by our clock, and the trust that its row has."""

    since: float
    trust_seconds: float | None

    def has_waited(self, now: float) -> bool:
        return now >= self.since + (self.trust_seconds or 0.0) + _GRACE_SECONDS


class Members:
    """Keeps the membership of this process. ``mark_due`` gets the subscriptions whose deliveries were taken over."""

    name = "membership"

    def __init__(
        self, database: Database, connect: Callable[[], Awaitable[Direct]], owner: str,
        mark_due: Callable[[Sequence[int]], None],
    ) -> None:  # fmt: skip
        self._database = database
        self._connect = connect
        self._owner = owner
        self._mark_due = mark_due
        self._membership: DeliveryMembership | None = None
        self._former: DeliveryMembership | None = None
        self._is_alone = True
        self._wary_until = -math.inf
        self._gone: dict[int, _Gone] = {}
        self._inheriting: asyncio.Task[None] | None = None
        self._trouble = Trouble("membership_lost", "membership_back")
        self._look = asyncio.Event()
        self._stopping = asyncio.Event()
        database.options.primary.on_change(self._step_down)

    def current(self) -> DeliveryMembership | None:
        """Return the membership for new claims; None: they wait for their lease if this process dies."""
        membership = self._membership
        if membership is None or not membership.holds() or boot_seconds() < self._wary_until:
            return None
        return membership

    def stop(self) -> None:
        """Leave. Call it when no claim is left."""
        self._stopping.set()
        self._look.set()

    async def run(self) -> None:
        """Be a member until stopped."""
        while not self._stopping.is_set():
            try:
                await self._belong()
            except (DatabaseError, TimeoutError, _Lost, asyncio.CancelledError) as error:
                end_if_cancelled()  # a client library may cancel a statement by itself
                self._trouble.tell(error)
            await pause(self._stopping, _AGAIN_SECONDS)

    async def _belong(self) -> None:
        """Enter, and beat until stopped. Any error ends the session, and with it the membership."""
        async with aclosing(await self._connect()) as session:
            try:
                async with TaskGroup() as tasks:
                    noticing = tasks.create_task(self._notice_loss(session), name="membership's session")
                    await self._beat_until_stopped(session, tasks)
                    noticing.cancel()
            except BaseExceptionGroup as failed:
                raise failed.exceptions[0] from failed
            finally:
                if self._membership is not None:
                    self._former, self._membership = self._membership, None

    async def _beat_until_stopped(self, session: Direct, tasks: TaskGroup) -> None:
        await session.listen(_CHANNEL, lambda _: self._look.set())
        membership = await self._enter(session)
        while not self._stopping.is_set():
            self._look.clear()
            await self._beat(session, membership, tasks)
        await session.execute("delivery.leave", membership.id)

    async def _notice_loss(self, session: Direct) -> None:
        await session.lost.wait()
        self._look.set()

    async def _enter(self, session: Direct) -> DeliveryMembership:
        """Enter with a new id. If nobody has taken over the claims of the former one, they are safe from now on."""
        former = self._former
        row = await session.fetchrow("delivery.enter", self._owner, None if former is None else former.id)
        assert row is not None, "the row of the new member"
        if former is not None:
            former.keep() if row["is_kept"] else former.end()
        if not row["is_locked"]:
            raise _Lost("another session holds the lock of the new member")
        self._former, self._is_alone, self._gone = None, True, {}
        self._membership = membership = DeliveryMembership(row["id"])
        return membership

    async def _beat(self, session: Direct, membership: DeliveryMembership, tasks: TaskGroup) -> None:
        """Beat once, and rest. What is stored as trust counts from before it is asked for."""
        asked_at = boot_seconds()
        trust_seconds = None if self._is_alone else _TRUST_SECONDS
        if trust_seconds is not None:
            membership.limit(asked_at + trust_seconds)
        async with asyncio.timeout(_ANSWER_SECONDS_MAX):
            rows = await session.fetch("delivery.beat", membership.id, trust_seconds)
        if not any(row["is_own"] for row in rows if row["id"] == membership.id):
            raise _Lost("the server does not know this member any more")
        if not membership.holds():
            self._wary_until = boot_seconds() + _WARY_SECONDS
        membership.trust(math.inf if trust_seconds is None else asked_at + trust_seconds)
        self._trouble.over()
        others = [row for row in rows if row["id"] != membership.id]
        is_alone = not any(row["is_present"] for row in others)
        if is_alone is not self._is_alone:
            self._is_alone = is_alone
            return
        self._see([row for row in others if not row["is_present"]], tasks)
        seconds = _BEAT_SECONDS if others else _BEAT_SECONDS_ALONE
        await pause(self._look, max(asked_at + seconds - boot_seconds(), 0.0))

    def _see(self, absent: Sequence[Row], tasks: TaskGroup) -> None:
        """Note whose lock is free, and take over from those that have had their time. No beat waits for that."""
        now = boot_seconds()
        seen = {row["id"]: _Gone(now, row["trust_seconds"]) for row in absent}
        for id_, gone in self._gone.items():
            if id_ in seen and seen[id_].trust_seconds == gone.trust_seconds:
                seen[id_] = gone
        self._gone = seen
        due = {id_: gone.trust_seconds for id_, gone in seen.items() if gone.has_waited(now)}
        if due and (self._inheriting is None or self._inheriting.done()):
            taking = self._inherit(list(due), list(due.values()))
            self._inheriting = tasks.create_task(taking, name="take-over of members")

    async def _inherit(self, ids: Sequence[int], trust_seconds: Sequence[float | None]) -> None:
        try:
            rows = await self._database.fetch("delivery.inherit", ids, trust_seconds)
        except DatabaseError as error:
            _log.warning("take_over_waits", error=str(error))  # the next beat tries again
            return
        if rows:
            _log.info("claims_taken_over", deliveries=len(rows))
            self._mark_due(list(dict.fromkeys(row["subscription_id"] for row in rows)))

    def _step_down(self) -> None:
        """Trust nothing that another server has answered."""
        for membership in (self._membership, self._former):
            if membership is not None:
                membership.end()
