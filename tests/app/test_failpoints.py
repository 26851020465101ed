"""app/failpoints.py: faults at named steps (IT-01, OR-09)."""

import asyncio
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.failpoints import MOMENTS, POINTS, FailpointDatabase, Failpoints, FailpointSink
from app.settings.settings import SettingsRefused
from db.errors import OutcomeUnknown
from db.pool import PoolOptions, open_database
from relay.outbox import Outbox
from relay.record import Record
from relay.sink import Batch, Term
from tests.relay.harness import relay_harness
from tests.relay.memory import MemoryBroker, MemorySink

TERM = Term("kafka", 0, 1, 1, 0)
RECORD = Record(1, 0, "evt_abcd2345_1", "default", "t", None, None, None, {}, b"", datetime(2026, 1, 1, tzinfo=UTC))


def test_without_a_plan_there_is_nothing_to_wrap() -> None:
    assert (bool(Failpoints("")), bool(Failpoints("publish.after_commit:hang"))) == (False, True)


@pytest.mark.parametrize(
    "plan",
    [
        "publish.after_commit", "publish.after_commit:explode", "nowhere:kill", "publish.after_commit:kill@0",
        "publish.after_commit:kill=2", "publish.after_commit:stall=",
        "publish.after_commit:kill@-1", "publish.after_commit:kill@x", "publish.after_commit:kill;x:kill",
    ],
)  # fmt: skip
def test_a_plan_that_cannot_be_read_is_refused_and_names_the_points(plan: str) -> None:
    with pytest.raises(SettingsRefused, match=r"relay\.after_send"):
        Failpoints(plan)


def test_every_point_can_be_planned_and_spaces_do_not_matter() -> None:
    assert Failpoints(", ".join(f"{point}:error@2" for point in (*POINTS, *MOMENTS)))


async def test_an_error_comes_at_the_nth_passing_and_only_then() -> None:
    points = Failpoints("relay.after_send:error@3")
    fates = []
    for _ in range(4):
        try:
            await points.reach("relay.after_send")
            fates.append("passed")
        except OutcomeUnknown:
            fates.append("failed")
    await points.reach("relay.before_send")
    await points.reach(None)
    assert fates == ["passed", "passed", "failed", "passed"]


@pytest.mark.parametrize(("purged", "passed"), [([], 0), ([6], 1)])
async def test_a_manifest_passes_the_points_of_a_purge_only_where_it_purges(
    database_url: str, purged: list[int], passed: int
) -> None:
    """OR-09: a kill round a purge has to find an acknowledged batch (RR-06)."""
    points = Failpoints("relay.before_purge:error@9,relay.mid_purge:error@9,relay.after_purge:error@9")
    async with relay_harness(database_url) as harness:
        database = FailpointDatabase(harness.database, points)
        outbox, term = Outbox(database, "kafka", "abcd2345", payload=True), await harness.begin_term()
        await outbox.write_manifest(term, [], [Batch(term, [], number) for number in purged])
    assert [points._passed[f"relay.{when}_purge"] for when in ("before", "mid", "after")] == [passed] * 3


async def test_a_fail_point_that_hangs_never_returns() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await Failpoints("relay.after_send:hang").reach("relay.after_send")


async def test_a_delay_comes_at_the_nth_passing_and_at_every_later_one() -> None:
    points = Failpoints("relay.after_send:delay@2")
    delayed = []
    for _ in range(3):
        passing = asyncio.ensure_future(points.reach("relay.after_send"))
        await asyncio.sleep(0)
        delayed.append(not passing.done())
        await passing
    assert delayed == [False, True, True]


async def test_each_stall_blocks_the_loop_for_as_long_as_its_point_says() -> None:
    points = Failpoints("relay.mid_send:stall=0.1,relay.mid_purge:stall=9")
    began = asyncio.get_running_loop().time()
    await points.reach("relay.mid_send")
    assert 0.1 <= asyncio.get_running_loop().time() - began < 9


async def test_a_point_in_the_middle_is_passed_while_there_is_no_answer_yet() -> None:
    points, began, answer = Failpoints("relay.mid_send:error@2"), asyncio.Event(), asyncio.Event()

    async def send() -> str:
        began.set()
        await answer.wait()
        return "answered"

    first = asyncio.ensure_future(points.under_way("relay.mid_send", send))
    await began.wait()
    answer.set()
    assert await first == "answered"
    answer.clear()
    with pytest.raises(OutcomeUnknown):
        await points.under_way("relay.mid_send", send)


def test_a_kill_is_a_sigkill_of_this_process() -> None:
    program = "import asyncio; from app.failpoints import Failpoints as F\n"
    program += "asyncio.run(F('relay.after_send:kill').reach('relay.after_send'))"
    ended = subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).parents[2], timeout=30, check=False)
    assert ended.returncode == -signal.SIGKILL


async def test_a_statement_fails_before_or_after_it_took_effect(database_url: str) -> None:
    real = await open_database(PoolOptions(database_url))
    before = FailpointDatabase(real, Failpoints("publish.before_commit:error"))
    after = FailpointDatabase(real, Failpoints("publish.after_commit:error"))
    for database, payload in ((before, b"before"), (after, b"after")):
        with pytest.raises(OutcomeUnknown):
            await publish(database, payload)
        await publish(database, payload + b" again")
    rows = await real.fetch("event.latest", "default", "t")
    stored = await real.fetchval("event.get", "default", rows[0]["id"])
    first = [(await real.fetchrow("event.get", "default", stored - n)) for n in range(4)]
    assert [row["payload"] if row else None for row in first] == [b"after again", b"after", b"before again", None]
    await after.aclose()


async def publish(database: FailpointDatabase, payload: bytes) -> None:
    arguments = ("default", [0], ["t"], [None], [None], [None], [payload], [None], [None], False, None)
    await database.fetch("event.publish_batch", *arguments)


async def test_statements_of_a_transaction_pass_points_as_well(database_url: str) -> None:
    real = await open_database(PoolOptions(database_url))
    database = FailpointDatabase(real, Failpoints("publish.after_commit:error"))
    with pytest.raises(OutcomeUnknown):
        await publish_in_a_transaction(database)
    assert await database.fetchrow("event.latest", "default", "t") is None
    assert database.options is real.options
    await database.aclose()


async def publish_in_a_transaction(database: FailpointDatabase) -> None:
    arguments = ("default", [0], ["t"], [None], [None], [None], [b""], [None], [None], True, None)
    async with database.transaction() as transaction:
        await transaction.fetch("event.publish_batch", *arguments)


async def test_a_sink_passes_points_round_opening_and_sending() -> None:
    broker = MemoryBroker()
    fates = {}
    for point in ("relay.after_init", "relay.before_send", "relay.after_send"):
        sink = FailpointSink(MemorySink(broker), Failpoints(f"{point}:error"))
        try:
            await sink.open(TERM)
            await sink.send(Batch(TERM, [RECORD]))
        except OutcomeUnknown:
            fates[point] = len(broker.log)
        await sink.close()
        assert (sink.name, sink.features) == ("kafka", MemorySink(broker).features)
    assert fates == {"relay.after_init": 0, "relay.before_send": 0, "relay.after_send": 1}
