"""A scenario: our processes under load, receivers with logs, and the judgement at the end.

::

    writers (HTTP) ----> child 1 ---+                     +--> receiver "ordered"
        |                child 2 ---+---> PostgreSQL -----+--> receiver "plain"
    transactors (SQL) --------------'         |           +--> further sinks, each with a reader of its own
        |                                     '--> archive, dead letters
        v                                                 v
    history.jsonl -------------------> check() <------ arrivals-*.jsonl

The order of a run: open the scenario, begin the load, inject faults, end the load, wait until all is quiet, judge.
"""

from __future__ import annotations

import asyncio
import json
import random
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from app.chaos.arrivals import Arrival, DeadLetter, OnItsWay, read_arrivals
from app.chaos.checker import Promise, Report, check
from app.chaos.child import Child
from app.chaos.client import ChaosClient
from app.chaos.history import Attempt, HistoryWriter, PublishOutcome, read_history
from app.chaos.log import LineLog
from app.chaos.mark import Mark
from app.chaos.patience import Patience, PatienceOptions
from app.chaos.receiver import Receiver, open_receiver
from app.chaos.transactor import Transactor
from app.chaos.writer import Writer, WriterOptions
from db.errors import DatabaseError
from db.pool import Database, PoolOptions, Row, open_database

__all__ = ["NotQuiet", "Scenario", "ScenarioOptions", "open_scenario", "scenario_settings"]

TOPIC = "witness.events"
_POLL_SECONDS = 0.1
_DATABASE_SECONDS = 5.0


class NotQuiet(TimeoutError):
    """The system still has work, and it was waited for long enough. The text names the work; nothing in it is
    lost.
    """


@dataclass(frozen=True, slots=True)
class ScenarioOptions:
    """The parts of a scenario.

    ``processes`` run ``command``, every role by default; ``keys`` writers publish over HTTP, one of ``keyless`` without
    a key; ``transactors`` publish over SQL. ``settings`` are further HOOKWIRE_* of the children. ``lease_seconds`` is
    the relays'; deliveries are leased for ``delivery_timeout_seconds`` and five seconds more. ``promises`` names
    further sinks whose readers write ``arrivals-<sink>.jsonl`` into ``folder``. ``tree`` holds the code of another
    version, which the children start with.
    """

    database_url: str
    folder: Path
    seed: int = 0
    processes: int = 2
    command: Sequence[str] = ("serve",)
    keys: int = 8
    keyless: int = 1
    transactors: int = 2
    pause_seconds: float = 0.05
    lease_seconds: float = 1.0
    delivery_timeout_seconds: float = 1.0
    refused_share: float = 0.01
    seeded_bug: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    promises: Mapping[str, Promise] = field(default_factory=dict)
    tree: Path | None = None


