"""GU-21: what is on its way is not lost, and a run that has to stop waiting for it says so by a verdict of its own.

Each test stops the processes by SIGSTOP while events are under way, so nothing here depends on speed.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest

from app.chaos import prove
from app.chaos.child import ChildOverdue
from app.chaos.nemesis import Harm, HarmOverdue, Nemesis
from app.chaos.patience import PatienceOptions
from app.chaos.plan import Fault, FaultKind
from app.chaos.prove import ProveOptions
from app.chaos.scenario import NotQuiet, Scenario
from app.chaos.verdict import ProveOutcome, ProveRun, document, sentence
from app.chaos.verdict_page import verdict_page
from tests.faults.harness import open_harness
from tests.waiting import until

SHORT = PatienceOptions(seconds_max=1.0, still_seconds_max=1.0)
LONG = PatienceOptions(seconds_max=60.0, still_seconds_max=60.0)


@asynccontextmanager
async def stopped_under_way(database_url: str, folder: Path, seed: int) -> AsyncIterator[Scenario]:
    """Yield a scenario whose process is stopped: some events have arrived, others wait in each table."""
    async with open_harness(database_url, folder, seed, processes=1, refused_share=0.0) as harness:
        scenario = harness.scenario
        await scenario.burst(300)
        await until(lambda: scenario.receivers["plain"].arrived >= 20)
        for child in scenario.children:
            child.pause()
        await scenario.burst(100)
        yield scenario


async def test_what_is_on_its_way_is_not_lost(database_url: str, tmp_path: Path, seed: int) -> None:
    """GU-21: each receiver has an event, or the database still owes it to that receiver."""
    async with stopped_under_way(database_url, tmp_path, seed) as scenario:
        with pytest.raises(NotQuiet):
            await scenario.quiet(1.0)
        report = await scenario.judge()
    assert report.total("lost") == 0, report.findings
    assert [(one.sink, one.accepted - one.delivered - one.on_their_way) for one in report.sinks] == [
        ("ordered", 0),
        ("plain", 0),
        ("archive", 0),
    ]
    assert [one.sink for one in report.sinks if one.on_their_way >= 100] == ["ordered", "plain"]


async def test_a_run_that_stops_waiting_is_not_finished_and_holds_when_it_goes_on(
    database_url: str, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """GU-21: its own words and exit code, in the terminal, in JSON and on the page; it tells while it waits."""
    monkeypatch.setattr(prove, "_PROGRESS_SECONDS", 0.0)
    monkeypatch.setattr(prove, "_DUPLICATES_PER_FAULT_MAX", 1000)
    page = tmp_path / "prove.html"
    async with stopped_under_way(database_url, tmp_path, seed) as scenario:
        run, again = ProveRun(seed), ProveRun(seed)
        await prove._conclude(scenario, run, SHORT)
        prove._print(ProveOptions(seed=seed, report=page), run, tmp_path)
        scenario.children[0].resume()
        await prove._conclude(scenario, again, LONG)
    assert run.report is not None
    owed = f"{run.report.total('on_their_way'):,} on their way"
    told = capsys.readouterr()
    assert (prove._exit_code(run, None), sentence(run).startswith(f"NOT FINISHED: {owed};")) == (4, True)
    assert "FAILED" not in told.err
    assert re.search(r"NOT FINISHED: \d+ on their way after \d+ s\n", told.err), told.err
    assert re.search(r"waiting, at most 1 s, and 1 s without a lower number: \d+ on their way\n", told.err), told.err
    assert told.out.splitlines()[-1] == sentence(run)
    assert ("<title>hookwire prove: NOT FINISHED</title>" in page.read_text(), document(run)["outcome"]) == (
        True,
        "not finished",
    )
    assert (prove._exit_code(again, None), again.outcome, again.unfinished) == (0, ProveOutcome.PASS, [])


async def test_what_is_lost_is_lost_also_while_other_events_are_on_their_way(
    database_url: str, tmp_path: Path, seed: int
) -> None:
    """GU-21, OR-03: an event that no table owes any more fails the run, with exit code 1."""
    async with stopped_under_way(database_url, tmp_path, seed) as scenario:
        sql = await asyncpg.connect(database_url)
        await sql.execute(
            "DELETE FROM hookwire.outbox WHERE id IN (SELECT id FROM hookwire.outbox ORDER BY id DESC LIMIT 3)"
        )
        await sql.close()
        run = ProveRun(seed)
        await prove._conclude(scenario, run, SHORT)
    assert run.report is not None
    assert [(one.sink, one.lost) for one in run.report.sinks] == [("ordered", 3), ("plain", 3), ("archive", 0)]
    assert (run.outcome, prove._exit_code(run, None), prove._exit_code(run, "cursor")) == (ProveOutcome.FAIL, 1, 1)
    assert "NOT FINISHED" not in verdict_page(run, "again")


async def test_a_process_that_does_not_answer_in_time_is_no_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GU-21: its start may only be slow, so a time-out leaves the run unfinished."""

    async def slow(_options: object, _run: object, _folder: object) -> None:
        raise ExceptionGroup("starting", [ChildOverdue("child-1 does not answer after 60 s")])

    monkeypatch.setattr(prove, "_run", slow)
    run = ProveRun(1)
    await prove._run_to_the_end(ProveOptions(), run, tmp_path)
    assert run.crashes == []
    assert (run.unfinished, run.outcome) == (["child-1 does not answer after 60 s"], ProveOutcome.NOT_FINISHED)


class Late(Nemesis):
    """A nemesis that waits in vain."""

    def __init__(self) -> None:
        self.healed = 0

    async def do(self, fault: Fault, at_seconds: float) -> Harm:
        raise HarmOverdue(f"{fault.kind}: no process leads the amqp sink after {at_seconds:g} s")

    async def heal(self) -> None:
        self.healed += 1


async def test_a_fault_that_comes_too_late_is_no_failure_of_the_system() -> None:
    """GU-21: the next fault finds everything running again."""
    run, nemesis = ProveRun(1), Late()
    harm = await prove._harm(nemesis, run, Fault(0.0, FaultKind.KILL), 60)
    assert (harm, nemesis.healed, run.failures) == (None, 1, [])
    assert run.unfinished == ["kill: no process leads the amqp sink after 60 s"]
