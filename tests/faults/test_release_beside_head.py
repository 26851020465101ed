"""The release before this tree, from its own commit, beside this tree: one database, under load (F10).

It needs the history of this checkout: a shallow clone lacks the release.
"""

from __future__ import annotations

import asyncio
import io
import os
import random
import signal
import subprocess
import sys
import tarfile
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import asyncpg
import pytest

from scripts.servers.kafka import KafkaServer
from tests.app.conftest import RunHub, opened, running_hub
from tests.faults.harness import CALM, CLEAN, Kafka, open_harness
from tests.faults.job_checker import check_jobs
from tests.faults.test_job_kills import evidence, prepared
from tests.faults.test_upgrade import ATTEMPTS_MAX, attempts
from tests.waiting import lasts, until

__all__ = ["running_hub"]

pytestmark = pytest.mark.slow

_ROOT = Path(__file__).parents[2]
_RELEASE_COMMIT = "de51622a"
"""The commit that is 0.2.0."""
_ROOMS = ("app", "db", "egress", "event", "hub", "jobs", "relay", "reqrep", "runtime", "webhooks", "sdk/src")
_JOBS = 2_000
_KILL_SECONDS = 0.5
_COMMAND = "import sys; from app.cli.main import main; sys.exit(main())"
_SDK_WORKER = str(Path(__file__).with_name("job_workers.py"))
_NOTE_THE_JOB = 'echo "$HOOKWIRE_JOB_ID" >> "$NOTES"'


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The release's own files, out of the history of this checkout."""
    folder = tmp_path_factory.mktemp("release")
    archive = subprocess.run(
        ["git", "archive", _RELEASE_COMMIT, *_ROOMS], cwd=_ROOT, check=True, stdout=subprocess.PIPE
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    return folder


@pytest.fixture
async def old_database_url(database_url: str, release: Path) -> str:
    """A database with the schema of the release, which has not known this tree."""
    connection = await asyncpg.connect(database_url)
    await connection.execute("DROP SCHEMA hookwire CASCADE")
    await connection.close()
    await _migrate(database_url, release)
    return database_url


async def _migrate(database_url: str, tree: Path) -> None:
    environment = _environment(tree) | {"HOOKWIRE_DATABASE_URL": database_url}
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", _COMMAND, "migrate", cwd=tree, env=environment)
    assert await process.wait() == 0


async def test_hubs_of_the_release_and_of_this_tree_lose_and_reorder_nothing(
    old_database_url: str, kafka: KafkaServer, tmp_path: Path, release: Path, seed: int
) -> None:
    """F10, JT-24: I1 I3 I6. The first of this tree migrates while two of the release publish, relay and deliver."""
    options = {"processes": 3, "keys": 10, "transactors": 4, "kafka_groups": 4, "tree": release, **CALM}
    async with open_harness(old_database_url, tmp_path, seed, Kafka(kafka.bootstrap), **options) as harness:
        async with harness.scenario.load():
            await harness.accepts(100)
            for child in harness.scenario.children:
                code, _ = await child.drain(seconds_max=30)
                assert code == 0
                child.tree = _ROOT
                await child.start()
                await harness.accepts(500)
                await harness.receives("ordered", 200)
        most = max(attempts(harness))
        print(f"seed {seed}, an event took {most} attempts at most")
        assert most <= ATTEMPTS_MAX
        # The release counts no attempts in rollups.
        assert await harness.judged(duplicates_max=100) == CLEAN


class SdkWorker:
    """The SDK's worker of a tree: a supervisor forks it anew whenever it has ended."""

    def __init__(self, tree: Path, way: str) -> None:
        self._tree = tree
        self._way = way
        self.pids: set[int] = set()

    async def start(self, database: str, hub: str) -> None:
        arguments = (_SDK_WORKER, self._way, database, hub)
        self._supervisor = await asyncio.create_subprocess_exec(
            sys.executable, *arguments, env=_environment(self._tree), stdout=PIPE, start_new_session=True
        )
        await self._next_pid()

    async def kill(self) -> None:
        """SIGKILL; the next one works when this returns."""
        with suppress(ProcessLookupError):  # it has ended by itself
            os.kill(self._pid, signal.SIGKILL)
        await self._next_pid()

    async def end(self) -> None:
        await _killed(self._supervisor)

    async def _next_pid(self) -> None:
        assert self._supervisor.stdout is not None
        async with asyncio.timeout(60):
            self._pid = int(await self._supervisor.stdout.readline())
        self.pids.add(self._pid)


class CommandWorker:
    """``hookwire work`` of a tree, with a program that notes the job's id."""

    def __init__(self, tree: Path, notes: Path) -> None:
        self._tree = tree
        self._notes = notes
        self.pids: set[int] = set()

    async def start(self, database: str, hub: str) -> None:
        environment = _environment(self._tree) | {"HOOKWIRE_DATABASE_URL": database, "NOTES": str(self._notes)}
        words = ("work", "--jobs", "--kind", "w", "--lease", "2", "--", "sh", "-c", _NOTE_THE_JOB)
        self._again = (database, hub)
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _COMMAND, *words, cwd=self._tree, env=environment, start_new_session=True
        )
        self.pids.add(self._process.pid)

    async def kill(self) -> None:
        """SIGKILL, and start the next one."""
        await self.end()
        await self.start(*self._again)

    async def end(self) -> None:
        await _killed(self._process)


