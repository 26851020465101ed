"""Layout: the number of partition groups of each sink, and the order scope; changed while relays run.

::

    close the leases --> all left --> raise the terms --> fence each old producer --> switch --> open
         |                 |                |                      |
         +-----------------+----------------+----------------------+--- anything fails: open them as they were

Leases are closed, so that relays finish the records in flight and leave. Terms are raised, so that the database refuses
any other leader. Each old group's sink is opened once more under its old name. That fences its producer or waits for
its lock queue, and settles its manifests. Then one transaction numbers the new layout and creates its leases.
Publishing continues, and new records wait. Only a change of the order scope delays it, while waiting records
are hashed anew.

The order scope is ``topic_key``: a topic's key is a lane; or ``key``: a key is one lane through all topics.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass

from db.direct import Direct
from db.errors import Busy, DatabaseError
from db.holders import holders_text
from db.pool import Database, Session
from relay.harvester import MarkerAhead
from relay.outbox import Outbox
from relay.sink import SHARDS, Fenced, OrderScope, Sink, SinkUnavailable, Term

__all__ = ["Layout", "LayoutChange", "LayoutPlan", "LayoutRefused", "Relayout", "WrongLayout", "read_layout"]

_HASHING: Mapping[OrderScope, str] = {"topic_key": "layout.order_by_topic_key", "key": "layout.order_by_key"}
_HASHED_MAX = 200_000
_HELD = "records are held, and their order would change; see hookwire deadletters list, and retry, skip or purge them"
_LOOK_SECONDS = 0.1
_LOCK_SECONDS = 2.0


class LayoutRefused(Exception):
    """The layout stays as it was; the text says why."""


class WrongLayout(LayoutRefused):
    """No wait can make this layout possible: this installation, or any, cannot have it."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A numbered layout. ``groups``: the number of groups of each sink, if it is not one."""

    number: int
    groups: Mapping[str, int]
    order_scope: OrderScope

    def groups_of(self, sink: str) -> int:
        """Return how many groups a sink has."""
        return self.groups.get(sink, 1)


@dataclass(frozen=True, slots=True)
class LayoutChange:
    """The requested change: groups of some sinks, an order scope; None: unchanged."""

    groups: Mapping[str, int]
    order_scope: OrderScope | None = None


@dataclass(frozen=True, slots=True)
class LayoutPlan:
    """A change to make. ``sinks`` pause during the change; ``waiting`` counts their records up to a bound. No sinks:
    nothing to do.
    """

    before: Layout
    after: Layout
    sinks: Sequence[str]
    waiting: Mapping[str, int]
    owners: Sequence[str]


async def read_layout(session: Session) -> Layout:
    """Return the layout as it is now."""
    row = await session.fetchrow("layout.current")
    assert row is not None, "the installation has a layout"
    return Layout(row["number"], json.loads(row["groups"]), row["order_scope"])


