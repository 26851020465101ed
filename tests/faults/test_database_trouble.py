"""A database that answers and cannot store anything: its disk is full, or its server is read-only (FC-06)."""

import json
import os
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from app.chaos.child import Child
from app.chaos.client import ChaosClient, ClientAnswer
from app.chaos.history import PublishOutcome, read_history
from scripts.servers.postgres import PostgresServer
from tests.faults.harness import CLEAN, Harness, open_harness
from tests.waiting import until

# Attempts in flight of two processes whose settlement has to be repeated.
DUPLICATES_MAX = 300
_DISK_BYTES = 96 * 1024 * 1024
# Larger than the pages that a checkpoint can free, smaller than the largest event.
_PAYLOAD_BYTES = 900 * 1024
_SECONDS = [10, pytest.param(60, marks=pytest.mark.slow)]


@pytest.mark.parametrize("seconds", _SECONDS)
async def test_a_full_disk_costs_nothing_that_was_acknowledged_and_is_nobodys_fault(
    seconds: float, postgres18: PostgresServer, servers_folder: Path, database_url: str, tmp_path: Path, seed: int
) -> None:
    """F14, FC-06: I1 I3 I6; 503 and not ready meanwhile, and it goes on by itself when there is room."""
    with small_disk(servers_folder / "small-disk", postgres18) as disk:
        async with database_on(disk, database_url), open_harness(database_url, tmp_path, seed) as harness:
            async with harness.scenario.load():
                await harness.accepts(50)
                filler = fill(disk)
                found = await troubled(harness, seconds)
                filler.unlink()
                await recovered(harness)
            assert found == ({503}, {"failing"})
            assert refused(harness) == []
            assert await harness.concluded(duplicates_max=DUPLICATES_MAX) == CLEAN


@pytest.mark.parametrize("seconds", _SECONDS)
async def test_a_read_only_server_costs_nothing_that_was_acknowledged_and_is_nobodys_fault(
    seconds: float, database_url: str, tmp_path: Path, seed: int
) -> None:
    """F14, FC-06: I1 I3 I6; a failover, or a managed server that ran full."""
    async with open_harness(database_url, tmp_path, seed) as harness:
        async with harness.scenario.load():
            await harness.accepts(50)
            await set_read_only(database_url, "on")
            found = await troubled(harness, seconds)
            await set_read_only(database_url, "off")
            await recovered(harness)
        assert found == ({503}, {"failing"})
        assert refused(harness) == []
        assert await harness.concluded(duplicates_max=DUPLICATES_MAX) == CLEAN


# --- what is seen meanwhile -------------------------------------------------------------------------------------


async def troubled(harness: Harness, seconds: float) -> tuple[set[int], set[str]]:
    """Publish and ask for readiness until the trouble is known, then for so long: which answers there were."""
    await until_ready(harness, "failing")
    answers, words = [], []
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        for child in harness.scenario.children:
            answers.append(await ask(child, "POST", "/topics/trouble/events", os.urandom(_PAYLOAD_BYTES)))
            words.append((await readiness(child))["database"])
    assert [
        answer.body for answer in answers if b"No space" in answer.body or b"read-only transaction" in answer.body
    ] == []
    assert all(int(answer.headers["retry-after"]) > 0 for answer in answers if answer.status == 503)
    print(f"{len(answers)} answers while nothing could be stored")
    return {answer.status for answer in answers}, set(words)


async def recovered(harness: Harness) -> None:
    """Wait until both processes are ready, and events are accepted and delivered again: nobody restarts anything."""
    pids = [child.pid for child in harness.scenario.children]
    await until_ready(harness, "ok")
    await harness.accepts(100)
    await harness.receives("ordered", 50)
    assert [child.pid for child in harness.scenario.children if child.is_running] == pids


async def until_ready(harness: Harness, word: str) -> None:

    async def holds() -> object:
        return {(await readiness(child))["database"] for child in harness.scenario.children} == {word}

    await until(holds)


async def readiness(child: Child) -> dict[str, Any]:
    answer = await ask(child, "GET", "/readyz")
    found: dict[str, Any] = json.loads(answer.body)
    assert answer.status == (200 if found["status"] in ("ok", "degraded") else 503)
    return found


async def ask(child: Child, method: str, path: str, body: bytes = b"") -> ClientAnswer:
    client = ChaosClient(child.port, 60)
    try:
        return await client.request(method, path, body)
    finally:
        client.close()


def refused(harness: Harness) -> list[str]:
    """Events that a writer was told to drop; transactors note what they rolled back themselves in the same way."""
    attempts = read_history(harness.scenario.options.folder / "history.jsonl")
    return [
        str(one.mark)
        for one in attempts
        if one.outcome is PublishOutcome.FAIL and not (one.mark.key or "").startswith("sql")
    ]


# --- harm -------------------------------------------------------------------------------------------------------


async def set_read_only(database_url: str, value: str) -> None:
    """Make the database's sessions read-only, or writable, from now on."""
    async with server_of(database_url) as server:
        name = urlsplit(database_url).path[1:]
        await server.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = {value}")
        await server.execute("SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = $1", name)


@contextmanager
def small_disk(folder: Path, server: PostgresServer) -> Iterator[Path]:
    """A file system of 96 MiB that the server may write to."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={_DISK_BYTES}", "tmpfs", folder],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        folder.rmdir()
        pytest.fail(
            f"A full disk needs a small file system, and mounting one needs root: {mounted.stderr.strip()}",
            pytrace=False,
        )
    try:
        owner = server.data_dir.stat()
        os.chown(folder, owner.st_uid, owner.st_gid)
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)
        folder.rmdir()


@asynccontextmanager
async def database_on(disk: Path, database_url: str) -> AsyncIterator[None]:
    """The database lies there meanwhile; the server's log of changes does not, so the server itself goes on."""
    name = urlsplit(database_url).path[1:]
    async with server_of(database_url) as server:
        await server.execute(f"CREATE TABLESPACE small LOCATION '{disk}'")
        try:
            await server.execute(f"ALTER DATABASE {name} SET TABLESPACE small")
            yield
        finally:
            await server.execute(
                "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = $1", name
            )
            await server.execute(f"ALTER DATABASE {name} SET TABLESPACE pg_default")
            await server.execute("DROP TABLESPACE small")


@asynccontextmanager
async def server_of(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection to the server's own database."""
    connection = await asyncpg.connect(urlunsplit(urlsplit(database_url)._replace(path="/postgres")))
    try:
        yield connection
    finally:
        await connection.close()


def fill(disk: Path) -> Path:
    """A file that leaves no block free; the server may take some while we look."""
    filler = disk / "filler"
    size = 0
    with filler.open("wb", buffering=0) as file:
        while free := os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize:
            with suppress(OSError):
                os.posix_fallocate(file.fileno(), size, free)
                size += free
    return filler
