"""Titanic under faults: brokers killed a hundred times, workers killed and stopped at the worst moment, a full disk."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from hookwire.services import NoReply, TitanicClient, TitanicOptions, Worker
from runtime.port import free_port
from tests.reqrep.running import FAST, WAIT_SECONDS, running_worker, threaded
from tests.reqrep.test_broker_command import broker_process
from tests.reqrep.test_examples import ENVIRONMENT
from tests.waiting import block_until

KILLS = 100
DISK_BYTES = 8 * 1024 * 1024


def titanic_client(endpoint: str, failing_seconds_max: float = 30.0) -> TitanicClient:
    options = TitanicOptions(poll_seconds_max=0.2, failing_seconds_max=failing_seconds_max)
    return TitanicClient(endpoint, timeout_seconds=1.0, tries=WAIT_SECONDS, options=options)


class Submitter(threading.Thread):
    """Submits without a pause until it is told to stop, and remembers what was accepted."""

    def __init__(self, endpoint: str, name: str) -> None:
        super().__init__(name=name)
        self.accepted: dict[str, bytes] = {}
        self.is_done = threading.Event()
        self._endpoint = endpoint

    def run(self) -> None:
        number = 0
        with titanic_client(self._endpoint) as client:
            while not self.is_done.is_set():
                body = f"{self.name}-{number}".encode()
                self.accepted[client.submit("echo", body)] = body
                number += 1


@pytest.fixture(params=["file", "database"])
def titanic_words(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, ...]:
    """The options of a broker whose requests survive it."""
    if request.param == "file":
        return ("--titanic", str(tmp_path))
    config = tmp_path / "hookwire.toml"
    config.write_text(f'database_url = "{request.getfixturevalue("database_url")}"\n')
    return ("--titanic", "database", "--config", str(config))


@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_a_hundred_kills_of_the_broker_lose_no_accepted_request(titanic_words: tuple[str, ...]) -> None:
    """XX-05, TI-07, TI-08: kill -9 while three clients submit and a worker works; each id fetches its own reply."""
    port = free_port()
    endpoint = f"tcp://127.0.0.1:{port}"
    dice = random.Random(9)
    submitters = [Submitter(endpoint, name) for name in "abc"]
    with running_worker(endpoint, concurrency=2):
        for submitter in submitters:
            submitter.start()
        for _ in range(KILLS):
            with broker_process(*titanic_words, port=port) as (process, _):
                wanted = sum(len(each.accepted) for each in submitters) + dice.randint(1, 40)
                block_until(lambda wanted=wanted: sum(len(each.accepted) for each in submitters) >= wanted)
                process.kill()
        with broker_process(*titanic_words, port=port), titanic_client(endpoint) as client:
            for submitter in submitters:
                submitter.is_done.set()
                submitter.join(WAIT_SECONDS)
            accepted = {id_: body for each in submitters for id_, body in each.accepted.items()}
            wrong = {id_: body for id_, body in accepted.items() if client.wait(id_, WAIT_SECONDS) != [body]}
    assert (wrong, len(accepted) >= KILLS) == ({}, True)


@contextmanager
def worker_process(endpoint: str, name: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    script = Path(__file__).with_name("titanic_worker.py")
    command = [sys.executable, str(script), endpoint, name, str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait(WAIT_SECONDS)
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture
def paying(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A broker with Titanic whose workers of `pay` are lost after a second without heartbeats, and a folder."""
    services = tmp_path / "services.toml"
    services.write_text("[services.pay]\nbusy_seconds_max = 1.0\n")
    words = ("--services", str(services), "--titanic", str(tmp_path / "requests"))
    with broker_process(*words) as (_, endpoint):
        yield endpoint, tmp_path


def effects(folder: Path) -> list[str]:
    file = folder / "effects"
    return file.read_text().splitlines() if file.exists() else []


