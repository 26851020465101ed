"""Each seeded bug of a failover is found by a check that holds without it (HA-02, HA-11, HA-13, HA-22, OR-03)."""

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import asyncpg
import pytest

import db.pool
import hub.publish
from app.chaos.seeded_bugs import SEEDED_BUGS
from app.settings.settings import Settings
from db.errors import HeldBack, OutcomeUnknown
from db.numbers import Numbers
from db.pool import Database, PoolOptions, Row, open_database
from db.pooling.ready_pool import ReadyPool
from db.replication.primary import Primary
from db.replication.standby_fence import Required, StandbyFence, Standbys
from event.event import Draft
from hub.publish import Publisher
from tests.databases import Ensure
from tests.models import standby_fence as model
from tests.models.explorer import Broken, explore

SEEDED = pytest.mark.parametrize("seeded", [True, False], ids=["seeded", "without"])


@pytest.fixture
def seed_bug(monkeypatch: pytest.MonkeyPatch, trusted_copies: Ensure) -> Callable[[str], None]:
    """Put in a bug for the length of a test. Who opens a database looks for drawn numbers, also in a copy."""
    monkeypatch.setattr(Numbers, "ensure", trusted_copies)
    for owner, name in (
        (Primary, "admit"), (Primary, "hear"), (Database, "fetch_fenced"), (Settings, "has_direct_path"),
        (hub.publish, "_store"), (db.pool, "confirmed"), (Numbers, "ensure"),
    ):  # fmt: skip
        monkeypatch.setattr(owner, name, getattr(owner, name))  # restored afterwards
    return lambda name: SEEDED_BUGS[name]()


class World(Database):
    """A server on which another commit comes while rows are read. Its standby has nothing of that yet."""

    def __init__(self) -> None:
        fence = StandbyFence(Required(count=1), wait_seconds=0)
        super().__init__(None, PoolOptions("postgresql://nowhere", fence=fence))
        self._position = 1

    async def fetch(self, name: str, *args: object) -> Sequence[Row]:
        self._position += 1
        return [{"name": name, "arguments": len(args)}]

    async def fetchrow(self, name: str, *args: object) -> Row | None:
        return Standbys(self._position, self._position, f"{name} {args}", "one", True, ("two",), (1,))._asdict()


@SEEDED
@pytest.mark.parametrize(
    ("bug", "statement"), [("fence-before-rows", "outbox.claim"), ("claim-past-fence", "delivery.claim")]
)
async def test_what_no_standby_has_does_not_leave(
    seeded: bool, bug: str, statement: str, seed_bug: Callable[[str], None]
) -> None:
    if seeded:
        seed_bug(bug)
    try:
        has_left = bool(await World().fetch_fenced(statement))
    except HeldBack:
        has_left = False
    assert has_left is seeded


class DirectOffer:
    """The direct path of a worker that has room."""

    def __init__(self) -> None:
        self.taken: list[Row] = []

    def begin(self, drafts: int) -> Any:
        return SimpleNamespace(terms=(drafts,), take=self.taken.extend)


@SEEDED
async def test_the_direct_path_sends_nothing_that_no_standby_has(seeded: bool, seed_bug: Callable[[str], None]) -> None:
    if seeded:
        seed_bug("direct-past-fence")
    settings = Settings(database_url="postgresql://h/d", standby_fence="names:one,two")
    offer: Any = DirectOffer()
    publisher = Publisher(World(), lambda _: None, direct=offer)
    running = asyncio.create_task(publisher.run())
    with pytest.raises(OutcomeUnknown):
        await publisher.publish([Draft("t", b"1")])
    publisher.stop()
    await running
    assert (settings.has_direct_path, len(offer.taken)) == ((True, 1) if seeded else (False, 0))


class WarnedConnection:
    """A connection whose commit gets the warning of a wait that was ended."""

    generation = 0

    def __init__(self) -> None:
        self._hear: Callable[[object, object], None] = lambda *_: None

    def add_log_listener(self, hear: Callable[[object, object], None]) -> None:
        self._hear = hear

    def remove_log_listener(self, hear: Callable[[object, object], None]) -> None:
        assert hear is self._hear

    def is_in_transaction(self) -> bool:
        return False

    def terminate(self) -> None:
        """A statement that took too long would close it."""

    async def execute(self, text: str, *args: object) -> str:
        self._hear(self, SimpleNamespace(server_source_function="SyncRepWaitForLSN", text=text, arguments=args))
        return "INSERT 0 1"


class WarnedPool:
    async def acquire(self) -> WarnedConnection:
        return WarnedConnection()

    async def release(self, connection: WarnedConnection) -> None:
        assert connection.generation == 0


@SEEDED
async def test_a_commit_whose_wait_was_ended_is_no_success(seeded: bool, seed_bug: Callable[[str], None]) -> None:
    if seeded:
        seed_bug("warning-overlooked")
    options = PoolOptions("postgresql://nowhere", fence=StandbyFence(Required(count=1)))
    try:
        is_success = bool(
            await Database(ReadyPool(WarnedPool()), options).execute("outbox.ensure_topics", ["default"], ["t"])
        )
    except OutcomeUnknown:
        is_success = False
    assert is_success is seeded


@SEEDED
def test_no_session_of_before_a_failover_is_used_on(seeded: bool, seed_bug: Callable[[str], None]) -> None:
    if seeded:
        seed_bug("old-sessions")
    model._ends_old_sessions.cache_clear()
    try:
        explore(model.StandbyFence(model.FenceRules(), "outbox", is_last_after=True), 30_000)
        found = ""
    except Broken as broken:
        found = broken.rule[:4]
    finally:
        model._ends_old_sessions.cache_clear()
    assert found == ("lost" if seeded else "")


@SEEDED
async def test_no_sequence_stays_behind_the_numbers_in_use(
    seeded: bool, seed_bug: Callable[[str], None], database_url: str
) -> None:
    if seeded:
        seed_bug("sequence-behind")
    sql = await asyncpg.connect(database_url)
    for _ in range(3):
        await sql.execute("SELECT hookwire.publish('t', 'x'::text)")
    await sql.execute("SELECT setval('hookwire.event_id', 1)")
    await sql.close()
    database = await open_database(PoolOptions(database_url))
    try:
        behind = [row["sequence"] for row in await database.fetch("sequence.behind")]
    finally:
        await database.aclose()
    assert behind == (["event_id"] if seeded else [])
