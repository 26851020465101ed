"""Majordomo with foreign programs (`make test-interop`): the npm package zeromq, and the Go package pebbe/zmq4.

Each is client and worker of our broker. A broker in Go then serves our client and our worker. The script needs Node >=
20, npm, Go >= 1.19 and the packages of `scripts/install-servers libzmq`. It fetches two pinned packages.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hookwire.services import Client, HeartbeatOptions, Worker
from reqrep.majordomo.options import BrokerOptions
from reqrep.majordomo.program import BrokerProgram

_NPM_PACKAGE = "zeromq@6.8.0"
_GO_MODULE = "module interop\n\ngo 1.19\n\nrequire github.com/pebbe/zmq4 v1.4.0\n"
_SOURCES = Path(__file__).with_name("interop")
_COUNT = 1_000
# The broker in Go and the worker in Node have the same interval; a silent peer is gone after three.
_HEARTBEAT = HeartbeatOptions(interval_seconds=1.0, liveness=3)
_IDLE_SECONDS = 4.5


def main() -> int:
    """Run every direction; return the exit code."""
    if missing := _missing():
        print(f"interop: {missing}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="hookwire-interop-") as folder:
        node, go = _in_node(Path(folder)), _in_go(Path(folder))
        for name, program in (("npm zeromq", node), ("Go pebbe/zmq4", go)):
            with _our_broker() as endpoint:
                with _our_worker(endpoint):
                    subprocess.run([*program, "client", endpoint, str(_COUNT)], check=True, timeout=120)
                print(f"interop: {name} client -> our broker -> our worker: passed", flush=True)
                with _printing([*program, "worker", endpoint]) as line:
                    _require(line == "ready", f"the worker printed {line!r}")
                    _call(endpoint)
                print(f"interop: our client -> our broker -> {name} worker: passed", flush=True)
        with _printing([*go, "broker"]) as endpoint, _our_worker(endpoint):
            _call(endpoint)
        print("interop: our client -> Go pebbe/zmq4 broker -> our worker: passed")
    return 0


def _missing() -> str | None:
    """Return one sentence that says what to install, or None."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        return "install Node >= 20 and npm (Debian: nodejs npm)"
    if shutil.which("go") is None:
        return "install Go >= 1.19 (Debian: golang-go)"
    return None


def _in_node(folder: Path) -> list[str]:
    """Install the package of npm; return the command of the program."""
    subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", _NPM_PACKAGE], cwd=folder, check=True)
    shutil.copy(_SOURCES / "mdp.mjs", folder)
    return ["node", str(folder / "mdp.mjs")]


def _in_go(folder: Path) -> list[str]:
    """Compile the program in Go; return its command."""
    for source in _SOURCES.glob("*.go"):
        shutil.copy(source, folder)
    (folder / "go.mod").write_text(_GO_MODULE)
    subprocess.run(["go", "build", "-mod=mod", "-o", "mdp", "."], cwd=folder, check=True)
    return [str(folder / "mdp")]


@contextmanager
def _our_broker() -> Iterator[str]:
    options = BrokerOptions(heartbeat_seconds=_HEARTBEAT.interval_seconds, liveness=_HEARTBEAT.liveness)
    broker = BrokerProgram(["tcp://127.0.0.1:*"], options)
    thread = threading.Thread(target=broker.run)
    thread.start()
    try:
        (endpoint,) = broker.endpoints
        yield endpoint
    finally:
        broker.stop()
        thread.join()


@contextmanager
def _our_worker(endpoint: str) -> Iterator[None]:
    worker = Worker(endpoint, heartbeat=_HEARTBEAT)
    worker.frames_service("echo")(lambda frames: frames)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        thread.join()


@contextmanager
def _printing(command: list[str]) -> Iterator[str]:
    """Run a program until the end of the block; give its first line."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
            _require(process.poll() is None, f"{command[1]} ended with exit code {process.returncode}")
        finally:
            process.kill()


def _call(endpoint: str) -> None:
    """Call the worker many times; then only heartbeats pass for longer than a silent peer has; then call once more."""
    with Client(endpoint, timeout_seconds=60) as client:
        for number in range(_COUNT):
            _echo(client, b"%d" % number)
    time.sleep(_IDLE_SECONDS)
    # One try, shorter than the pause before a worker that was dropped registers again.
    with Client(endpoint, timeout_seconds=2.0, tries=1) as client:
        _require(client.call("mmi.service", b"echo") == b"200", "the broker lost its idle worker")
        _echo(client, b"after a pause")


def _echo(client: Client, text: bytes) -> None:
    reply = client.call_frames("echo", [text, b""])
    _require(reply == [text, b""], f"sent {text!r}, received {reply!r}")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise SystemExit(f"interop: {message}")


if __name__ == "__main__":
    sys.exit(main())
