"""A record of claims proves the death of the process that made it, or nothing."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.bridges import claim_record
from app.bridges.claim_record import FENCES_MAX, ClaimRecord, dead_claims

_HOLDER = """
import os, sys
from pathlib import Path
from app.bridges.claim_record import ClaimRecord
record = ClaimRecord.create(Path(sys.argv[1]), "aaaaaaaa")
record.note([3, 5])
child = os.fork() if sys.argv[2] == "fork" else 1
print(os.getpid() if child else "child", flush=True)
sys.stdin.read()
"""


@contextmanager
def holder(folder: Path, kind: str = "alone") -> Iterator[subprocess.Popen[str]]:
    """Yield a process that holds the fences 3 and 5; with "fork" its child has the same file."""
    words = [sys.executable, "-c", _HOLDER, str(folder), kind]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(2 if kind == "fork" else 1):
            assert process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


def found(folder: Path, installation: str = "aaaaaaaa") -> list[list[int]]:
    return [dead.fences for dead in dead_claims(folder, installation)]


def leave_behind(folder: Path, *fences: int, installation: str = "aaaaaaaa") -> Path:
    """Leave the record of a process that has ended without a word."""
    record = ClaimRecord.create(folder, installation)
    assert record is not None
    record.note(fences)
    os.close(record._descriptor)
    return record._path


def test_the_claims_of_a_killed_process_are_known_at_once(tmp_path: Path) -> None:
    """TO-02: no process id takes part, and the kernel frees the lock."""
    with holder(tmp_path) as process:
        before = found(tmp_path)
        process.kill()
        process.wait()
        assert (before, found(tmp_path)) == ([], [[3, 5]])


def test_a_stopped_process_is_not_dead(tmp_path: Path) -> None:
    """TO-04"""
    with holder(tmp_path) as process:
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        assert found(tmp_path) == []


def test_a_child_of_a_dead_process_counts_as_the_process(tmp_path: Path) -> None:
    with holder(tmp_path, "fork") as process:
        process.kill()
        process.wait()
        assert found(tmp_path) == []


def test_the_own_record_is_not_of_a_dead_process(tmp_path: Path) -> None:
    record = ClaimRecord.create(tmp_path, "aaaaaaaa")
    assert record is not None
    try:
        assert found(tmp_path) == []
    finally:
        record.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_copied_folder_proves_no_death(tmp_path: Path) -> None:
    with holder(tmp_path / "first"):
        shutil.copytree(tmp_path / "first", tmp_path / "second")
        assert found(tmp_path / "second") == []


def test_a_record_of_another_boot_or_host_proves_no_death(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TO-02: on a shared volume another host may see a free lock while its holder lives."""
    leave_behind(tmp_path / "claims", 7)
    other = tmp_path / "boot_id"
    other.write_text("00000000-0000-0000-0000-000000000000\n")
    monkeypatch.setattr(claim_record, "_BOOT", other)
    assert found(tmp_path / "claims") == []


def test_a_record_of_another_installation_is_left_alone(tmp_path: Path) -> None:
    leave_behind(tmp_path, 7)
    assert (found(tmp_path, "bbbbbbbb"), found(tmp_path)) == ([], [[7]])


@pytest.mark.parametrize("installation", ["aaaaaaaa", "bbbbbbbb"], ids=["own", "other"])
def test_a_record_older_than_every_lease_is_removed_and_not_used(installation: str, tmp_path: Path) -> None:
    """TO-02: after a restore its fences may be those of claims that somebody holds."""
    path = leave_behind(tmp_path, 7, installation=installation)
    os.utime(path, (time.time(), time.time() - 3601))
    assert (found(tmp_path), path.exists()) == ([], False)


def test_the_draft_of_a_process_that_was_killed_is_removed_and_a_new_one_is_not(tmp_path: Path) -> None:
    old, new = tmp_path / "a.new", tmp_path / "b.new"
    old.touch()
    new.touch()
    os.utime(old, (time.time(), time.time() - 3601))
    assert (found(tmp_path), list(tmp_path.iterdir())) == ([], [new])


@pytest.mark.parametrize("rest", [b"", b"\7"], ids=["whole", "part of a fence"])
def test_of_a_file_that_was_cut_the_whole_fences_count(rest: bytes, tmp_path: Path) -> None:
    """F14: an exception here would end each start."""
    path = leave_behind(tmp_path, 7)
    with path.open("ab") as file:
        file.write(rest)
    assert found(tmp_path) == [[7]]


@pytest.mark.parametrize("kind", ["nfs4", "fuse.sshfs", "virtiofs", "beegfs", "bcachefs"])
def test_no_record_is_made_where_a_free_lock_proves_no_death(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TO-02: a server or a program may free the lock of a living holder, and a snapshot may look like its file."""
    monkeypatch.setattr(claim_record, "_MOUNTS", mounted(tmp_path, kind))
    assert (ClaimRecord.create(tmp_path / "claims", "aaaaaaaa"), *(tmp_path / "claims").iterdir()) == (None,)


def test_a_mount_point_may_have_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = mounted(tmp_path, "ext4")
    mounts.write_bytes(b"1 1 0:1 / /\xff rw - proc proc rw\n" + mounts.read_bytes())
    monkeypatch.setattr(claim_record, "_MOUNTS", mounts)
    record = ClaimRecord.create(tmp_path / "claims", "aaaaaaaa")
    assert record is not None
    record.remove()


def mounted(folder: Path, kind: str) -> Path:
    """Return a table of mounts in which the folder is on such a file system."""
    mounts = folder / "mountinfo"
    with mounts.open("w") as file:
        about = Path(f"/proc/self/fdinfo/{file.fileno()}").read_text()
        [number] = [line.split()[1] for line in about.splitlines() if line.startswith("mnt_id:")]
        device = os.stat(folder).st_dev
        file.write(f"{number} 1 {os.major(device)}:{os.minor(device)} / / rw - {kind} server:/a rw\n")
    return mounts


def test_a_file_that_was_cut_does_not_end_its_process(tmp_path: Path) -> None:
    """F14: a store into a mapped page that is gone, or on a broken disk, ends a process without a word."""
    code = """if True:
        import os, sys
        from pathlib import Path
        from app.bridges.claim_record import ClaimRecord
        record = ClaimRecord.create(Path(sys.argv[1]), "aaaaaaaa")
        [path] = Path(sys.argv[1]).iterdir()
        os.truncate(path, 0)
        record.note([3])
    """
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False).returncode == 0


def test_of_too_many_fences_the_latest_are_kept(tmp_path: Path) -> None:
    leave_behind(tmp_path, *range(1, FENCES_MAX + 3))
    [fences] = found(tmp_path)
    assert (len(fences), min(fences), max(fences)) == (FENCES_MAX, 3, FENCES_MAX + 2)
