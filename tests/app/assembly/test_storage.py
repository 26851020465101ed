"""app/assembly/storage.py: the database, given or embedded, migrated, with its keys; the watch over the latter."""

import asyncio
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.assembly.storage import EmbeddedWatch, Storage, open_secrets, open_storage
from app.maintenance.due_poller import DuePoller
from app.settings.settings import Settings
from db.embedded.postmaster import read_record
from db.errors import DatabaseError, Unavailable
from db.secret_box import SecretBoxError
from runtime.port import free_port
from tests.waiting import block_until, poll


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """A folder that the embedded server's account can reach; no server outlives it."""
    home = Path(tempfile.mkdtemp(prefix="hookwire-test-"))
    home.chmod(0o755)
    yield home / "data"
    for folder in [path.parent for path in home.rglob("postmaster.pid")]:
        record = read_record(folder)
        if record is not None:
            record.send(signal.SIGQUIT, folder)
    shutil.rmtree(home, ignore_errors=True)


def settings(data_dir: Path, **more: Any) -> Settings:
    return Settings(data_dir=data_dir, **more)


async def test_a_given_database_is_migrated_and_not_embedded(database_url: str, tmp_path: Path) -> None:
    async with open_storage(settings(tmp_path / "data", database_url=database_url)) as storage:
        stored = await storage.database.fetchrow("event.installation")
        assert stored is not None
        assert (storage.embedded, storage.incarnation) == (None, stored["incarnation"])
        sealed = storage.secrets.seal(b"x", b"context")
    with pytest.raises(Unavailable):
        await storage.database.fetchrow("event.installation")
    async with open_storage(settings(tmp_path / "data", database_url=database_url)) as again:
        assert (again.secrets.open(*sealed, b"context"), again.incarnation) == (b"x", storage.incarnation)


async def test_a_database_that_cannot_be_reached_is_said_so(tmp_path: Path) -> None:
    url = f"postgresql://nobody@127.0.0.1:{free_port()}/nothing"
    with pytest.raises(DatabaseError):
        async with open_storage(settings(tmp_path, database_url=url)):
            pass


def test_keys_come_from_the_settings_or_from_a_file_of_our_own(tmp_path: Path) -> None:
    """SE-03."""
    made = open_secrets(settings(tmp_path / "data"))
    sealed = made.seal(b"x", b"c")
    file = tmp_path / "data" / "secret.keys"
    again = open_secrets(settings(tmp_path / "data"))
    other = open_secrets(settings(tmp_path / "data", secret_keys="k1:" + b64encode(os.urandom(32)).decode()))
    assert (stat.S_IMODE(file.stat().st_mode), again.open(*sealed, b"c"), other.current) == (0o600, b"x", "k1")
    with pytest.raises(SecretBoxError):
        other.open(*sealed, b"c")


async def test_the_embedded_database_is_started_again_when_it_was_killed(data_dir: Path) -> None:
    """RR-14, F43: what was committed is there again, nobody else has to do anything."""
    async with open_storage(settings(data_dir)) as storage:
        assert storage.embedded is not None
        await storage.database.execute("topic.ensure", "kept", "")
        watch = EmbeddedWatch(storage.embedded)
        poller = DuePoller(storage.database, {}, lambda *_: None, watch.notify, interval_seconds=0.05)
        async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
            tasks.create_task(watch.run())
            tasks.create_task(poller.run())
            record = read_record(data_dir / "postgres")
            assert record is not None
            os.kill(record.pid, signal.SIGKILL)
            assert [row["name"] for row in await until_answered(storage)] == ["kept"]
            poller.stop()
            watch.stop()
        successor = read_record(data_dir / "postgres")
        assert successor is not None
        assert successor.pid != record.pid
    assert read_record(data_dir / "postgres") is None


async def until_answered(storage: Storage) -> Any:
    """Asks until the killed server's successor answers."""
    failures = 0
    while True:
        try:
            rows = await storage.database.fetch("topic.get", "default", "kept")
        except DatabaseError:
            failures += 1
            await poll()
        else:
            if failures:
                return rows
            await poll()


HANGING = """
import asyncio, sys, time
from pathlib import Path
from runtime.process import end_within
from app.settings.settings import Settings
from app.assembly.storage import open_storage
from db.embedded.postmaster import read_record

async def main():
    data_dir = Path(sys.argv[1])
    async with open_storage(Settings(data_dir=data_dir)):
        print(read_record(data_dir / "postgres").status, flush=True)
        end_within(0)
        time.sleep(60)

asyncio.run(main())
"""


def test_a_process_that_is_cut_off_stops_its_embedded_database(data_dir: Path) -> None:
    """F08: whatever it is that runs on it, a relay of goharvest's table too; else nobody would end it."""
    ended = subprocess.run(
        [sys.executable, "-c", HANGING, str(data_dir)],
        cwd=Path(__file__).parents[3], timeout=60, check=False, capture_output=True,
    )  # fmt: skip
    assert (ended.returncode, b"ready" in ended.stdout.splitlines()) == (75, True), ended.stderr.decode()
    block_until(lambda: read_record(data_dir / "postgres") is None)  # it is gone with an orderly end alone


async def test_an_idle_watch_stops_at_once() -> None:
    watch = EmbeddedWatch(None)  # type: ignore[arg-type]
    async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
        tasks.create_task(watch.run())
        await asyncio.sleep(0)
        watch.stop()