class Relayout:
    """One change. ``make_sink`` returns a sink that fences old producers, None where the term alone fences. ``say``
    gets a line for each step, and ``patience_seconds`` limits each step.
    """

    def __init__(
        self,
        database: Database,
        connect: Callable[[], Awaitable[Direct]],
        incarnation: str,
        make_sink: Callable[[str], Sink | None],
        say: Callable[[str], None],
        patience_seconds: float = 60.0,
    ) -> None:
        self._database = database
        self._connect = connect
        self._incarnation = incarnation
        self._make_sink = make_sink
        self._say = say
        self._patience_seconds = patience_seconds

    async def plan(self, change: LayoutChange) -> LayoutPlan:
        """Return the plan of a change; raise :class:`LayoutRefused`, ``db.errors.DatabaseError``."""
        before = await read_layout(self._database)
        sinks = [row["name"] for row in await self._database.fetch("layout.sinks")]
        rows = await self._database.fetch("layout.waiting", _HASHED_MAX + 1)
        waiting: dict[str, int] = {row["sink"]: row["owed"] + row["held"] for row in rows}
        for sink, count in change.groups.items():
            if sink not in sinks:
                raise WrongLayout(f"{sink}: this installation has no such sink; it has {', '.join(sinks)}")
            if not 1 <= count <= SHARDS:
                raise WrongLayout(f"{sink}={count}: a sink has 1 to {SHARDS} groups")
        after = Layout(before.number + 1, {**before.groups, **change.groups}, change.order_scope or before.order_scope)
        moved = [sink for sink in sinks if before.groups_of(sink) != after.groups_of(sink)]
        if before.order_scope != after.order_scope:
            moved = sinks
            if sum(waiting.values()) > _HASHED_MAX:
                raise LayoutRefused(
                    f"more than {_HASHED_MAX:,} events wait, and to hash them anew would hold up publishing for long; "
                    "let the relays catch up first"
                )
            if await self._database.fetchval("layout.holds"):
                raise LayoutRefused(_HELD)
        leases = await self._database.fetch("layout.leases")
        owners = sorted({row["owner"] for row in leases if row["owner"] and row["sink"] in moved})
        return LayoutPlan(before, after, moved, {sink: waiting.get(sink, 0) for sink in moved}, owners)

    async def run(self, change: LayoutChange, actor: str, reason: str | None) -> LayoutPlan:
        """Change the layout; return the steps that were done.

        Raises :class:`LayoutRefused`, :class:`relay.sink.SinkUnavailable`, ``db.errors.DatabaseError``; then the leases
        are open and the layout is as it was.
        """
        async with self._alone():
            plan = await self.plan(change)
            await self._open(plan.before)
            if not plan.sinks:
                return plan
            began = time.monotonic()
            try:
                await self._empty(plan.sinks)
                for term in await self._raise(plan.sinks):
                    await self._fence(term)
                await self._switch(plan, actor, reason)
            finally:
                # After the switch they are open already; after a failure nothing has changed but the terms.
                with suppress(DatabaseError):
                    await self._database.fetchrow("layout.set_leases_open", list(plan.sinks), True)
            stood_seconds = time.monotonic() - began
            self._say(f"layout {plan.after.number} is in force; its sinks stood still for {stood_seconds:.1f} s")
            return plan

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        async with aclosing(await self._connect()) as session:
            if not await session.fetchval("layout.lock"):
                raise LayoutRefused("another process is changing the layout now")
            yield

    async def _open(self, layout: Layout) -> None:
        """Open the leases that an interrupted change has left closed."""
        sinks = [row["name"] for row in await self._database.fetch("layout.sinks")]
        row = await self._database.fetchrow("layout.set_leases_open", sinks, True)
        if row is not None and row["count"]:
            self._say(f"an earlier change was cut off: {row['count']} leases of layout {layout.number} are open again")

    async def _empty(self, sinks: Sequence[str]) -> None:
        """Close the leases and wait until no relay holds one."""
        row = await self._database.fetchrow("layout.set_leases_open", list(sinks), False)
        assert row is not None, "an aggregate returns one row"
        self._say(f"closing {row['count']} leases of {', '.join(sinks)}")
        deadline, said = time.monotonic() + self._patience_seconds, ""
        while owners := [row["owner"] for row in await self._database.fetch("layout.occupied", list(sinks))]:
            if time.monotonic() > deadline:
                raise LayoutRefused(f"{', '.join(owners)} did not leave within {self._patience_seconds:g} s")
            if said != (said := f"waiting for {', '.join(owners)} to finish the records in flight"):
                self._say(said)
            await asyncio.sleep(_LOOK_SECONDS)

    async def _raise(self, sinks: Sequence[str]) -> list[Term]:
        """Raise the terms; a stopped leader that holds a row in an open transaction is disconnected."""
        try:
            rows = await self._database.fetch("layout.raise", list(sinks))
        except Busy:
            self._say("disconnecting a leader that hangs in a transaction")
            await self._database.fetchval("term.terminate_blockers")
            rows = await self._database.fetch("layout.raise", list(sinks))
        return [
            Term(row["sink"], row["grp"], row["term"], row["layout"], row["batch_no"], row["groups"]) for row in rows
        ]

    async def _fence(self, term: Term) -> None:
        """Make sure that no producer of an old group can send any more, and settle its manifests."""
        sink = self._make_sink(term.sink)
        if sink is None:
            return
        self._say(f"fencing {term.sink}, group {term.group} of {term.groups}")
        try:
            committed = await self._opened(sink, term)
            if committed is None:
                return
            if committed > term.batch_no:
                raise MarkerAhead(f"{term.sink} has committed batch {committed} of {term.batch_no}")
            await Outbox(self._database, term.sink, self._incarnation, payload=False).settle_manifests(term, committed)
        except MarkerAhead as finding:
            raise LayoutRefused(f"{finding}: the database was restored; see docs/how-to/restore.md") from finding
        finally:
            await sink.close()

    async def _opened(self, sink: Sink, term: Term) -> int | None:
        """Open the sink, with repeats: an AMQP broker gives the lock only when its holder's connection has ended."""
        deadline = time.monotonic() + self._patience_seconds
        while True:
            try:
                return await sink.open(term)
            except (SinkUnavailable, Fenced) as error:
                if time.monotonic() > deadline:
                    raise SinkUnavailable(f"{term.sink}/{term.group} can't be fenced: {error}") from error
            await asyncio.sleep(_LOOK_SECONDS)

    async def _switch(self, plan: LayoutPlan, actor: str, reason: str | None) -> None:
        """Switch in one transaction; repeat while a publishing transaction is open."""
        deadline = time.monotonic() + self._patience_seconds
        while True:
            try:
                async with self._database.transaction() as session:
                    await self._move(session, plan)
                    await session.execute("layout.audit", actor, f"layout {plan.after.number}", reason)
                    await session.execute("member.notify")
            except Busy as error:
                named = holders_text(await self._database.fetch("holder.all", 0.0)) or str(error)
                if time.monotonic() > deadline:
                    raise LayoutRefused(f"a publishing transaction stays open: {named}") from error
                self._say(f"waiting for the end of a publishing transaction: {named}")
                await asyncio.sleep(_LOOK_SECONDS)
            else:
                return

    async def _move(self, session: Session, plan: LayoutPlan) -> None:
        sinks = list(plan.sinks)
        if plan.before.order_scope != plan.after.order_scope:
            await session.fetchval("event.set_lock_timeout", f"{int(_LOCK_SECONDS * 1000)}ms")
            await session.execute("layout.stop_publishing")
            await session.execute(_HASHING[plan.after.order_scope])
            count = await session.execute("layout.hash_owed")
            self._say(f"{count} waiting records hashed anew")
            if await session.fetchval("layout.holds"):
                raise LayoutRefused(_HELD)
        number = await session.fetchval("layout.add", json.dumps(dict(plan.after.groups)), plan.after.order_scope)
        await session.execute("layout.move_held", sinks, number)
        await session.execute("layout.spread_holds", sinks)
        await session.execute("layout.drop_holds", sinks)
        await session.execute("layout.ensure_leases", sinks, number)
