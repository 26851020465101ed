"""``hookwire prove``: kill, stop and starve two own processes for a minute, then check the clients' logs.

::

    own database, AMQP broker, receivers --> two ``hookwire serve`` --> baseline without a fault
         --> faults, one after the other, under load --> quiet --> kill and start everything once more --> verdict

The verdict is the witness's, from the writers' history and the sinks' arrival logs alone (OR-02). It is ``0`` lost and
``0`` reordered or the exit code is 1; repeats are counted and bounded (RR-01, I4). All is seeded: a failed run prints
the command that repeats it. The terms of the last line: ``accepted`` events were answered with 2xx or committed by SQL.
``delivered`` of them arrived at every sink. ``lost``, ``duplicated`` and ``reordered`` are summed over the sinks.
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
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from app.chaos.broker import open_broker
from app.chaos.checker import VIOLATIONS, Promise, Report, SinkReport
from app.chaos.child import ChildFailed
from app.chaos.nemesis import Harm, HarmFailed, Nemesis
from app.chaos.plan import INDISPENSABLE, FaultKind, make_plan
from app.chaos.scenario import NotQuiet, Scenario, ScenarioOptions, open_scenario
from app.failpoints import POINTS
from app.settings.settings import SettingsRefused
from db.embedded.server import EmbeddedOptions, EmbeddedServer
from db.migrate import migrate

__all__ = ["ProveOptions", "prove"]

_BASELINE_SECONDS = 4.0
_TAIL_SECONDS = 2.0
"""Load after the last fault, to notice records that the last term forgets."""
_QUIET_SECONDS_MAX = 16.0
_QUIET_SHARE = 0.25
"""A delivery that a dead process had claimed is due again after 8 s; a held topic is probed after 2 and 4 s more. A
long run with a kill every few seconds leaves a backlog in lanes, which takes a share of its length.
"""
_LATE_SECONDS_MAX = 8.0
"""The factor by which a run on a busy machine may be longer, rather than leave out a kind of fault."""
_QUIET_SECONDS = 11.0
"""The approximate time of quiet, the last restart and the verdict."""
_LEASE_SECONDS = 2.0
_ATTEMPT_SECONDS = 3.0
"""Both are short, so that a run is short. On a busy machine shorter ones would run out without any fault."""
_PAUSE_SECONDS = 4.5
"""Longer than the relay's lease and than our broker's patience (3 s), shorter than a delivery's lease (8 s). A worker
that is stopped for longer than its claim may repeat out of order, which RR-10 excludes from the promise.
"""
_GUARD = """import signal, sys
if not sys.stdin.read():
    from pathlib import Path
    from db.embedded.postmaster import read_record
    cluster = Path(sys.argv[1]).resolve()
    if record := read_record(cluster):
        record.send(signal.SIGQUIT, cluster)"""
"""A process that waits for our end on a pipe. It imports only then, because few runs need it."""
_KEYS = 12
_WRITE_PAUSE_SECONDS = 0.03
_DUPLICATES_PER_FAULT_MAX = 200
"""The deliveries and messages that two processes can have in flight (I4). These are 64 of one subscription in each and
one of each key at each sink, twice because of settlements in progress.
"""
_ORDER = ("inverted", "duplicate_forbidden", "sequence_disorder", "stale_term")
_POINTS = tuple(point for point in POINTS if not point.endswith("_manifest"))


@dataclass(frozen=True, slots=True)
class ProveOptions:
    """``seconds``: about how long the whole run takes; below 42, not every kind of fault has its turn.

    ``seed`` None: a new one. ``seed_bug``: the name of a seeded bug.
    """

    seconds: float = 45.0
    seed: int | None = None
    seed_bug: str | None = None
    json: bool = False


@dataclass(slots=True)
class _Run:
    """The result of a run."""

    seed: int
    seconds: float = 0.0
    harms: list[Harm] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    crashes: list[str] = field(default_factory=list)
    report: Report | None = None

    @property
    def holds(self) -> bool:
        return not (self.failures or self.crashes) and self.report is not None and self.report.holds

    @property
    def is_broken(self) -> bool:
        """Return whether the witness has seen a promise broken, by processes that ran; that alone finds a
        seeded bug.
        """
        return not self.crashes and self.report is not None and not self.report.holds


async def prove(options: ProveOptions) -> int:
    """Run and print; return 0 if the promise held, 1 if not, 2 if it failed without finding the seeded bug.

    Raises SettingsRefused, ``EmbeddedError``, ``DatabaseError``.
    """
    if options.seed_bug is not None:
        from app.chaos.seeded_bugs import SEEDED_BUGS

        if options.seed_bug not in SEEDED_BUGS:
            raise SettingsRefused(f"{options.seed_bug!r} is no seeded bug; there are {', '.join(SEEDED_BUGS)}")
    if options.seconds < 25:
        raise SettingsRefused("a run takes at least 25 seconds")
    run = _Run(options.seed if options.seed is not None else secrets.randbelow(1_000_000))
    folder = Path(tempfile.mkdtemp(prefix="hookwire-prove-"))
    folder.chmod(0o711)  # root's PostgreSQL runs as another account, which must be able to enter
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
        return 0
    return 1 if options.seed_bug is None or run.is_broken else 2


async def _run_to_the_end(options: ProveOptions, run: _Run, folder: Path) -> None:
    """Run to the end; a child that does not start ends the run early, as its result."""
    try:
        await _run(options, run, folder)
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


async def _run(options: ProveOptions, run: _Run, folder: Path) -> None:
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
        await _conclude(scenario, run, max(_QUIET_SECONDS_MAX, _QUIET_SHARE * options.seconds))


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


async def _stand_baseline(scenario: Scenario, run: _Run) -> None:
    """Check the same load without a fault: a repeat or an inversion there makes the run useless (OR-06). On a busy
    machine attempts may time out; their repeats are no fault of the system.
    """
    await asyncio.sleep(_BASELINE_SECONDS)
    report = scenario.judge_so_far()
    unanswered = await scenario.unanswered()
    # Missing events may still be in flight: the count of lost events is valid only when all is quiet.
    summary = _summary(report).replace("lost=", "on_the_way=")
    _say(f"{_BASELINE_SECONDS:5.1f} s  baseline: {summary}")
    if _duplicated(report) > unanswered or _reordered(report) or not all(sink.delivered for sink in report.sinks):
        run.failures.append(f"the baseline is not clean: {_summary(report)}")


async def _do_harm(nemesis: Nemesis, run: _Run, seconds: float) -> None:
    """Work through the plan; record a fault that breaks the system, and go on with the next."""
    plan = make_plan(run.seed, seconds, _POINTS)
    _say("plan: " + ", ".join(str(fault) for fault in plan))
    began = time.monotonic()
    for number, fault in enumerate(plan):
        await asyncio.sleep(max(began + fault.at_seconds - time.monotonic(), 0))
        at_seconds = time.monotonic() - began
        late = seconds + (_LATE_SECONDS_MAX if number < len(FaultKind) else 0)
        if number >= len(INDISPENSABLE) and at_seconds > late:
            return
        try:
            harm = await nemesis.do(fault, at_seconds)
        except HarmFailed as failure:
            run.failures.append(str(failure))
            _say(f"{at_seconds:5.1f} s  {fault}: {failure}")
            await nemesis.heal()
            continue
        run.harms.append(harm)
        _say(f"{at_seconds:5.1f} s  {fault}: {harm.note} ({harm.accepted} accepted in {harm.seconds:.1f} s)")


async def _conclude(scenario: Scenario, run: _Run, quiet_seconds_max: float) -> None:
    """Wait for quiet, kill and restart everything, wait again, and judge (OR-10)."""
    try:
        seconds = await scenario.quiet(quiet_seconds_max)
        _say(f"quiet after {seconds:.1f} s")
        for child in scenario.children:
            await child.kill()
        async with asyncio.TaskGroup() as starting:
            for child in scenario.children:
                starting.create_task(child.start())
        await scenario.quiet(_QUIET_SECONDS_MAX)
    except NotQuiet as failure:
        run.failures.append(str(failure))
    run.report = await scenario.judge()
    duplicates_max = _DUPLICATES_PER_FAULT_MAX * len(run.harms) + await scenario.unanswered()
    if _duplicated(run.report) > duplicates_max:
        run.failures.append(f"{_duplicated(run.report)} repeats, more than {duplicates_max} can have been in flight")


def _duplicated(report: Report) -> int:
    return report.total("duplicate_adjacent") + report.total("duplicate_non_adjacent")


def _reordered(report: Report) -> int:
    return sum(report.total(kind) for kind in _ORDER)


def _summary(report: Report) -> str:
    delivered = min(sink.delivered for sink in report.sinks)
    lost, reordered = report.total("lost"), _reordered(report)
    return (
        f"accepted={report.accepted} delivered={delivered} lost={lost} duplicated={_duplicated(report)} "
        f"reordered={reordered}"
    )


def _print(options: ProveOptions, run: _Run, folder: Path) -> None:
    """Print the line, the table, and the command to repeat a failed run."""
    if options.json:
        _tell(json.dumps(_document(run), indent=2))
    elif run.report is not None:
        _tell(f"{_summary(run.report)} (seed {run.seed}, faults {len(run.harms)}, {run.seconds:.0f} s)")
        for line in _table(run.report.sinks):
            _tell(line)
    if run.holds:
        return
    for failure in (*run.failures, *run.crashes):
        _say(f"FAILED: {failure}")
    for line in _evidence(run.report) if run.report is not None else ():
        _say(f"FAILED: {line}")
    if options.seed_bug and not run.is_broken:
        _say(f"FAILED: the witness has not found {options.seed_bug}")
    broken = f" --seed-bug {options.seed_bug}" if options.seed_bug else ""
    _say(f"again:  hookwire prove --seconds {options.seconds:g} --seed {run.seed}{broken}")
    _say(f"logs:   {folder}")


def _evidence(report: Report) -> list[str]:
    """Return the first finding of each kind and sink that broke the promise."""
    first: dict[tuple[str, str], str] = {}
    for finding in report.findings:
        if finding.kind in (*VIOLATIONS, "unknown_half_present"):
            text = f"{finding.kind} at {finding.sink}: {finding.mark} {finding.detail}".strip()
            first.setdefault((finding.kind, finding.sink), text)
    return list(first.values())


_COLUMNS = (
    "delivered", "dead_lettered", "lost", "phantom", "duplicate_adjacent", "duplicate_non_adjacent", *_ORDER,
)  # fmt: skip


def _table(sinks: Sequence[SinkReport]) -> list[str]:
    heads = ["sink", "promise", *(name.replace("duplicate_", "dup. ").replace("_", " ") for name in _COLUMNS)]
    rows = [[sink.sink, str(sink.promise), *(str(getattr(sink, name)) for name in _COLUMNS)] for sink in sinks]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in [heads, *rows]]


def _document(run: _Run) -> dict[str, object]:
    return {
        "holds": run.holds,
        "seed": run.seed,
        "seconds": round(run.seconds, 1),
        "failures": run.failures,
        "crashes": run.crashes,
        "faults": [asdict(harm) for harm in run.harms],
        "report": asdict(run.report) if run.report is not None else None,
    }


def _tell(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - this is the command's voice


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - and this what it says on the way
