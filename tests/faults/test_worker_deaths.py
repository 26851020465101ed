"""A worker that dies with a stored request, while an idle worker of its service stands by."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from os import pidfd_open
from pathlib import Path

import pytest

from runtime.port import free_port
from tests.faults.packets import drop_what_comes
from tests.faults.test_titanic import titanic_client
from tests.reqrep.running import WAIT_SECONDS
from tests.reqrep.test_broker_command import broker_process
from tests.reqrep.test_examples import ENVIRONMENT
from tests.waiting import block_for, block_until

SDK = Path(__file__).with_name("sdk_worker.py")
GUIDE = Path(__file__).parents[1] / "ancestors" / "mdworker.py"
_LIBRARY = ctypes.CDLL(None)
_PIDFD_GETFD = 438  # the system call, of Linux 5.6
_DESCRIPTORS_MAX = 64


@contextmanager
def worker_process(script: Path, endpoint: str, folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(script), endpoint, "pay", "--folder", str(folder), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def cut_off(process: subprocess.Popen[str], port: int) -> None:
    """Take the process off the network: its host drops what comes from the broker, and it sends nothing any more."""
    found = pidfd_open(process.pid)
    try:
        for number in range(_DESCRIPTORS_MAX):
            descriptor = _LIBRARY.syscall(_PIDFD_GETFD, found, number, 0)
            if descriptor >= 0 and stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                with socket.socket(fileno=descriptor) as connection:
                    if is_to(connection, port):
                        drop_what_comes(connection)
            elif descriptor >= 0:
                os.close(descriptor)
    finally:
        os.close(found)
    process.send_signal(signal.SIGSTOP)


def is_to(connection: socket.socket, port: int) -> bool:
    try:
        return connection.family == socket.AF_INET and connection.getpeername()[1] == port
    except OSError:
        return False


@pytest.fixture
def store_words(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, ...]:
    """The options of a broker with this store."""
    if request.param == "memory":
        return ("--titanic", "memory")
    if request.param == "file":
        return ("--titanic", str(tmp_path / "requests"))
    config = tmp_path / "hookwire.toml"
    config.write_text(f'database_url = "{request.getfixturevalue("database_url")}"\n')
    return ("--titanic", "database", "--config", str(config))


def seconds_until_the_reply(kind: str, seconds: float, port: int, folder: Path, heartbeat: str) -> float:
    """Lose a worker some seconds after it got a stored request; return how long the reply takes from then on.

    The reply comes from a second worker, which was idle all the time.
    """
    endpoint, beats = f"tcp://127.0.0.1:{port}", ("--heartbeat-ms", heartbeat)
    with ExitStack() as stack:
        client = stack.enter_context(titanic_client(endpoint))
        script = SDK if kind == "sdk" else GUIDE
        first = stack.enter_context(worker_process(script, endpoint, folder, "--work-seconds", "3600", *beats))
        request_id = client.submit("pay", b"bill 7")
        block_until(lambda: (folder / f"got-{first.pid}").exists(), WAIT_SECONDS)
        stack.enter_context(worker_process(GUIDE, endpoint, folder, *beats))
        block_for(seconds)
        if kind == "link":
            cut_off(first, port)
        else:
            first.send_signal(signal.SIGSTOP if kind == "stopped" else signal.SIGKILL)
        lost_at = time.monotonic()
        assert client.wait(request_id, WAIT_SECONDS) == [b"bill 7"]
        return time.monotonic() - lost_at


@pytest.mark.parametrize("store_words", ["memory"], indirect=True)
@pytest.mark.parametrize("kind", ["sdk", "guide", "link"])
def test_a_request_whose_worker_dies_goes_to_an_idle_worker(
    kind: str, store_words: tuple[str, ...], tmp_path: Path
) -> None:
    """GM-01, TI-08, MD-21: the limit of 900 s for slow workers plays no part."""
    port = free_port()
    with broker_process(*store_words, port=port):
        seconds_until_the_reply(kind, 0.1, port, tmp_path, "200")


def test_heartbeats_of_zeromq_find_a_worker_whose_host_lives_but_whose_zeromq_does_not(tmp_path: Path) -> None:
    """GM-01, HB-11: as behind a proxy that lives. Its kernel acknowledges all, and the limit of 900 s would count."""
    port = free_port()
    with broker_process("--titanic", "memory", "--ping-ms", "200", port=port):
        seconds_until_the_reply("stopped", 0.1, port, tmp_path, "200")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("store_words", ["memory", "file", "database"], indirect=True)
@pytest.mark.parametrize("kind", ["sdk", "guide", "link"])
def test_a_worker_may_die_at_any_moment_of_its_request(
    kind: str, store_words: tuple[str, ...], tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """GM-01: with the default heartbeats, at 0.1, 1, 3 and 6 seconds; the report has the times."""
    port = free_port()
    with broker_process(*store_words, "--heartbeat-ms", "2500", port=port):
        for seconds in (0.1, 1.0, 3.0, 6.0):
            folder = tmp_path / str(seconds)
            folder.mkdir()
            took = seconds_until_the_reply(kind, seconds, port, folder, "2500")
            record_property(f"{seconds} s", round(took, 2))
            print(f"{kind}, lost after {seconds} s: the reply took {took:.2f} s")


def test_a_slow_worker_that_only_computes_is_not_given_up(tmp_path: Path) -> None:
    """GM-01: it sends nothing for twenty intervals, but its connection lives; an idle worker gets nothing."""
    with (
        broker_process("--titanic", "memory") as (_, endpoint),
        titanic_client(endpoint) as client,
        worker_process(GUIDE, endpoint, tmp_path, "--work-seconds", "4", "--heartbeat-ms", "200"),
    ):
        request_id = client.submit("pay", b"bill 8")
        block_until(lambda: list(tmp_path.glob("got-*")), WAIT_SECONDS)
        with worker_process(GUIDE, endpoint, tmp_path, "--heartbeat-ms", "200"):
            assert client.wait(request_id, WAIT_SECONDS) == [b"bill 8"]
    assert len(list(tmp_path.glob("got-*"))) == 1
