"""The witness notices: each seeded bug breaks the promise that it should, in a scenario that holds without it (OR-03).

A suite that stays green on a bug is broken; `hookwire prove --seed-bug` runs the same bugs through a whole minute.
"""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import pytest

import db.bound
from app.chaos.arrivals import read_arrivals
from app.chaos.broker import ChaosBroker, open_broker
from app.chaos.checker import Promise, check
from app.chaos.child import Child
from app.chaos.mark import Mark
from app.chaos.scenario import NotQuiet, ScenarioOptions, open_scenario
from app.chaos.seeded_bugs import SEEDED_BUGS, StaleBug, apply
from app.settings.settings import Settings, SettingsRefused
from db.pool import PoolOptions, open_database
from db.statements import STATEMENTS
from relay.amqp.link import Link
from relay.amqp.sink import AmqpOptions, AmqpSink
from relay.harvester import Harvester
from relay.record import Record
from relay.sink import Batch, SinkUnavailable, Term
from tests.faults.harness import CLEAN, Harness, verdict
from tests.waiting import lasts, until


@dataclass(frozen=True)
class Scene:
    """A harness whose AMQP sink leads to a small broker of the witness's own."""

    harness: Harness
    broker: ChaosBroker


Scenario = Callable[[Scene], Awaitable[None]]


async def kill_twice(scene: Scene) -> None:
    child = scene.harness.scenario.children[0]
    for _ in range(2):
        await scene.harness.accepts(60)
        await child.kill()
        await child.start()
    await scene.harness.accepts(20)


async def cut_the_broker(scene: Scene) -> None:
    for _ in range(3):
        await scene.harness.accepts(40)
        scene.broker.cut()
    await scene.harness.accepts(40)


async def unbind_for_a_second(scene: Scene) -> None:
    await scene.harness.accepts(30)
    scene.broker.bound = False
    await lasts(1.0)
    scene.broker.bound = True
    await scene.harness.accepts(30)


async def only_load(scene: Scene) -> None:
    await scene.harness.accepts(300)


async def stop_the_leader_and_kill_its_successor(scene: Scene) -> None:
    processes = scene.harness.scenario
    await scene.harness.accepts(50)
    leader = await processes.leader("amqp")
    assert leader is not None
    successor = next(child for child in processes.children if child is not leader)
    leader.pause()
    await lasts(4.5)  # past the lease of 1 s, and past the broker's patience of 3 s
    leader.resume()
    await lasts(0.5)
    await successor.kill()
    arrived = scene.broker.arrived
    await until(lambda: scene.broker.arrived >= arrived + 50, 60)
    await successor.start()


SCENES: list[tuple[str, Scenario, str, dict[str, Any]]] = [
    ("ack-before-commit", kill_twice, "lost", {"processes": 1}),
    ("purge-before-ack", cut_the_broker, "lost", {"processes": 1}),
    ("settle-before-answer", only_load, "lost", {"processes": 1, "refused_share": 0.05}),
    ("no-key-lock", only_load, "reordered", {"processes": 1, "transactors": 4}),
    ("no-term-check", stop_the_leader_and_kill_its_successor, "stale_term", {"processes": 2}),
    ("unroutable-as-sent", unbind_for_a_second, "lost", {"processes": 1}),
    ("cursor", only_load, "reordered", {"processes": 1, "transactors": 4}),
]

ROUNDS_MAX = 10
"""So many scenarios without the breach mean that the witness does not notice it."""


@pytest.mark.parametrize(("bug", "scenario", "broken", "options"), SCENES, ids=[scene[0] for scene in SCENES])
@pytest.mark.parametrize("seeded", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["seeded", "without"])
async def test_a_seeded_bug_breaks_its_promise_and_without_it_the_same_scenario_holds(
    seeded: bool, bug: str, scenario: Scenario, broken: str, options: dict[str, Any], database_url: str,
    tmp_path: Path, seed: int,
) -> None:  # fmt: skip
    """RL-02, MU-01 MU-02 MU-03 MU-04 MU-05 MU-09, T18, OR-06, GU-20

    A bug is a race; where it has not shown itself, as on a slow machine, the same scenario is played again.
    """
    async with open_broker(tmp_path) as broker:
        where = {"settings": {"AMQP_URL": broker.url}, "promises": {"amqp": Promise.RECORD}}
        arranged = ScenarioOptions(database_url, tmp_path, seed, seeded_bug=bug if seeded else None, **where, **options)
        async with open_scenario(arranged) as opened:
            harness = Harness(opened)
            for _ in range(ROUNDS_MAX if seeded else 1):
                async with harness.scenario.load():
                    await scenario(Scene(harness, broker))
                with suppress(NotQuiet if seeded else ()):  # a bug may keep events on their way for ever
                    await harness.scenario.quiet(5 if seeded else 60)
                found = verdict(await harness.scenario.judge(), 500)
                if getattr(found, broken):
                    break
            assert not opened.crashes, "a crash is not what was to be found"
    assert getattr(found, broken) > 0 if seeded else found == CLEAN, found


# --- bugs that are shown without a scenario ---------------------------------------------------------------------


def record(n: int) -> Record:
    return Record(
        id=n, shard=0, event_id=f"evt_abcdefgh_{n}", tenant="default", topic="t", key="k", sequence=n,
        content_type=None, headers={}, payload=Mark("r", "t", "k", n).to_payload(0), accepted_at=datetime.now(UTC),
    )  # fmt: skip


