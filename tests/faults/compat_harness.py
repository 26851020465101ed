"""What the fault scenarios of compat mode share: goharvest's own table, writers, relays of it, and the verdict (RO-01).

::

    writers (SQL) --> outbox --> hookwire relay --compat-table, several --> Kafka topic, read committed
        |                                                                        v
        v                                                                  arrivals-kafka.jsonl
    history.jsonl ---------------------> check() <-----------------------------'

goharvest's rows carry no term, so a former leader shows as a run that begins below the one before it, which a batch
window's promise forbids (RR-01).
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from app.chaos.arrivals import read_arrivals
from app.chaos.checker import check
from app.chaos.child import Child
from app.chaos.history import Attempt, HistoryWriter, PublishOutcome, read_history
from app.chaos.log import LineLog
from app.chaos.mark import Mark
from app.chaos.scenario import TOPIC
from db.errors import DatabaseError
from db.pool import Database, PoolOptions, open_database
from db.statements import for_outbox
from relay.goharvest.compat_table import CompatTable
from tests.faults.harness import Kafka, Verdict, verdict
from tests.relay.kafka.kafka_topic import make_topic
from tests.waiting import until

TABLE = "outbox"
_WAITS = f"SELECT EXISTS (SELECT FROM {TABLE})"
_STANDS = "SELECT EXISTS (SELECT FROM hookwire.relay_members WHERE name LIKE $1 AND until > clock_timestamp())"


class CompatHarness:
    """``relays`` share one table by a lease; ``written`` counts the rows that are committed."""

    def __init__(
        self, folder: Path, database: Database, history: LineLog, relays: Sequence[Child], kafka: Kafka
    ) -> None:
        self.relays = relays
        self.written = 0
        self._folder = folder
        asked = {"compat_harness.stands": _STANDS, "compat_harness.waits": _WAITS}
        self._database = database.with_statements({**for_outbox(TABLE), **asked})
        self._table = CompatTable(database, TABLE)
        self._history = HistoryWriter(history)
        self._kafka = kafka

    @asynccontextmanager
    async def load(self, keys: int, pause_seconds: float) -> AsyncIterator[None]:
        """Write while the block runs, one writer for each key; each load is a run of its own."""
        stopping = asyncio.Event()
        run = secrets.token_hex(4)
        async with asyncio.TaskGroup() as writers:
            for number in range(keys):
                writers.create_task(self._write(run, f"key {number}", pause_seconds, stopping))
            try:
                yield
            finally:
                stopping.set()

    async def _write(self, run: str, key: str, pause_seconds: float, stopping: asyncio.Event) -> None:
        """The only writer of its key, so its numbers are in the order of its commits."""
        n = 0
        while not stopping.is_set():
            n += 1
            mark, at = Mark(run, TOPIC, key, n), time.time()
            row = [self._kafka.prefix + TOPIC, [key], [mark.to_payload(at).decode()], [n], run]
            outcome = PublishOutcome.OK
            try:
                await self._database.execute("compat.stash", *row)
                self.written += 1
            except DatabaseError:
                outcome = PublishOutcome.UNKNOWN  # plain SQL has nothing to repeat it with
            self._history.record(Attempt(mark, outcome, client_time=at))
            await asyncio.sleep(pause_seconds)

    async def writes(self, count: int, seconds_max: float = 60.0) -> None:
        """Wait until so many more rows are committed."""
        goal = self.written + count
        await until(lambda: self.written >= goal, seconds_max)

    async def restart(self, relay: Child, seconds_max: float = 60.0) -> None:
        """SIGTERM, and start it again; returns when it stands for election."""
        code, _ = await relay.drain(seconds_max=30)
        assert code == 0, relay.log_tail()
        await relay.start(wait=False)
        await self.stands(relay, seconds_max)

    async def stands(self, relay: Child, seconds_max: float = 60.0) -> None:
        """Wait until a relay that was started stands for election."""
        await until(lambda: self._database.fetchval("compat_harness.stands", f"%-{relay.pid}"), seconds_max)

    async def leader(self, other_than: Child | None = None, seconds_max: float = 60.0) -> Child:
        """Wait until one of the relays, or another one than this, leads by the database's word."""

        async def found() -> Child | None:
            leader = await self._leader()
            return None if leader is other_than else leader

        leader: Child = await until(found, seconds_max)
        return leader

    async def _leader(self) -> Child | None:
        try:
            owner = await self._database.fetchval("witness.leader", self._table.name)
        except DatabaseError:
            return None
        pid = int(owner.rpartition("-")[2]) if owner else 0
        return next((relay for relay in self.relays if relay.is_running and relay.pid == pid), None)

    async def concluded(self, *, duplicates_max: int, seconds_max: float = 90.0) -> Verdict:
        """Wait until the table is empty, read the topic, judge."""

        async def holds() -> object:
            return not await self._database.fetchval("compat_harness.waits")

        await until(holds, seconds_max)
        await self._kafka.read(self._folder)
        arrivals = read_arrivals(self._folder / f"arrivals-{self._kafka.sink}.jsonl")
        history = read_history(self._folder / "history.jsonl")
        report = check(history, arrivals, [], {self._kafka.sink: self._kafka.promise})
        return verdict(report, duplicates_max)


@asynccontextmanager
async def open_compat_harness(
    database_url: str, folder: Path, kafka: Kafka, *, relays: int = 2, failpoints: str = "",
    settings: Mapping[str, str] | None = None, mapping: str | None = None,
) -> AsyncIterator[CompatHarness]:  # fmt: skip
    """An empty table, its relays under way, and nobody who writes yet. With ``mapping``, the text of a file of
    ``hookwire relay --table``, the relays read the table by it.
    """
    common = {
        "DATABASE_URL": database_url, "DATA_DIR": str(folder / "data"), "LEASE_SECONDS": "1", "LOG_FORMAT": "json",
        "FAILPOINTS": failpoints, **kafka.settings, **(settings or {}),
    }  # fmt: skip
    command = ["relay", "--compat-table", TABLE]
    if mapping is not None:
        (folder / "outbox.toml").write_text(mapping)
        command = ["relay", "--table", str(folder / "outbox.toml")]
    async with AsyncExitStack() as stack:
        history = stack.enter_context(LineLog(folder / "history.jsonl"))
        database = await open_database(PoolOptions(database_url, application_name="witness", connections_max=10))
        stack.push_async_callback(database.aclose)
        await database.with_statements(for_outbox(TABLE)).execute("compat.create_table")
        await make_topic(kafka.bootstrap, kafka.prefix + TOPIC, partitions=3)
        children = [Child(f"relay-{number}", folder, common, command=command) for number in range(1, relays + 1)]
        for child in children:
            stack.push_async_callback(child.end)
            await child.start(wait=False)
        harness = CompatHarness(folder, database, history, children, kafka)
        for child in children:
            await harness.stands(child)
        await harness.leader()
        yield harness
