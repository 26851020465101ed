"""Every program of examples/request-reply, as a process (LP-07, PP-12, BS-13, FL-01 to FL-13)."""

import os
import runpy
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from runtime.port import free_port
from tests.reqrep.running import WAIT_SECONDS, client_of, running_broker, running_worker

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "request-reply"
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'sdk' / 'src'}", "PYTHONDONTWRITEBYTECODE": "1"}


def endpoint() -> str:
    return f"tcp://127.0.0.1:{free_port()}"


@contextmanager
def program(name: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A program that says when it listens; killed at the end."""
    process = subprocess.Popen(
        [sys.executable, str(EXAMPLES / f"{name}.py"), *words], stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() != "", f"{name} ended at once"
        yield process
    finally:
        process.kill()
        process.wait(WAIT_SECONDS)
        assert process.stdout is not None
        process.stdout.close()


def run(name: str, *words: str) -> tuple[int, list[str]]:
    """Exit code and lines of a program that ends by itself."""
    finished = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py"), *words],
        stdout=subprocess.PIPE, text=True, env=ENVIRONMENT, timeout=WAIT_SECONDS, check=False,
    )  # fmt: skip
    return finished.returncode, finished.stdout.splitlines()


OK_3 = [f"server replied OK ({number})" for number in (1, 2, 3)]
PATIENT = ("--count", "3", "--timeout-seconds", "2", "--tries", "30")


def test_a_lazy_pirate_survives_the_restart_of_its_server() -> None:
    """LP-07."""
    address = endpoint()
    with program("lpserver", "--bind", address, "--work-seconds", "0"):
        assert run("lpclient", "--connect", address, *PATIENT) == (0, OK_3)
    with ExitStack() as stack:
        client = stack.enter_context(program_in_background("lpclient", "--connect", address, *PATIENT))
        stack.enter_context(program("lpserver", "--bind", address, "--work-seconds", "0"))
        assert client.communicate(timeout=WAIT_SECONDS)[0].splitlines() == OK_3


@contextmanager
def program_in_background(name: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_lazy_pirate_without_a_server_says_so() -> None:
    """LP-06."""
    assert run("lpclient", "--connect", endpoint(), "--timeout-seconds", "0.05") == (1, [])


@pytest.mark.parametrize(("kind", "sends_text"), [("sp", False), ("pp", True)])
def test_a_pirate_queue_carries_on_when_one_of_two_workers_is_killed(kind: str, sends_text: bool) -> None:
    """SP-01, SP-08, PP-12, XX-05: both spellings of READY; start order does not matter."""
    front, back = endpoint(), endpoint()
    options = ("--connect", back, "--work-seconds", "0", *(("--sends-text",) if sends_text else ()))
    with (
        program(f"{kind}worker", *options) as worker,
        program(f"{kind}queue", "--frontend", front, "--backend", back),
        program(f"{kind}worker", *options),
    ):
        assert run("lpclient", "--connect", front, *PATIENT) == (0, OK_3)
        worker.kill()
        assert run("lpclient", "--connect", front, *PATIENT) == (0, OK_3)


def test_the_majordomo_programs_work_together() -> None:
    """MD-01 to MD-24, MM-02."""
    address = endpoint()
    with program("mdbroker", "--bind", address), program("mdworker", "--connect", address):
        code, (line,) = run("mdclient", "--connect", address, "--count", "200")
        assert (code, line.split(",")[0]) == (0, "200 replies received")
        code, (line,) = run("mdclient2", "--connect", address, "--count", "2000")
        assert (code, line.split(" per ")[0].rsplit(",", 1)[0]) == (0, "2000 replies received, 0 lost")
        assert run("mmiecho", "--connect", address) == (0, ["lookup echo service: 200"])
        assert run("mmiecho", "--connect", address, "--service", "none") == (0, ["lookup none service: 404"])


def test_the_round_trip_demonstrator_ends_by_itself() -> None:
    """ZL-03: it waits for the worker, not for a pause."""
    code, lines = run("tripping", "--count", "200")
    assert (code, [line.split(":")[0] for line in lines]) == (
        0,
        ["synchronous round-trip test", "asynchronous round-trip test", "titanic round-trip test"],
    )


def test_titanic_works_over_a_broker_that_knows_nothing_of_it(tmp_path: Path) -> None:
    """TI-01, TI-08, TI-21: broker and Titanic are killed while a request waits; its id fetches the reply later."""
    address = endpoint()
    titanic = ("titanic", "--connect", address, "--folder", str(tmp_path), "--concurrency", "2")
    with ExitStack() as stack:
        stack.enter_context(program("mdbroker", "--bind", address))
        stack.enter_context(program(*titanic))
        asking = stack.enter_context(program_in_background("ticlient", "--connect", address))
        assert asking.stdout is not None
        request_id = asking.stdout.readline().split()[-1]
    with program("mdbroker", "--bind", address), program(*titanic), program("mdworker", "--connect", address):
        fetched = run("ticlient", "--connect", address, "--id", request_id)
        gone = run("ticlient", "--connect", address, "--id", request_id)
    assert (fetched, gone) == (
        (0, [f"request UUID {request_id}", "reply: Hello world"]), (1, [f"request UUID {request_id}"])
    )  # fmt: skip


@pytest.mark.parametrize("server", ["bstarsrv", "bstarsrv2"])
def test_a_binary_star_client_moves_to_the_backup_when_the_primary_is_killed(server: str) -> None:
    """BS-03, BS-06, BS-13, ZD-19."""
    front, state = (endpoint(), endpoint()), (endpoint(), endpoint())
    sides = [
        ("--bind", front[0], "--state-bind", state[0], "--state-peer", state[1], "--state-ms", "100"),
        ("--backup", "--bind", front[1], "--state-bind", state[1], "--state-peer", state[0], "--state-ms", "100"),
    ]
    client = ("--connect", ",".join(front), "--count", "3", "--timeout-seconds", "0.5", "--settle-seconds", "0.3")
    with program(server, *sides[1]) as backup, program(server, *sides[0]) as primary:
        assert run("bstarcli", *client) == (0, OK_3)
        assert backup.stdout is not None
        assert backup.stdout.readline().startswith("passive")  # before, it does not know of an active primary (BS-04)
        primary.kill()
        assert run("bstarcli", *client) == (0, OK_3)


@pytest.mark.parametrize("model", [1, 2, 3])
def test_the_freelance_programs_find_the_one_server_of_three_that_lives(model: int) -> None:
    """FL-01 to FL-08, XX-05."""
    live = endpoint()
    servers = ",".join((endpoint(), live, endpoint()))
    words = () if model == 1 else ("--count", "50")
    with program(f"flserver{model}", "--endpoint" if model == 3 else "--bind", live):
        code, lines = run(f"flclient{model}", "--connect", servers, *words)
    assert code == 0
    assert model == 2 or live in lines[-1]


def test_the_name_service_knows_each_environment() -> None:
    """FL-13: two servers of which one is dead; the same program asks for test and production."""
    live = endpoint()
    with program("nsserver", "--endpoint", live):
        asked = [
            run("nsclient", "--connect", f"{endpoint()},{live}", "--environment", environment)
            for environment in ("test", "production", "none")
        ]
    assert asked == [
        (0, ["bind tcp://127.0.0.1:7001; connect tcp://127.0.0.1:7001"]),
        (0, ["bind tcp://*:5555; connect tcp://10.0.0.1:5555 tcp://10.0.0.2:5555"]),
        (1, []),
    ]


def test_one_line_of_bash_calls_a_service() -> None:
    with running_broker() as broker, running_worker(*broker.endpoints):
        with client_of(*broker.endpoints) as client:
            assert client.call("echo", b"ready") == b"ready"
        words = ("127.0.0.1", broker.endpoints[0].rpartition(":")[2], "echo", "hello from bash")
        found = subprocess.run([str(EXAMPLES / "send"), *words], capture_output=True, timeout=WAIT_SECONDS, check=True)
    assert found.stdout == b"hello from bash\n"


def test_every_program_of_the_chapter_is_here_and_failures_are_off_by_default() -> None:
    """LP-09."""
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    wanted = (
        "lpclient lpserver spqueue spworker ppqueue ppworker mdbroker mdclient mdclient2 mdworker tripping mmiecho "
        "titanic ticlient "
        "bstarsrv bstarsrv2 bstarcli flserver1 flserver2 flserver3 flclient1 flclient2 flclient3 nsserver nsclient"
    )
    assert set(wanted.split()) <= names
    simulating = [path.name for path in EXAMPLES.glob("*.py") if "simulate_failures=True" in path.read_text()]
    assert simulating == []


def test_a_simulated_failure_strikes_after_the_third_request_and_only_when_it_is_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """LP-09: one in five for workers, one in three for servers; here the dice always fall badly."""
    failures = runpy.run_path(str(EXAMPLES / "failures.py"))
    struck: list[str] = []
    monkeypatch.setattr("os._exit", lambda code: struck.append("crash"))
    monkeypatch.setattr("time.sleep", lambda seconds: struck.append(f"{seconds} s"))
    monkeypatch.setattr("random.randrange", lambda sides: 0)
    for name in ("WorkerFailures", "ServerFailures"):
        for is_on in (False, True):
            simulation = failures[name](is_on)
            for _ in range(4):
                simulation.strike()
    assert struck == ["crash", "5 s", "crash", "2 s"]
