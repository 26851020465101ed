"""``hookwire prove``: kill, stop and starve two own processes for a while, then check the clients' logs.

::

    own database, AMQP broker, receivers --> two ``hookwire serve`` --> baseline without a fault
         --> faults, one after the other, under load --> quiet --> kill and start everything once more --> verdict

The verdict is the witness's, from the writers' history and the sinks' arrival logs alone. It is ``0`` lost and
``0`` reordered or the exit code is 1; repeats are counted and bounded. No time-out decides it: the run
waits while the number of events on their way falls. If it stops falling, they are on their way and not lost, by a look
into the database, and the exit code is 4. All is seeded: a failed run prints the command that repeats it. ``legend``
explains the terms of the line and the table. In the line ``lost``, ``duplicated`` and ``reordered`` are summed over the
sinks.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.chaos.broker import open_broker
from app.chaos.checker import Promise, Report
from app.chaos.child import ChildFailed, ChildOverdue
from app.chaos.nemesis import Harm, HarmFailed, HarmOverdue, Nemesis
from app.chaos.patience import PatienceOptions
from app.chaos.plan import INDISPENSABLE, Fault, FaultKind, make_plan
from app.chaos.scenario import NotQuiet, Scenario, ScenarioOptions, open_scenario
from app.chaos.verdict import (
    ProveOutcome,
    ProveRun,
    document,
    duplicated,
    evidence,
    legend,
    reordered,
    sentence,
    summary,
    table,
)
from app.chaos.verdict_page import verdict_page
from app.failpoints import POINTS
from app.settings.settings import SettingsRefused
from db.embedded import postmaster
from db.embedded.server import EmbeddedOptions, EmbeddedServer
from db.migrate import migrate

__all__ = ["ProveOptions", "prove"]

_BASELINE_SECONDS = 4.0
_TAIL_SECONDS = 2.0
"""Load after the last fault, to notice records that the last term forgets."""
_PATIENCE = PatienceOptions(seconds_max=600.0, still_seconds_max=20.0)
"""A delivery that a dead process had claimed is due again after 8 s; a held topic is probed after 2 and 4 s more. In
between their number may stay.
"""
_PROGRESS_SECONDS = 5.0
_FIRST_ARRIVALS_SECONDS_MAX = 60.0
_LATE_SECONDS_MAX = 8.0
"""The largest factor by which a run may take longer on a busy machine, so that no kind of fault is left out."""
_QUIET_SECONDS = 11.0
"""The approximate time of quiet, the last restart and the verdict."""
_LEASE_SECONDS = 2.0
_ATTEMPT_SECONDS = 3.0
"""The lease of a relay and the deadline of an attempt. Both are short, so that a run is short. Still shorter times
would end without a fault on a busy machine.
"""
_PAUSE_SECONDS = 4.5
"""Longer than the relay's lease and than our broker's patience (3 s), shorter than a delivery's lease (8 s). A worker
that is stopped for longer than its claim may repeat out of order, which the promise excludes.
"""
_GUARD = f"""import signal, sys
if not sys.stdin.read():
    from pathlib import Path
    from {postmaster.__name__} import read_record
    cluster = Path(sys.argv[1]).resolve()
    if record := read_record(cluster):
        record.send(signal.SIGQUIT, cluster)"""
"""A program that waits on a pipe for the end of this process, then stops the server. It imports late, because few runs
need it.
"""
_KEYS = 12
_WRITE_PAUSE_SECONDS = 0.03
_DUPLICATES_PER_FAULT_MAX = 200
"""The deliveries and messages that two processes can have in flight. These are 64 of one subscription in each and
one of each key at each sink, twice because of settlements in progress.
"""
_POINTS = tuple(point for point in POINTS if not point.endswith("_manifest"))


@dataclass(frozen=True, slots=True)
class ProveOptions:
    """Options of a run. ``seconds``: about how long the run takes on a quiet machine; below 42, not every kind of fault
    has its turn.

    ``seed`` None: a new one. ``seed_bug``: the name of a seeded bug. ``report``: where an HTML page of it goes.
    """

    seconds: float = 45.0
    seed: int | None = None
    seed_bug: str | None = None
    json: bool = False
    report: Path | None = None


async def prove(options: ProveOptions) -> int:
    """Run and print; return 0 if the promise held, 1 if not, and 4 if the run is not finished.

    Return 2 if it failed without finding the seeded bug.

    Raises SettingsRefused, ``EmbeddedError``, ``DatabaseError``.
    """
    if options.seed_bug is not None:
        from app.chaos.seeded_bugs import SEEDED_BUGS

        if options.seed_bug not in SEEDED_BUGS:
            raise SettingsRefused(f"{options.seed_bug!r} is no seeded bug; there are {', '.join(SEEDED_BUGS)}")
    if options.seconds < 25:
        raise SettingsRefused("a run takes at least 25 seconds")
    run = ProveRun(options.seed if options.seed is not None else secrets.randbelow(1_000_000))
    folder = Path(tempfile.mkdtemp(prefix="hookwire-prove-"))
    folder.chmod(0o711)  # as root, PostgreSQL runs under another account, which must be able to enter
    logging.getLogger("asyncpg").setLevel(logging.CRITICAL)  # its pool logs a warning whenever the database is down
    began = time.monotonic()
    try:
        with _ended_by_sigterm():
            await _run_to_the_end(options, run, folder)
    except asyncio.CancelledError:
        shutil.rmtree(folder)
        raise
    run.seconds = time.monotonic() - began
    _print(options, run, folder)
    if run.holds:
        shutil.rmtree(folder)
    return _exit_code(run, options.seed_bug)


def _exit_code(run: ProveRun, seed_bug: str | None) -> int:
    if run.outcome is ProveOutcome.FAIL:
        return 1 if seed_bug is None or run.is_broken else 2
    return 4 if run.outcome is ProveOutcome.NOT_FINISHED else 0


async def _run_to_the_end(options: ProveOptions, run: ProveRun, folder: Path) -> None:
    """Run to the end; a child that does not start ends the run early, as its result, and one that is slow too."""
    try:
        await _run(options, run, folder)
    except* ChildOverdue as overdue:
        run.unfinished += map(str, _leaves(overdue))
    except* ChildFailed as failed:
        run.crashes += map(str, _leaves(failed))


def _leaves(group: BaseExceptionGroup[ChildFailed]) -> Iterator[ChildFailed]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Make SIGTERM end this process like Ctrl-C: in order, with its children."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, signal.raise_signal, signal.SIGINT)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


async def _run(options: ProveOptions, run: ProveRun, folder: Path) -> None:
    """Run once from start to verdict."""
    began = time.monotonic()
    async with AsyncExitStack() as stack:
        postgres = await stack.enter_async_context(_own_postgres(folder / "data"))
        broker = await stack.enter_async_context(open_broker(folder))
        scenario_options = ScenarioOptions(
            postgres.dsn, folder, run.seed, lease_seconds=_LEASE_SECONDS,
            delivery_timeout_seconds=_ATTEMPT_SECONDS, seeded_bug=options.seed_bug,
            keys=_KEYS, pause_seconds=_WRITE_PAUSE_SECONDS, settings={"AMQP_URL": broker.url},
            promises={"amqp": Promise.RECORD},
        )  # fmt: skip
        scenario = await stack.enter_async_context(open_scenario(scenario_options))
        nemesis = Nemesis(scenario, broker, postgres, folder / "data", _PAUSE_SECONDS)
        stack.callback(lambda: run.crashes.extend(scenario.crashes))
        left = options.seconds - (time.monotonic() - began)
        async with scenario.load():
            await _stand_baseline(scenario, run)
            try:
                await _do_harm(nemesis, run, left - _BASELINE_SECONDS - _TAIL_SECONDS - _QUIET_SECONDS)
            finally:
                await nemesis.heal()
            await asyncio.sleep(_TAIL_SECONDS)
        await _conclude(scenario, run)


@contextmanager
def _guarded(cluster: Path) -> Iterator[None]:
    """End the server of this cluster if this process is killed while the block runs."""
    guard = subprocess.Popen(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", _GUARD, cluster], stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        yield
    finally:
        guard.communicate(b"an orderly end")


@asynccontextmanager
async def _own_postgres(data_dir: Path) -> AsyncIterator[EmbeddedServer]:
    """Yield a new database that is deleted afterwards, in any folder that its account needs."""
    server = EmbeddedServer(EmbeddedOptions(data_dir, on_progress=lambda _: None))
    with _guarded(data_dir / "postgres"):
        try:
            await migrate(await server.start())
            yield server
        finally:
            await server.stop()
            cluster = (data_dir / "postgres").resolve()
            if data_dir.resolve() not in cluster.parents:
                shutil.rmtree(cluster, ignore_errors=True)


async def _stand_baseline(scenario: Scenario, run: ProveRun) -> None:
    """Check the same load without a fault: a repeat or an inversion there makes the run useless.

    On a busy machine attempts may time out; their repeats are no fault of the system.
    """
    await asyncio.sleep(_BASELINE_SECONDS)
    report = await _first_arrivals(scenario)
    unanswered = await scenario.unanswered()
    # Missing events may still be in flight: the count of lost events is valid only when all is quiet.
    counts = summary(report).replace("lost=", "on_the_way=")
    _say(f"{_BASELINE_SECONDS:5.1f} s  baseline: {counts}")
    if not all(sink.delivered for sink in report.sinks):
        run.unfinished.append(f"a sink got nothing in {_FIRST_ARRIVALS_SECONDS_MAX:g} s without a fault: {counts}")
    if duplicated(report) > unanswered or reordered(report):
        run.failures.append(f"the baseline is not clean: {counts}")


async def _first_arrivals(scenario: Scenario) -> Report:
    """Return a report as soon as each sink got something, or after so long."""
    deadline = time.monotonic() + _FIRST_ARRIVALS_SECONDS_MAX
    while True:
        report = scenario.judge_so_far()
        if all(sink.delivered for sink in report.sinks) or time.monotonic() > deadline:
            return report
        await asyncio.sleep(1.0)


async def _do_harm(nemesis: Nemesis, run: ProveRun, seconds: float) -> None:
    """Inject the faults of the plan. Record a fault that breaks the system, and continue with the next."""
    plan = make_plan(run.seed, seconds, _POINTS)
    _say("plan: " + ", ".join(str(fault) for fault in plan))
    began = time.monotonic()
    for number, fault in enumerate(plan):
        await asyncio.sleep(max(began + fault.at_seconds - time.monotonic(), 0))
        at_seconds = time.monotonic() - began
        late = seconds + (_LATE_SECONDS_MAX if number < len(FaultKind) else 0)
        if number >= len(INDISPENSABLE) and at_seconds > late:
            return
        if harm := await _harm(nemesis, run, fault, at_seconds):
            run.harms.append(harm)
            _say(f"{at_seconds:5.1f} s  {fault}: {harm.note} ({harm.accepted} accepted in {harm.seconds:.1f} s)")


async def _harm(nemesis: Nemesis, run: ProveRun, fault: Fault, at_seconds: float) -> Harm | None:
    try:
        return await nemesis.do(fault, at_seconds)
    except HarmFailed as failure:
        run.failures.append(str(failure))
        told: Exception = failure
    except HarmOverdue as overdue:
        run.unfinished.append(str(overdue))
        told = overdue
    _say(f"{at_seconds:5.1f} s  {fault}: {told}")
    await nemesis.heal()
    return None


async def _conclude(scenario: Scenario, run: ProveRun, patience: PatienceOptions = _PATIENCE) -> None:
    """Wait for quiet, kill and restart everything, wait again, and judge."""
    try:
        await _quiet(scenario, patience)
        for child in scenario.children:
            await child.kill()
        async with asyncio.TaskGroup() as starting:
            for child in scenario.children:
                starting.create_task(child.start())
        await _quiet(scenario, patience)
    except NotQuiet as still:
        run.unfinished.append(str(still))
    run.report = await scenario.judge()
    faults = len(run.harms) + len(run.unfinished) + len(run.failures)
    duplicates_max = _DUPLICATES_PER_FAULT_MAX * faults + await scenario.unanswered()
    if duplicated(run.report) > duplicates_max:
        run.failures.append(f"{duplicated(run.report)} repeats, more than {duplicates_max} can have been in flight")


async def _quiet(scenario: Scenario, patience: PatienceOptions) -> None:
    """Wait for quiet and say how it goes. Raises NotQuiet."""
    told_at = 0.0

    def tell(told: str, seconds: float) -> None:
        nonlocal told_at
        if seconds - told_at >= _PROGRESS_SECONDS:
            told_at = seconds
            _say(f"{seconds:5.1f} s  waiting, {patience}: {told}")

    seconds = await scenario.quiet(patience.seconds_max, patience.still_seconds_max, tell)
    _say(f"quiet after {seconds:.1f} s")


def _print(options: ProveOptions, run: ProveRun, folder: Path) -> None:
    """Print the line, the table, the verdict, and the command to repeat a failed run."""
    broken = f" --seed-bug {options.seed_bug}" if options.seed_bug else ""
    again = f"hookwire prove --seconds {options.seconds:g} --seed {run.seed}{broken}"
    if options.report is not None:
        options.report.write_text(verdict_page(run, again), encoding="utf-8")
        _say(f"report: {options.report}")
    _tell(json.dumps(document(run), indent=2) if options.json else "\n".join(_lines(run)))
    if run.holds:
        return
    for failure in (*run.failures, *run.crashes):
        _say(f"FAILED: {failure}")
    for line in evidence(run.report) if run.report is not None else ():
        _say(f"FAILED: {line}")
    for line in run.unfinished:
        _say(f"NOT FINISHED: {line}")
    if options.seed_bug and not run.is_broken and run.outcome is ProveOutcome.FAIL:
        _say(f"FAILED: the witness has not found {options.seed_bug}")
    _say(f"again:  {again}")
    _say(f"logs:   {folder}")


def _lines(run: ProveRun) -> list[str]:
    """Return the table of a run, its legend, and the verdict, last."""
    if run.report is None:
        return [sentence(run)]
    rows = table(run.report.sinks)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    cells = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    words = legend(run)
    widest = max(map(len, words))
    meanings = [f"  {word.ljust(widest)}  {meaning}" for word, meaning in words.items()]
    counts = f"{summary(run.report)} (seed {run.seed}, faults {len(run.harms)}, {run.seconds:.0f} s)"
    return [counts, *cells, "", *meanings, "", sentence(run)]


def _tell(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - this is the command's voice


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - this is the command's progress
