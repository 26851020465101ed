"""Seeded bugs: the product with one promise taken away, to show that the witness would notice.

``python -m app.cli.seeded_bug NAME serve`` is ``hookwire serve`` with one bug; ``hookwire prove --seed-bug NAME``
starts its children so and has to fail. The product itself has no switch for this and no code. Each bug replaces a
function or the text of a statement, from outside, before anything runs. Refused when the profile is production.

A bug that no longer fits the product is stale and refused too, before anything runs: its targets are checked first.
Otherwise the crash of a process might count as the seeded bug.

=====================  ===============================================================================================
ack-before-commit      a publish is answered when its rows are written, 50 ms before COMMIT
purge-before-ack       an outbox row goes before the broker has it
settle-before-answer   a delivery counts as delivered before the subscriber is asked
no-key-lock            two transactions may publish one key at a time
no-term-check          neither term nor clock stops a former leader, and its writes are accepted
shared-lock-queue      two relays may hold the AMQP fence at a time
unroutable-as-sent     an AMQP message that no queue took counts as sent
cursor                 the relay goes on behind the last id that it read, and never looks back
unfenced-settlement    a delivery may be settled by a worker whose claim is over
sinks-in-step          while one sink backs off, no other sends anything
poison-stops-all       a refused record is sent again and again, and everything else of its sink waits (goharvest's way)
offset-regardless      the offset of a Kafka partition moves by all records of a batch, also where some were not stored
lost-as-unsent         a request whose worker is gone counts as one that never left, and runs again whatever its service
old-sessions           sessions of before a failover are used on
fence-before-rows      the standby fence takes its position before the rows are read
direct-past-fence      the direct path sends what the standby fence holds back
claim-past-fence       the worker sends what the standby fence holds back
warning-overlooked     a commit whose wait for a standby was ended counts as replicated
sequence-behind        no sequence is set forward
death-by-pid           a process that holds its lock counts as dead, because this one has its number
free-lock-as-death     a member whose lock is free is taken over from at once
trust-past-limit       a process trusts its membership for ever, and sends what others may have taken over
restart-as-death       locks that a restart of the database has freed count as deaths
double-take-over       each process that sees a dead member takes over from it
take-over-keeps-fence  a claim that was taken over may still be settled by its former owner
=====================  ===============================================================================================
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final

import app.assembly.storage
import app.wiring
import db.bound
import hub.publish
import relay.election.lease
from app.assembly.storage import Storage
from app.chaos.bugs.failover import FAILOVER_BUGS
from app.chaos.bugs.replacing import StaleBug, expect, replace
from app.chaos.bugs.take_over import TAKE_OVER_BUGS
from app.settings.settings import Settings, SettingsRefused
from db.errors import DatabaseError
from db.pool import Row, Session
from relay.amqp.link import Link
from relay.election.port import Lease
from relay.harvester import Harvester
from relay.outbox import Outbox
from relay.record import Record
from relay.sink import Batch, Receipt, Refusal, SinkUnavailable, Term
from reqrep.majordomo.broker import Broker
from reqrep.majordomo.worker import Worker as ServiceWorker
from webhooks.outcome import Outcome
from webhooks.result import Result
from webhooks.retry import DELIVERED
from webhooks.schedule import Dispatch
from webhooks.settlement import Settlement
from webhooks.worker import Worker

__all__ = ["SEEDED_BUGS", "StaleBug", "apply"]

_EARLY_SECONDS = 0.05
"""The time by which a bug acts too early. It is long enough for a kill to happen within it now and then."""


def _rewrite(names: str, pattern: str, replacement: str, at_least: int) -> None:
    """Rewrite the statements whose names match; they must have so many places, or it raises :class:`StaleBug`."""
    texts = dict(db.bound.STATEMENTS)  # type: ignore[attr-defined] # the name in that module is replaced
    found = {name: re.subn(pattern, replacement, text) for name, text in texts.items() if re.fullmatch(names, name)}
    if (count := sum(places for _, places in found.values())) < at_least:
        raise StaleBug(f"{count} places of {names} can be broken, no longer {at_least}")
    changed = {name: text for name, (text, _) in found.items()}
    setattr(db.bound, "STATEMENTS", MappingProxyType(texts | changed))  # noqa: B010 - mypy: not exported there


def _ack_before_commit() -> None:
    def make(store: Any) -> Any:
        async def early(session: Any, units: Sequence[Any], direct: Any = None, *, wait: bool) -> Sequence[Row]:
            if wait:  # is in a transaction of its own already
                return await _stored(store, session, units, direct, wait=True)
            answered: asyncio.Future[Sequence[Row]] = asyncio.get_running_loop().create_future()

            async def commit_late() -> None:
                try:
                    async with session.transaction() as transaction:
                        answered.set_result(await _stored(store, transaction, units, direct, wait=False))
                        await asyncio.sleep(_EARLY_SECONDS)
                except DatabaseError as error:
                    if not answered.done():
                        answered.set_exception(error)

            _background(commit_late())
            return await answered

        return early

    replace(hub.publish, "_store", "async (session, units, direct=None, *, wait)", make)


async def _stored(store: Any, session: Session, units: Sequence[Any], direct: Any, *, wait: bool) -> Sequence[Row]:
    rows: Sequence[Row] = await store(session, units, direct, wait=wait)
    return rows


_tasks: set[asyncio.Future[None]] = set()


def _background(work: Any) -> None:
    task = asyncio.ensure_future(work)
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


def _purge_before_ack() -> None:
    def make(carry: Any) -> Any:
        async def hasty(self: Any, batch: Batch, setbacks: int, slots: asyncio.Semaphore) -> None:
            if not self._sink.features.purges:
                await self._outbox.purge(Batch(batch.term, batch.records), batch.records)
                await asyncio.sleep(_EARLY_SECONDS)
            await carry(self, batch, setbacks, slots)

        return hasty

    expect(Outbox, "purge", "async (self, batch, acknowledged)")
    replace(Harvester, "_carry", "async (self, batch, setbacks, slots)", make)


def _settle_before_answer() -> None:
    def make(attempt: Any) -> Any:
        async def hasty(self: Any, dispatch: Dispatch) -> None:
            for claim in dispatch.claims:
                subscriber = claim.subscriber
                self._settlement.add(
                    Result(
                        claim.event.id, subscriber.id, claim.fence, subscriber.version, datetime.now(UTC),
                        Outcome("delivered", 204), DELIVERED,
                    )
                )  # fmt: skip
            await asyncio.sleep(_EARLY_SECONDS)
            await attempt(self, dispatch)

        return hasty

    expect(Settlement, "add", "(self, result)")
    replace(Worker, "_attempt", "async (self, dispatch)", make)


def _no_key_lock() -> None:
    _break_functions("seeded_bug.forget_keys")


def _offset_regardless() -> None:
    _break_functions("seeded_bug.move_regardless")


def _break_functions(statement: str) -> None:
    """Run a statement that replaces a function, whenever a process opens the database."""

    def make(open_storage: Any) -> Any:
        @asynccontextmanager
        async def opened(settings: Settings, *, is_migrated: bool = False) -> AsyncIterator[Storage]:
            async with open_storage(settings, is_migrated=is_migrated) as storage:
                with suppress(DatabaseError):  # another process may be replacing the function at this moment
                    await storage.database.execute(statement)
                yield storage

        return opened

    if statement not in db.bound.STATEMENTS:  # type: ignore[attr-defined]
        raise StaleBug(f"there is no statement {statement}")
    for opener in (app.assembly.storage, app.wiring):  # a start opens it before the hub is built, where it may
        replace(opener, "open_storage", "(settings, *, is_migrated=False)", make)


def _no_term_check() -> None:
    _rewrite(
        r"(outbox|manifest|hold|term)\.\w+|delivery\.fan_out\w*",
        r"\b(\w+\.)?term = (\$\d+)",
        r"\2::bigint IS NOT NULL",
        at_least=13,
    )

    async def believe(self: Outbox, term: Term) -> Term:
        return term

    def stay(_: Lease, reason: str) -> None:
        assert reason, "no process loses the leadership without a reason"

    async def never(lease: Lease, *_: object) -> None:
        await lease.lost.wait()

    def trust(_: relay.election.lease.LeaseElection, group: int) -> bool:
        return group >= 0

    replace(Outbox, "assert_term", "async (self, term)", lambda _: believe)
    replace(Lease, "lose", "(self, reason)", lambda _: stay)
    replace(relay.election.lease.LeaseElection, "trusted", "(self, group)", lambda _: trust)
    replace(relay.election.lease, "until_untrusted", "async (lease, trusted_until, whose)", lambda _: never)


def _shared_lock_queue() -> None:
    async def take_lock(self: Any, name: str) -> None:
        async with self._throwaway() as channel:
            await channel.declare_queue(name, arguments={"x-max-length": 1})

    expect(Link, "_throwaway", "(self)")
    replace(Link, "take_lock", "async (self, name)", lambda _: take_lock)


def _unroutable_as_sent() -> None:
    def make(publish: Any) -> Any:
        async def credulous(self: Any, *arguments: Any) -> Refusal | None:
            refusal: Refusal | None = await publish(self, *arguments)
            return None if refusal is not None and refusal.reason == "unroutable" else refusal

        return credulous

    replace(Link, "_publish_on", "async (self, channel, record, message, routing_key, seconds)", make)


def _cursor() -> None:
    def make(claim: Any) -> Any:
        async def onward(self: Any, term: Term, in_flight: Collection[int], limit: int, bytes_max: int) -> list[Record]:
            records: list[Record] = await claim(self, term, in_flight, limit, bytes_max)
            if records:
                self._low = {shard: max(low, records[-1].id + 1) for shard, low in self._low.items()}
            return records

        return onward

    replace(Outbox, "claim", "async (self, term, in_flight, limit, bytes_max)", make)


def _unfenced_settlement() -> None:
    _rewrite(r"delivery\.settle", r"\s+AND (\w+\.fence = r\.fence|fence = ANY \(\$3::bigint\[\]\))", "", at_least=4)


def _sinks_in_step() -> None:
    ill: set[str] = set()

    def report(original: Any) -> Any:
        def fallen_ill(self: Harvester, term: Term, error: Exception) -> None:
            ill.add(self._sink.name)
            original(self, term, error)

        return fallen_ill

    def note(original: Any) -> Any:
        def recovered(self: Harvester, batch: Batch, receipt: Receipt) -> None:
            if receipt.acknowledged:
                ill.discard(self._sink.name)
            original(self, batch, receipt)

        return recovered

    def send(original: Any) -> Any:
        async def in_step(self: Harvester, *arguments: Any, **options: Any) -> Receipt:
            while ill - {self._sink.name}:  # noqa: ASYNC110 - a seeded bug may poll
                await asyncio.sleep(_EARLY_SECONDS)
            receipt: Receipt = await original(self, *arguments, **options)
            return receipt

        return in_step

    replace(Harvester, "_report", "(self, term, error)", report)
    replace(Harvester, "_note", "(self, batch, receipt)", note)
    replace(Harvester, "_send", "async (self, batch, *, held=False)", send)


def _poison_stops_all() -> None:
    def make(note: Any) -> Any:
        def stop(self: Harvester, batch: Batch, receipt: Receipt) -> None:
            if receipt.refused:
                raise SinkUnavailable("a record was refused")
            note(self, batch, receipt)

        return stop

    replace(Harvester, "_note", "(self, batch, receipt)", make)


def _lost_as_unsent() -> None:
    def make(_: Any) -> Any:
        def resend(self: Broker, now: float, worker: ServiceWorker, reason: str) -> None:
            self._undeliver(now, worker, reason)

        return resend

    replace(Broker, "_on_refused_heartbeat", "(self, now, worker, reason)", make)


def _take_over_keeps_fence() -> None:
    _rewrite(r"delivery\.(take_over|inherit)", r", fence = fence\.value", "", 2)


def _restart_as_death() -> None:
    _rewrite(r"delivery\.inherit", r" AND m\.server_run = run\.server_run", "", 1)


def _double_take_over() -> None:
    _rewrite(
        r"delivery\.inherit",
        r"DELETE\s+FROM (hookwire\.delivery_members m)\s+USING",
        r"UPDATE \1 SET name = name FROM",
        1,
    )
    _rewrite(r"delivery\.inherit", r", member = NULL", "", 1)


SEEDED_BUGS: Final[Mapping[str, Callable[[], None]]] = MappingProxyType(
    {
        "ack-before-commit": _ack_before_commit,
        "purge-before-ack": _purge_before_ack,
        "settle-before-answer": _settle_before_answer,
        "no-key-lock": _no_key_lock,
        "no-term-check": _no_term_check,
        "shared-lock-queue": _shared_lock_queue,
        "unroutable-as-sent": _unroutable_as_sent,
        "cursor": _cursor,
        "unfenced-settlement": _unfenced_settlement,
        "sinks-in-step": _sinks_in_step,
        "poison-stops-all": _poison_stops_all,
        "offset-regardless": _offset_regardless,
        "lost-as-unsent": _lost_as_unsent,
        **FAILOVER_BUGS,
        **TAKE_OVER_BUGS,
        "restart-as-death": _restart_as_death,
        "double-take-over": _double_take_over,
        "take-over-keeps-fence": _take_over_keeps_fence,
    }
)


def apply(name: str, settings: Settings) -> None:
    """Break this process; raises SettingsRefused for an unknown name and in production, else :class:`StaleBug`."""
    if settings.profile == "production":
        raise SettingsRefused("seeded bugs are refused in production")
    if name not in SEEDED_BUGS:
        raise SettingsRefused(f"{name!r} is no seeded bug; there are {', '.join(SEEDED_BUGS)}")
    SEEDED_BUGS[name]()
