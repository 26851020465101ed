"""``hookwire broker`` as a process: it needs no database, kills and stops leave its clients whole (XX-05, MD-26)."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli.commands import broker
from app.cli.failure import CommandFailed
from app.cli.main import application
from runtime.port import free_port
from tests.reqrep.running import WAIT_SECONDS, client_of, running_broker, running_worker
from tests.waiting import block_for, block_until

HOOKWIRE = Path(sys.executable).with_name("hookwire")
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("HOOKWIRE_")}


@contextmanager
def broker_process(*words: str, port: int | None = None) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command and its endpoint; killed if the test leaves it running."""
    endpoint = f"tcp://127.0.0.1:{port or free_port()}"
    command = [str(HOOKWIRE), "broker", "--json", "--heartbeat-ms", "200", "--bind", endpoint, *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
    try:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == {"kind": "listening", "endpoints": [endpoint]}
        yield process, endpoint
    finally:
        process.kill()
        process.wait(WAIT_SECONDS)
        assert process.stdout is not None
        process.stdout.close()


def run(*words: str) -> tuple[int, str]:
    """The exit code and the sentence of a command that ends by itself, in this process."""
    result = CliRunner().invoke(application("broker"), ["broker", *words])
    failure = result.exception
    return (failure.code, str(failure)) if isinstance(failure, CommandFailed) else (result.exit_code, result.output)


def test_it_serves_tells_events_as_json_shows_metrics_and_ends_with_0() -> None:
    port = free_port()
    with broker_process("--metrics", f"127.0.0.1:{port}") as (process, endpoint):
        with running_worker(endpoint), client_of(endpoint) as client:
            assert client.call("echo", b"hello") == b"hello"
            await_text(f"http://127.0.0.1:{port}/metrics", 'hookwire_broker_messages_total{kind="replies"} 1.0')
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["kind"] == "worker-ready"
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_SECONDS) == 0


def await_text(url: str, text: str) -> None:
    block_until(lambda: text in urllib.request.urlopen(url, timeout=WAIT_SECONDS).read().decode(), WAIT_SECONDS)


def test_a_killed_broker_loses_no_retrying_client() -> None:
    """MD-15, MD-26, XX-05: kill -9 and restart on the same port; nobody is told."""
    port = free_port()
    replies = []
    with running_worker(f"tcp://127.0.0.1:{port}"):
        for number in range(2):
            with (
                broker_process(port=port) as (process, endpoint),
                client_of(endpoint, timeout_seconds=1, tries=60) as client,
            ):
                replies.append(client.call("echo", b"%d" % number))
                process.kill()
    assert replies == [b"0", b"1"]


def test_a_stopped_broker_goes_on_where_it_was() -> None:
    """HB-02, XX-05: SIGSTOP for longer than the expiry, then SIGCONT; the worker is still there or comes back."""
    with (
        broker_process() as (process, endpoint),
        running_worker(endpoint),
        client_of(endpoint, timeout_seconds=1, tries=60) as client,
    ):
        assert client.call("echo", b"before") == b"before"
        process.send_signal(signal.SIGSTOP)
        block_for(1.0)  # five intervals: the length of the fault, not a wait
        process.send_signal(signal.SIGCONT)
        assert client.call("echo", b"after") == b"after"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--keys", "x"), "CURVE needs both --keys and --server-key"),
        (("--promote",), "--promote needs --pair"),
        (("--bind", "nonsense"), "cannot bind nonsense"),
        (("--bind", "tcp://127.0.0.1:*", "--metrics", "9000"), "is not HOST:PORT"),
        (("--services", "missing.toml"), "missing.toml"),
        (("--titanic", "memory", "--titanic-retention", "7"), "'7' is no time such as 90s, 15m, 12h or 7d"),
        (("--titanic", "memory", "--titanic-retention", "0d"), "is no time"),
        (("--bind", "tcp://127.0.0.1:*", "--titanic", "/dev/null/x"), "cannot use the folder /dev/null/x"),
    ],
)
def test_wrong_use_ends_with_2_and_one_sentence(words: tuple[str, ...], sentence: str) -> None:
    code, said = run(*words)
    assert (code, sentence in said) == (2, True)


def test_two_brokers_do_not_share_the_folder_of_titanic(tmp_path: Path) -> None:
    """TI-15: the second would not see what the first stores."""
    with broker_process("--titanic", str(tmp_path)):
        code, said = run("--bind", "tcp://127.0.0.1:*", "--titanic", str(tmp_path))
    assert (code, said) == (2, f"{tmp_path} is in use by another broker; give each broker its own folder")


def test_titanic_in_memory_is_there_at_once_and_its_numbers_are_metrics() -> None:
    """TI-15, MM-07."""
    port = free_port()
    words = ("--titanic", "memory", "--titanic-collect-ms", "1", "--metrics", f"127.0.0.1:{port}")
    with broker_process(*words) as (process, endpoint), client_of(endpoint) as client:
        status, _ = client.call_frames("titanic.request", [b"echo", b"x"])
        await_text(f"http://127.0.0.1:{port}/metrics", "hookwire_broker_titanic_pending 1.0")
        process.send_signal(signal.SIGTERM)
        assert (status, process.wait(WAIT_SECONDS)) == (b"200", 0)


def test_policies_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "services.toml"
    file.write_text('[services."echo"]\nwithout_workers = "refuse"\n')
    with broker_process("--services", str(file)) as (_, endpoint), client_of(endpoint) as client:
        assert client.call_frames("mmi.call", [b"echo", b"x"]) == [b"404", b"echo", b"no-workers"]
    file.write_text('[services."echo"]\nwithout_worker = "refuse"\n')
    assert "there is no option 'without_worker'" in run("--services", str(file))[1]


def test_a_key_pair_is_written_once(tmp_path: Path) -> None:
    first, second = run("--make-key", str(tmp_path / "alice")), run("--make-key", str(tmp_path / "alice"))
    assert (first[0], second[0]) == (0, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alice.key", "alice.key_secret"]


def test_a_connection_to_the_metrics_without_a_request_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """GS-02: each kept a thread for ever."""
    monkeypatch.setattr(broker, "_METRICS_SECONDS_MAX", 0.1)
    port = free_port()
    with running_broker() as program:
        broker._serve_metrics(program, f"127.0.0.1:{port}")
        with socket.create_connection(("127.0.0.1", port)) as silent:
            silent.settimeout(5)
            with suppress(TimeoutError):
                assert silent.recv(1) == b""
                return
    pytest.fail("the connection stayed open")