def test_a_worker_killed_after_its_effect_and_before_its_reply_is_followed_by_another(
    paying: tuple[str, Path],
) -> None:
    """TI-08, TI-12: the request is executed again, and answered once."""
    endpoint, folder = paying
    (folder / "kill").touch()
    with ExitStack() as stack:
        client = stack.enter_context(titanic_client(endpoint))
        first = stack.enter_context(worker_process(endpoint, "first", folder))
        request_id = client.submit("pay", b"bill 7")
        first.wait(WAIT_SECONDS)
        pending = client.fetch(request_id)
        stack.enter_context(worker_process(endpoint, "second", folder))
        reply = client.wait(request_id, WAIT_SECONDS)
    assert (pending, reply, effects(folder)) == (
        None, [b"second did bill 7"], ["first bill 7", "second bill 7"]
    )  # fmt: skip


def test_a_stopped_worker_that_goes_on_later_does_not_change_the_reply(paying: tuple[str, Path]) -> None:
    """TI-12, TI-17: the first reply wins; that of the worker which was given up comes too late."""
    endpoint, folder = paying
    (folder / "hold").touch()
    with ExitStack() as stack:
        client = stack.enter_context(titanic_client(endpoint))
        first = stack.enter_context(worker_process(endpoint, "first", folder))
        request_id = client.submit("pay", b"bill 8")
        block_until(lambda: effects(folder))
        first.send_signal(signal.SIGSTOP)
        (folder / "hold").unlink()
        stack.enter_context(worker_process(endpoint, "second", folder))
        reply = client.wait(request_id, WAIT_SECONDS)
        first.send_signal(signal.SIGCONT)
        # The first worker registers again: a later request that only it can take shows that its late reply is through.
        answers = set()
        block_until(lambda: answers.add(client.call("pay", b"next").split()[0]) or b"first" in answers)  # type: ignore[func-returns-value]
        again = client.fetch(request_id)
    assert (reply, again) == ([b"second did bill 8"], [b"second did bill 8"])


def test_a_stopped_broker_goes_on_with_every_request(tmp_path: Path) -> None:
    """HB-02, TI-08: SIGSTOP while requests wait and run; nothing is lost, and each is answered."""
    with (
        broker_process("--titanic", str(tmp_path)) as (process, endpoint),
        running_worker(endpoint),
        titanic_client(endpoint) as client,
    ):
        before = {client.submit("echo", b"%d" % number): b"%d" % number for number in range(50)}
        process.send_signal(signal.SIGSTOP)
        healing = threading.Timer(1.5, process.send_signal, (signal.SIGCONT,))
        healing.start()
        after = {client.submit("echo", b"late %d" % number): b"late %d" % number for number in range(10)}
        healing.join()
        accepted = before | after
        assert {id_: client.wait(id_, WAIT_SECONDS) for id_ in accepted} == {
            id_: [body] for id_, body in accepted.items()
        }


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if mounted.returncode:
        pytest.fail(f"A full disk needs a small file system, and mounting one needs root: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_refuses_requests_loses_nothing_and_takes_requests_again_when_there_is_room(
    small_disk: Path,
) -> None:
    """TI-05, TI-07: status 500; what was accepted is executed, answered and closed; then there is room again."""
    with (
        broker_process("--titanic", str(small_disk)) as (_, endpoint),
        titanic_client(endpoint, failing_seconds_max=0.1) as client,
    ):
        accepted = fill(client)
        waiting = [client.fetch(id_) for id_ in accepted]
        worker = Worker(endpoint, heartbeat=FAST, reconnect_seconds=0.1)
        worker.service("short", concurrency=2)(lambda body: b"ok")
        with threaded(worker.run, worker.stop):
            replies = [client.wait(id_, WAIT_SECONDS) for id_ in accepted]
        for id_ in accepted:
            client.close_request(id_)
        again = titanic_client(endpoint).submit("echo", b"x" * 50_000)
    with broker_process("--titanic", str(small_disk)) as (_, endpoint), titanic_client(endpoint) as client:
        after = client.fetch(again)
    assert (len(accepted) > 10, set(map(str, waiting)), {len(reply[0]) for reply in replies}, after) == (
        True, {"None"}, {2}, None
    )  # fmt: skip


def fill(client: TitanicClient) -> list[str]:
    """Submit until the store has no room; return what was accepted."""
    accepted: list[str] = []
    while True:
        try:
            accepted.append(client.submit("short", b"x" * 100_000))
        except NoReply:
            return accepted