class Scenario:
    """Made by :func:`open_scenario`. ``accepted`` counts the events whose acceptance was answered."""

    def __init__(
        self, options: ScenarioOptions, database: Database, children: Sequence[Child], receivers: Sequence[Receiver],
        history: LineLog,
    ) -> None:  # fmt: skip
        self.options = options
        self.database = database
        self.children = children
        self.receivers = {receiver.sink: receiver for receiver in receivers}
        self.accepted = 0
        self._history = HistoryWriter(history)

    # --- load

    @asynccontextmanager
    async def load(self) -> AsyncIterator[None]:
        """Publish while the block runs; on leaving, every event that was begun gets a clear answer first.

        Each load is a run of its own: its keys count from 1 again.
        """
        run = secrets.token_hex(4)
        publishers: list[Writer | Transactor] = [*self._writers(run), *self._transactors(run)]
        async with asyncio.TaskGroup() as tasks:
            for publisher in publishers:
                tasks.create_task(publisher.run())
            try:
                yield
            finally:
                for publisher in publishers:
                    publisher.stop()

    def _writers(self, run: str) -> Iterator[Writer]:
        options = self.options
        ports = [child.port for child in self.children]
        keys: list[str | None] = [f"key {number}" for number in range(options.keys)] + [None] * options.keyless
        for number, key in enumerate(keys):
            yield Writer(
                self._history,
                WriterOptions(run, TOPIC, key, ports, number, options.pause_seconds),
                self._on_ok,
            )

    def _transactors(self, run: str) -> Iterator[Transactor]:
        for number in range(self.options.transactors):
            chance = random.Random(f"{self.options.seed}/transactor/{number}")  # noqa: S311 - a seeded plan
            yield Transactor(self.database, self._history, run, TOPIC, f"sql {number}", chance, self._on_ok)

    async def burst(self, count: int, keys: int = 40) -> None:
        """Publish so many events in one transaction: a full send window for their relay."""
        run, at = secrets.token_hex(4), time.time()
        marks = [Mark(run, TOPIC, f"burst {number % keys}", 1 + number // keys) for number in range(count)]
        await self.database.execute(
            "witness.burst", TOPIC, [mark.key for mark in marks], [mark.to_payload(at) for mark in marks]
        )
        for mark in marks:
            self._history.record(Attempt(mark, PublishOutcome.OK, client_time=at))

    def _on_ok(self) -> None:
        self.accepted += 1

    # --- looking

    async def subscribe(self, receiver: Receiver, *, ordered: bool) -> None:
        """Subscribe a receiver to everything that is published here."""
        body = json.dumps({"topic": TOPIC, "callback": receiver.callback, "ordered": ordered}).encode()
        client = ChaosClient(self.children[0].port, 10)
        answer = await client.request("POST", "/subscriptions", body, {"Content-Type": "application/json"})
        client.close()
        assert answer.status == 201, answer.body

    async def leader(self, sink: str = "webhooks") -> Child | None:
        """Return the child that leads a sink now, by the database's word."""
        owner = await self.database.fetchval("witness.leader", sink)
        pid = int(owner.rpartition("-")[2]) if owner else 0
        return next((child for child in self.children if child.is_running and child.pid == pid), None)

    async def window(self, sink: str) -> int:
        """Return how many records of a sink's leader are in flight."""
        return int(await self.database.fetchval("witness.window", sink))

    async def unanswered(self) -> int:
        """Return how many attempts got no answer in time; each may repeat its event, also without any fault."""
        return int(await self.database.fetchval("witness.unanswered"))

    async def quiet(
        self, seconds_max: float, still_seconds_max: float | None = None,
        on_progress: Callable[[str, float], None] = lambda _told, _seconds: None,
    ) -> float:  # fmt: skip
        """Wait until no event is in flight, as long as their number falls; return the seconds that it took.

        ``still_seconds_max``: the limit without a lower number, by default the limit of the whole. ``on_progress`` gets
        the open work in words, and the seconds so far. Raises :class:`NotQuiet`.
        """
        began = now = time.monotonic()
        patience = Patience(PatienceOptions(seconds_max, still_seconds_max or seconds_max), began)
        told = "the database does not answer"
        number: int | None = None
        while patience.lasts(number, now):
            row = await self._pending()
            if row is not None and not any(row.values()):
                return time.monotonic() - began
            if row is not None:
                number, told = row["on_their_way"], _told(row)
            await asyncio.sleep(_POLL_SECONDS)
            now = time.monotonic()
            on_progress(told, now - began)
        raise NotQuiet(f"{told} after {now - began:.0f} s")

    async def _pending(self) -> Row | None:
        """Return the counts of open work; None while the database does not answer."""
        try:
            async with asyncio.timeout(_DATABASE_SECONDS):
                return await self.database.fetchrow("witness.pending")
        except (DatabaseError, TimeoutError):
            return None

    @property
    def crashes(self) -> Sequence[str]:
        """Return the children that have ended by themselves, with their codes; no injected fault does that."""
        return [f"{child.name} ended with code {code}" for child in self.children for code in child.crashes]

    # --- judging

    async def judge(self) -> Report:
        """Return the witness's verdict over all sinks and the archive.

        Events on their way are read first, then dead letters, then arrivals: an event that moves is seen twice.
        """
        promises = {**self._receivers(), "archive": Promise.RECORD, **self.options.promises}
        on_their_way = await self._on_their_way()
        dead_letters = await self._dead_letters()
        arrivals = [*await self._archive(), *self._arrivals()]
        return check(self._attempts(), arrivals, dead_letters, promises, on_their_way)

    def judge_so_far(self) -> Report:
        """Return a verdict on the arrivals up to now; ``lost`` means nothing yet."""
        arrivals = list(self._arrivals())
        return check(self._attempts(), arrivals, (), {**self._receivers(), **self.options.promises})

    def _receivers(self) -> dict[str, Promise]:
        return {sink: Promise.RECORD if sink == "ordered" else Promise.UNORDERED for sink in self.receivers}

    def _attempts(self) -> Iterable[Attempt]:
        return read_history(self.options.folder / "history.jsonl")

    def _arrivals(self) -> Iterator[Arrival]:
        for sink in (*self.receivers, *self.options.promises):
            yield from read_arrivals(self.options.folder / f"arrivals-{sink}.jsonl")

    async def _archive(self) -> list[Arrival]:
        rows = await self.database.fetch("witness.archive", TOPIC)
        return [
            Arrival("archive", index, Mark.from_payload(row["payload"]), None, row["id"] if row["ordered"] else None)
            for index, row in enumerate(rows)
        ]

    async def _dead_letters(self) -> list[DeadLetter]:
        rows = await self.database.fetch("witness.dead_letters", TOPIC)
        return [DeadLetter(self._sinks[row["callback"]], Mark.from_payload(row["payload"])) for row in rows]

    async def _on_their_way(self) -> list[OnItsWay]:
        """Return the events that the database owes to the judged sinks; other sinks may have no reader."""
        rows = await self.database.fetch("witness.on_their_way", TOPIC)
        return [OnItsWay(sink, Mark.from_payload(row["payload"])) for row in rows for sink in self._owed_to(row)]

    def _owed_to(self, row: Row) -> Sequence[str]:
        if row["callback"] is not None:
            return (self._sinks[row["callback"]],) if row["callback"] in self._sinks else ()
        if row["sink"] == "webhooks":
            return tuple(self.receivers)
        return (row["sink"],) if row["sink"] in self.options.promises else ()

    @property
    def _sinks(self) -> Mapping[str, str]:
        """Return the sink of each callback."""
        return {receiver.callback: receiver.sink for receiver in self.receivers.values()}


def _told(row: Row) -> str:
    """Return the open work in words: events on their way, and other work by its name."""
    others = [f"{count:,} {name}" for name, count in row.items() if count and name != "on_their_way"]
    return ", ".join([f"{row['on_their_way']:,} on their way", *others])


@asynccontextmanager
async def open_scenario(options: ScenarioOptions) -> AsyncIterator[Scenario]:
    """Start everything and subscribe the receivers; on leaving, no process and no connection is left."""
    async with AsyncExitStack() as stack:
        history = stack.enter_context(LineLog(options.folder / "history.jsonl"))
        chance = random.Random(f"{options.seed}/receivers")  # noqa: S311 - a seeded plan
        receivers = [
            await stack.enter_async_context(open_receiver(sink, options.folder, chance, options.refused_share))
            for sink in ("ordered", "plain")
        ]
        pool = PoolOptions(options.database_url, application_name="witness", connections_max=10, statement_seconds=10)
        database = await open_database(pool)
        stack.push_async_callback(database.aclose)
        children = [
            Child(f"child-{number}", options.folder, scenario_settings(options), options.seeded_bug, options.command)
            for number in range(1, options.processes + 1)
        ]
        for child in children:
            child.tree = options.tree or child.tree
            stack.push_async_callback(child.end)
        async with asyncio.TaskGroup() as starting:
            for child in children:
                starting.create_task(child.start())
        scenario = Scenario(options, database, children, receivers, history)
        for receiver in receivers:
            await scenario.subscribe(receiver, ordered=receiver.sink == "ordered")
        yield scenario


def scenario_settings(options: ScenarioOptions) -> dict[str, str]:
    """Return HOOKWIRE_* of the children, without the prefix."""
    return {
        "DATABASE_URL": options.database_url,
        "DATABASE_CONNECTIONS_MAX": "8",
        "DATA_DIR": str(options.folder / "data"),
        "LEASE_SECONDS": str(options.lease_seconds),
        "DELIVERY_TIMEOUT_SECONDS": str(options.delivery_timeout_seconds),
        "RETRY_SCHEDULE_SECONDS": ",".join(["1"] * 40),
        "LOG_FORMAT": "json",
        **options.settings,
    }