def _environment(tree: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join((str(tree), str(tree / "sdk" / "src"), str(_ROOT)))}


async def _killed(process: Process) -> None:
    with suppress(ProcessLookupError):  # it has ended by itself
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


async def _more(sql: asyncpg.Connection) -> None:
    await sql.execute(
        "INSERT INTO enqueued SELECT hookwire.enqueue('k', '1', attempts_max => 1000) FROM generate_series(1, 60)"
    )
    await sql.execute("SELECT hookwire.enqueue('w', '1', attempts_max => 1000) FROM generate_series(1, 20)")


async def _shares(sql: asyncpg.Connection, workers: Sequence[SdkWorker | CommandWorker]) -> list[int]:
    """How many jobs each has completed."""
    rows = await sql.fetch("SELECT worker FROM hookwire.job_archive WHERE state = 'completed'")
    by_pid = Counter(int(row["worker"].split("-")[-2]) for row in rows)
    return [sum(by_pid[pid] for pid in worker.pids) for worker in workers]


async def test_workers_of_the_release_and_of_this_tree_end_each_job_once(
    running_hub: RunHub, old_database_url: str, tmp_path: Path, release: Path
) -> None:
    """F10, JF-45: the SDK's over SQL and HTTP, and `hookwire work`, of both trees; they are killed again and again.

    `hookwire work` of the release has started before the migration: afterwards it does not start any more, so it alone
    is not killed. It goes on until each of the six has completed jobs of the migrated database.
    """
    notes = tmp_path / "notes"
    workers = [SdkWorker(tree, way) for tree in (release, _ROOT) for way in ("sql", "http")]
    commands = [CommandWorker(tree, notes) for tree in (release, _ROOT)]
    everyone: list[SdkWorker | CommandWorker] = [*commands, *workers]
    kills = 0
    async with AsyncExitStack() as stack:
        _, sql = await stack.enter_async_context(opened(old_database_url))
        await prepared(sql, _JOBS)
        await _more(sql)
        await commands[0].start(old_database_url, "")
        stack.push_async_callback(commands[0].end)
        await until(notes.exists)
        await _migrate(old_database_url, _ROOT)
        hub = await stack.enter_async_context(running_hub())
        for worker in everyone[1:]:
            await worker.start(old_database_url, str(hub.client.base_url))
            stack.push_async_callback(worker.end)
        async with asyncio.timeout(300):
            while 0 in await _shares(sql, everyone):
                await _more(sql)
                while await sql.fetchval("SELECT count(*) FROM hookwire.jobs WHERE kind IN ('k', 'w')"):
                    await lasts(_KILL_SECONDS)
                    # A start of `hookwire work` takes a second or two.
                    await (commands[1] if kills % 10 == 9 else random.choice(workers)).kill()
                    kills += 1
        found, shares = await evidence(sql), await _shares(sql, everyone)
        by_program = await sql.fetch(
            "SELECT id::text FROM hookwire.job_archive WHERE kind = 'w' AND state = 'completed'"
        )
    print(f"{kills} workers killed; jobs by each: {shares}")

    assert check_jobs(found) == []
    assert sum(shares) == len(found.enqueued) + len(by_program)
    assert {row["id"] for row in by_program} == set(notes.read_text().split())
