"""Runs of backfills: who holds one, pause, resume, cancellation, kills, its topics, and what the comparison says."""

import asyncio
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from app.cli.failure import CommandFailed
from app.cli.pipeline.backfilling.command import backfilled
from app.cli.pipeline.backfilling.hold import LEASE_SECONDS, HoldLost, RunHold
from app.cli.pipeline.backfilling.lake_range import topics_of
from app.settings.settings import Settings
from event.identity import Incarnation
from tests.app.conftest import Receiver, RunHub, opened, receiver, running_hub
from tests.pipeline.backfill_harness import Backfill, bodies, is_in_order, quick_looks
from tests.pipeline.backfill_process import RangeInMemory

__all__ = ["quick_looks", "receiver", "running_hub"]

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "lake-backfill.md"

pytestmark = pytest.mark.usefixtures("quick_looks")


async def test_a_run_is_paused_resumed_and_cancelled_over_the_api(
    running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """WH-P03: the process waits while it is paused, and ends when it is cancelled. Here each event is a batch."""
    monkeypatch.setattr("app.cli.pipeline.backfilling.batch.EVENTS_MAX", 1)
    async with running_hub() as hub:
        run = Backfill(hub, capsys)
        await run.begin(receiver.callback, [1, 2, 3, 4])
        receiver.gate = asyncio.Event()
        running = asyncio.create_task(run.act())
        await receiver.wait_for(1)
        paused = (await hub.client.post("/replays/replay_1/pause", json={})).json()
        receiver.gate.set()
        await hub.until("/replays/replay_1", lambda found: found["examined"] == 1)
        seen = len(receiver.delivered)
        receiver.gate.clear()
        resumed = (await hub.client.post("/replays/replay_1/resume", json={})).json()
        await receiver.wait_for(2)
        await hub.client.post("/replays/replay_1/cancel", json={})
        receiver.gate.set()
        with pytest.raises(CommandFailed, match=r"^it was cancelled$"):
            await running
        now = (await hub.client.get("/replays/replay_1")).json()
        ended = await hub.sql("SELECT why, lease_until FROM hookwire.backfills")
    assert (paused["state"], seen, resumed["state"], now["state"]) == ("paused", 1, "running", "cancelled")
    assert (ended, len(receiver.delivered)) == ([("it was cancelled", None)], 2)


async def test_a_cancellation_is_seen_during_the_pause_before_another_attempt(
    running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    """The pause lasts an hour. What was cancelled cannot be gone on with, so nobody is told to."""
    async with running_hub(retry_schedule_seconds=(3600, 3600)) as hub:
        run = Backfill(hub, capsys)
        await run.begin(receiver.callback, [1])
        receiver.status = 500
        running = asyncio.create_task(run.act())
        await receiver.wait_for(1)
        await hub.client.post("/replays/replay_1/cancel", json={})
        with pytest.raises(CommandFailed, match=r"^it was cancelled$"):
            await asyncio.wait_for(running, 60)


async def test_a_run_that_its_process_waits_in_is_resumed(
    running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    """--pause and then --resume, as the page says; the process that holds the run goes on with it."""
    async with running_hub() as hub:
        run = Backfill(hub, capsys, keys=1)
        await run.begin(receiver.callback, [1, 2])
        receiver.gate = asyncio.Event()
        running = asyncio.create_task(run.act())
        await receiver.wait_for(1)
        paused = await backfilled(hub.settings, None, None, "--pause", 1)
        state = (await hub.client.get("/replays/replay_1")).json()["state"]
        receiver.gate.set()
        resumed = await backfilled(hub.settings, None, None, "--resume", 1)
        code, _ = await asyncio.wait_for(running, 60)
    assert (paused, state, resumed, code, bodies(receiver)) == (0, "paused", 0, 0, [1, 2])


async def test_the_page_pauses_a_run_lets_it_go_on_and_cancels_it(
    running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its block runs as it is written, but for the number of the run, while a process holds the run.

    Both events have one key, so the second waits for the answer to the first, and its attempt looks at the run.
    """
    [block] = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    async with running_hub() as hub:
        run = Backfill(hub, capsys, keys=1)
        await run.begin(receiver.callback, [1, 2])
        receiver.gate = asyncio.Event()
        running = asyncio.create_task(run.act())
        await receiver.wait_for(1)
        states = []
        for line in block.replace("replay_3", "replay_1").splitlines():
            await asyncio.to_thread(typed, line, hub.settings)
            states.append((await hub.client.get("/replays/replay_1")).json()["state"])
        receiver.gate.set()
        with pytest.raises(CommandFailed, match=r"^it was cancelled$"):
            await asyncio.wait_for(running, 60)
    assert states == ["paused", "running", "cancelled"]


def typed(line: str, settings: Settings) -> None:
    """Let bash run a line with the hub's database and data folder."""
    assert settings.database_url is not None
    hub = {"DATABASE_URL": settings.database_url.get_secret_value(), "DATA_DIR": str(settings.data_dir)}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path} | {f"HOOKWIRE_{name}": value for name, value in hub.items()}
    subprocess.run(["bash", "-euo", "pipefail", "-c", line], env=environment, check=True, timeout=120)


async def test_a_pause_by_a_person_stays_one_when_the_process_is_interrupted(
    running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is noted as a reason, and the verdict tells of no stopped run."""
    async with running_hub() as hub:
        run = Backfill(hub, capsys, keys=1)
        await run.begin(receiver.callback, [1, 2])
        receiver.gate = asyncio.Event()
        running = asyncio.create_task(run.act())
        await receiver.wait_for(1)
        await hub.client.post("/replays/replay_1/pause", json={})
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        receiver.gate.set()
        found = await hub.sql(
            "SELECT r.state, b.why FROM hookwire.replays r JOIN hookwire.backfills b ON b.replay_id = r.id"
        )
    assert found == [("paused", None)]


async def test_another_process_takes_a_run_only_when_its_lease_is_over(
    running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    """The holder of before writes nothing any more."""
    async with running_hub() as hub, opened(hub.database_url) as (database, _):
        run = Backfill(hub, capsys)
        await run.begin(receiver.callback, [1, 2])
        receiver.gate = asyncio.Event()
        running = asyncio.create_task(run.act())
        await receiver.wait_for(1)
        with pytest.raises(CommandFailed, match="is held by"):
            await backfilled(hub.settings, None, None, "--resume", 1)
        await hub.sql("UPDATE hookwire.backfills SET lease_until = now() - interval '1 second'")
        fence = await database.fetchval("backfill.take", "default", 1, "another", 30.0, "ada")
        receiver.gate.set()
        with pytest.raises(HoldLost):
            await running
        noted = await hub.sql("SELECT count(*) FROM hookwire.backfill_batches")
        await RunHold(database, 1, fence, 0.0).leave("paused", "done with it")
        code, said = await run.act()
    assert (fence, noted, code, said["exact"]) == (3, [(0,)], 0, True)


async def test_an_attempt_begins_only_if_the_lease_outlasts_it(database_url: str) -> None:
    async with opened(database_url) as (database, _):
        hold = RunHold(database, 1, 1, time.monotonic() - LEASE_SECONDS + 20)
        hold.check()
        with pytest.raises(HoldLost):
            hold.check(30.0)


async def test_no_process_of_the_hub_takes_a_backfill(
    running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its due time is far away, and can be subtracted from."""
    async with running_hub() as hub, opened(hub.database_url) as (database, _):
        await Backfill(hub, capsys).begin(receiver.callback, [1])
        due = await database.fetchrow("bulk.due")
    assert due is not None
    assert due["seconds"] > 86_400 * 365


async def test_a_run_that_is_interrupted_has_noted_what_was_taken(
    running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C: only the event in flight comes again. The audit of a run that has not ended says how many are left."""
    async with running_hub() as hub:
        run = Backfill(hub, capsys, keys=1)
        await run.begin(receiver.callback, [1, 2, 3])
        receiver.gate = (gate := asyncio.Event())
        gate.set()
        receiver.status_of = lambda _: gate.clear()  # the first answer leaves, and no other
        running = asyncio.create_task(run.act())
        await receiver.wait_for(2)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        left = await hub.sql("SELECT r.state, b.why FROM hookwire.replays r, hookwire.backfills b")
        not_ended, audit = await run.act("--audit")
        receiver.status_of = lambda _: None
        gate.set()
        code, said = await run.act()
    counts = {name: audit["audit"][name] for name in ("sent", "missing", "vanished", "left")}
    assert (left, not_ended) == ([("paused", "it was interrupted")], 2)
    assert counts == {"sent": 1, "missing": 0, "vanished": 0, "left": 2}
    assert (code, said["exact"], bodies(receiver)) == (0, True, [1, 2, 2, 3])


async def test_a_killed_run_repeats_at_most_one_batch(
    running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    """PL-07: SIGKILL amid the third batch: everything arrives, in order per key, and nothing else twice."""
    async with running_hub() as hub, opened(hub.database_url) as (database, _):
        run = Backfill(hub, capsys, keys=4)
        await run.begin(receiver.callback, range(1, 701))
        receiver.gate = (gate := asyncio.Event())
        gate.set()
        # From the 560th event on no answer leaves.
        receiver.status_of = lambda _: gate.clear() if len(receiver.delivered) >= 560 else None
        script = ("-m", "tests.pipeline.backfill_process")
        process = await asyncio.create_subprocess_exec(
            sys.executable, *script, hub.database_url, hub.settings.data_dir, "1", "700", cwd=Path(__file__).parents[2]
        )
        await receiver.wait_for(560)
        await hub.until("/replays/replay_1", lambda found: found["examined"] == 512)
        process.kill()
        await process.wait()
        receiver.status_of = lambda _: None
        gate.set()
        held = await database.fetchval("backfill.take", "default", 1, "another", 30.0, "ada")
        await hub.sql("UPDATE hookwire.backfills SET lease_until = now()")
        code, said = await run.act()
    seen = bodies(receiver)
    twice = {number for number in seen if seen.count(number) > 1}
    assert (held, code, said["exact"], set(seen)) == (None, 0, True, set(range(1, 701)))
    assert (min(twice, default=513) > 512, len(twice) <= 256, is_in_order(seen)) == (True, True, True)


# --- the comparison -----------------------------------------------------------------------------------------------


async def test_the_audit_names_what_the_receiver_did_not_get_and_what_it_got_beyond(
    running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    """An event that was archived after the beginning, and one that the lake does not have and nobody erased."""
    async with running_hub() as hub:
        run = Backfill(hub, capsys)
        await run.begin(receiver.callback, [*range(1, 11), 30])
        code, _ = await run.act()
        run.there = [*range(1, 11), 20, 30]
        await hub.sql("UPDATE hookwire.backfill_batches SET sent = sent || 25::bigint")
        later, said = await run.act("--audit")
        [(name,)] = await hub.sql("SELECT incarnation FROM hookwire.installation")
    assert (code, later) == (0, 1)
    examples = {"refused": [], "missing": [f"evt_{name}_20"], "extra": [f"evt_{name}_25"]}
    assert said["audit"]["examples"] == examples


async def test_events_that_vanished_before_they_were_sent_are_counted(
    running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where nothing is left to send: what a run that stopped has sent of its batch is judged all the same."""
    async with running_hub(retry_schedule_seconds=()) as hub:
        run = Backfill(hub, capsys, keys=1)
        await run.begin(receiver.callback, [1, 2, 3, 4])
        receiver.status_of = lambda body: 500 if body == b"3" else None
        with pytest.raises(CommandFailed):
            await run.act()
        run.there, run.erased = (), (4,)
        code, said = await run.act()
    counts = {name: said["audit"][name] for name in ("sent", "vanished", "extra", "erased")}
    assert (code, counts) == (1, {"sent": 2, "vanished": 1, "extra": 2, "erased": 1})


async def test_an_erasure_that_hub_and_lake_note_counts_once(
    running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that the lake made before the beginning explains no event that vanished since."""
    async with running_hub() as hub:
        run = Backfill(hub, capsys)
        run.erased = (3,)
        await run.begin(receiver.callback, [1, 2, 4])
        await hub.sql("INSERT INTO hookwire.erased_events (event_id, tenant, lake_at) VALUES (2, 'default', now())")
        code, said = await run.act()
        run.there, run.erased = (1, 4), (2, 3)
        later, told = await run.act("--audit")
    assert [(code, said["audit"]["erased"]), (later, told["audit"]["erased"])] == [(0, 2), (0, 2)]
    assert (told["audit"]["sent"], told["audit"]["vanished"]) == (2, 0)


def test_erasures_beside_the_range_explain_nothing() -> None:
    """Only those between the first event and the last one are counted at the beginning."""
    there = RangeInMemory([4, 5, 8], Incarnation("abcd2345"), erased=[2, 4, 6, 9])
    assert there.count_erased(4, 8) == 2


async def test_a_named_event_that_the_lake_does_not_have_is_missing(
    running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_hub() as hub:
        run = Backfill(hub, capsys)
        run.erased = (4,)
        await run.begin(receiver.callback, [1, 2], named=[1, 2, 4, 7])
        code, said = await run.act()
    assert (code, said["audit"]["sent"], said["audit"]["missing"]) == (1, 2, 1)
    assert [name.rpartition("_")[2] for name in said["audit"]["examples"]["missing"]] == ["7"]


async def test_a_pattern_chooses_topics_that_the_hub_has_forgotten(
    running_hub: RunHub, capsys: pytest.CaptureFixture[str]
) -> None:
    """The lake still has them. What cannot be told apart, or belongs to no topic, is said."""
    there = ["x-orders.old", "x-orders.b", "x-other", "elsewhere"]
    async with running_hub() as hub, opened(hub.database_url) as (database, _):
        await hub.subscribe("orders.*", "http://127.0.0.1:9000/hook")
        await hub.sql(
            "INSERT INTO hookwire.topics (tenant, name, kafka_topic)"
            " VALUES ('default', 'orders.a', NULL), ('default', 'orders.c', 'x-orders.b')"
        )
        [(number,)] = await hub.sql("SELECT id FROM hookwire.subscriptions")
        capsys.readouterr()
        chosen = await topics_of(database, number, "x-", None, there)
        told = capsys.readouterr().err
    assert chosen == {"x-orders.a": "orders.a", "x-orders.b": "orders.c", "x-orders.old": "orders.old"}
    assert "left out, of no topic of the hub: elsewhere" in told
    assert "orders.c has the Kafka topic x-orders.b: events that a topic orders.b has put there" in told
