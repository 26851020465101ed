"""The start of a hub on a database that is there, and the processor time of commands.

A hub starts on a migrated database and is asked to publish until it answers 202: all checks have passed by then. Then
it is asked for /readyz, which says ok when its routes are there. Commands ask this hub, and print into a pipe. Modules
are compiled once, as an installation has them.
"""

from __future__ import annotations

import argparse
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.harness import cpu_seconds
from runtime.port import free_port
from scripts.servers.postgres import PostgresServer, embedded_bin_dir

_BAR = 0.8
_COMMAND_BAR = 0.25
_COMMANDS = (
    "--version", "--help", "status", "status --help", "publish start {}", "topics list", "topics list --limit 5",
    "subscriptions list", "queues list", "jobs list", "undelivered", "doctor",
)  # fmt: skip
_LEFT_OUT = ("HOOKWIRE_", "PYTHONDONTWRITEBYTECODE")  # without compiled modules each process would compile the product
_HEAD = "HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length:"
_PUBLISH = f"POST /topics/start/events {_HEAD} 2\r\n\r\n{{}}".encode()
_READY = f"GET /readyz {_HEAD} 0\r\n\r\n".encode()
_HOOKWIRE = str(Path(sys.executable).parent / "hookwire")


def _status(port: int, request: bytes) -> bytes:
    """Send a request on a connection of its own; return the status, or nothing where nobody listens."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            connection.sendall(request)
            return connection.recv(1024)[9:12]
    except ConnectionError:
        return b""


@contextmanager
def _started(environment: dict[str, str]) -> Iterator[tuple[float, ...]]:
    """Run a hub. Yield the seconds and its processor time to the first 202, and both to readiness."""
    port, found, began = free_port(), list[float](), time.monotonic()
    hub = subprocess.Popen([_HOOKWIRE, "serve"], env={**environment, "HOOKWIRE_LISTEN": f"127.0.0.1:{port}"})
    try:
        for request, wanted in ((_PUBLISH, b"202"), (_READY, b"200")):
            while _status(port, request) != wanted:
                if hub.poll() is not None:
                    raise RuntimeError("the hub ended")
                time.sleep(0.005)
            found += [time.monotonic() - began, cpu_seconds(hub.pid)]
        environment["HOOKWIRE_URL"] = f"http://127.0.0.1:{port}"
        yield tuple(found)
    finally:
        hub.terminate()
        hub.wait()


def _processor_seconds(command: Sequence[str], environment: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run(rounds: int) -> list[str]:
    """Measure both; return the lines to print."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_LEFT_OUT)}
    commands = [[_HOOKWIRE, *words.split()] for words in _COMMANDS]
    with tempfile.TemporaryDirectory(prefix="hookwire-bench-") as folder:
        Path(folder).chmod(0o711)
        postgres = PostgresServer("one", Path(folder) / "one", embedded_bin_dir())
        try:
            postgres.start()
            environment |= {
                "HOOKWIRE_DATABASE_URL": postgres.url, "HOOKWIRE_DATA_DIR": f"{folder}/data",
                "HOOKWIRE_LOG_LEVEL": "warning",
            }  # fmt: skip
            starts, used = [], {}
            for _ in range(rounds + 1):
                with _started(environment) as found:
                    starts.append(found)
            with _started(environment):
                for command in ([sys.executable, "-c", ""], *commands):
                    words = " ".join(("hookwire" if command[0] == _HOOKWIRE else "python", *command[1:]))
                    used[words] = [_processor_seconds(command, environment) for _ in range(rounds)]
        finally:
            postgres.discard()
    middle = [statistics.median(column) for column in zip(*starts[1:], strict=True)]  # the first start migrates
    return [
        f"load {os.getloadavg()[0]:.1f}",
        f"start to the first 202   {middle[0]:.2f} s (bar {_BAR}), {middle[1]:.2f} s of processor time",
        f"start to readiness       {middle[2]:.2f} s, {middle[3]:.2f} s of processor time",
        *(
            f"{words:35} {statistics.median(found):.2f} s of processor time, at least {min(found):.2f} "
            f"(bar {_COMMAND_BAR})"
            for words, found in used.items()
        ),
    ]


def main() -> None:
    """Measure starts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=7, help="starts, and runs of each command (default 7)")
    print(*run(parser.parse_args().rounds), sep="\n", flush=True)


if __name__ == "__main__":
    main()