@pytest.mark.parametrize("seeded", [True, False], ids=["seeded", "without"])
async def test_a_second_owner_of_the_amqp_fence_is_refused_or_else_noticed(
    seeded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MU-08, RO-13: I5"""
    monkeypatch.setattr(Link, "take_lock", Link.take_lock)  # restored afterwards
    if seeded:
        SEEDED_BUGS["shared-lock-queue"]()
    old, new = Term("amqp", 0, 1, 1, 0), Term("amqp", 0, 2, 1, 0)
    async with open_broker(tmp_path) as broker, amqp_sink(broker) as deposed, amqp_sink(broker) as successor:
        await deposed.open(old)
        await deposed.send(Batch(old, [record(1)]))
        if seeded:
            await successor.open(new)
            await successor.send(Batch(new, [record(2)]))
            await deposed.send(Batch(old, [record(3)]))
        else:
            with pytest.raises(SinkUnavailable, match="another relay still holds"):
                await successor.open(new)
    report = check([], read_arrivals(tmp_path / "arrivals-amqp.jsonl"), [], {"amqp": Promise.RECORD})
    assert report.total("stale_term") == (1 if seeded else 0)


@asynccontextmanager
async def amqp_sink(broker: ChaosBroker) -> AsyncIterator[AmqpSink]:
    sink = AmqpSink(AmqpOptions(broker.url, "abcdefgh", lock_seconds=0.3))
    try:
        yield sink
    finally:
        await sink.close()


@pytest.mark.parametrize("seeded", [True, False], ids=["seeded", "without"])
async def test_a_settlement_under_a_claim_that_is_over_changes_nothing(
    seeded: bool, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MU-14, WH-P05: I9; the worker was stopped, another has claimed the delivery since."""
    monkeypatch.setattr(db.bound, "STATEMENTS", STATEMENTS)  # restored afterwards
    if seeded:
        SEEDED_BUGS["unfenced-settlement"]()
    connection = await asyncpg.connect(database_url)
    await connection.execute(
        """
        INSERT INTO hookwire.subscriptions (public_id, protocol, topic, callback, state)
        VALUES ('sub_1', 'webhook', 't', 'http://127.0.0.1/', 'active');
        INSERT INTO hookwire.deliveries (event_id, subscription_id, due_at, created_at, tenant)
        SELECT 1, id, now(), now(), 'default' FROM hookwire.subscriptions
        """
    )
    subscription = await connection.fetchval("SELECT id FROM hookwire.subscriptions")
    await connection.close()
    database = await open_database(PoolOptions(database_url))
    try:
        claim = ("delivery.claim", [subscription], [1], -10.0, 0.0, None)  # its lease is over at once
        fences = [(await database.fetch(*claim))[0]["fence"] for _ in range(2)]
        late = [[1], [subscription], [fences[0]], ["delivered"], [0.0], ["delivered"], [200], [datetime.now(UTC)]]
        await database.fetch(
            "delivery.settle",
            *late,
            *([[None]] * 2),
            [0.1],
            *([[None]] * 5),
            "late",
            [None],
            [None],
            20,
            300.0,
            [],
            [],
        )
        owed = await database.fetch("delivery.due_subscriptions")
    finally:
        await database.aclose()
    assert len(owed) == (0 if seeded else 1)


def test_every_seeded_bug_fits_the_product() -> None:
    """T18: whatever one replaces has the parameters that it had when the bug was written."""
    apply_all = "from app.chaos.seeded_bugs import SEEDED_BUGS\nfor bug in SEEDED_BUGS.values(): bug()"
    done = subprocess.run([sys.executable, "-c", apply_all], check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("change", ["renamed", "another parameter", "no coroutine"])
def test_a_seeded_bug_that_no_longer_fits_is_stale_and_breaks_nothing(
    change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T18: after a refactoring it must not turn into a crash that passes for a finding."""

    async def carry(self: Harvester, batch: Batch, slots: asyncio.Semaphore) -> None:
        raise NotImplementedError

    def carried(self: Harvester, batch: Batch, setbacks: int, slots: asyncio.Semaphore) -> None:
        raise NotImplementedError

    if change == "renamed":
        monkeypatch.delattr(Harvester, "_carry")
    else:
        monkeypatch.setattr(Harvester, "_carry", carry if change == "another parameter" else carried)
    present = getattr(Harvester, "_carry", None)
    with pytest.raises(StaleBug, match=r"Harvester\._carry is .* no longer async"):
        SEEDED_BUGS["purge-before-ack"]()
    assert getattr(Harvester, "_carry", None) is present


def test_a_seeded_bug_whose_statements_have_changed_is_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    unfenced = STATEMENTS["delivery.settle"].replace(" AND d.fence = r.fence", "", 1)
    monkeypatch.setattr(db.bound, "STATEMENTS", {**STATEMENTS, "delivery.settle": unfenced})
    with pytest.raises(StaleBug, match="3 places"):
        SEEDED_BUGS["unfenced-settlement"]()


async def test_a_process_that_ends_by_itself_is_a_crash_and_one_that_we_end_is_none(tmp_path: Path) -> None:
    """OR-02: else a seeded bug could be "found" by what its crash has cost."""
    child = Child("broken", tmp_path, {}, command=("no-such-command",))
    orderly = Child("orderly", tmp_path, {}, command=("--help",))
    for one in (child, child, orderly):
        await one.start(wait=False)
        await one.ended(60)
    running = Child("killed", tmp_path, {}, command=("pump", "--help"))
    await running.start(wait=False)
    await running.kill()
    assert (child.crashes, orderly.crashes, running.crashes) == ((2, 2), (), ())


def test_seeded_bugs_are_refused_in_production_and_by_wrong_names() -> None:
    """HN-08"""
    with pytest.raises(SettingsRefused, match="production"):
        apply("cursor", Settings(profile="production"))
    with pytest.raises(SettingsRefused, match="ack-before-commit"):
        apply("misspelt", Settings())
