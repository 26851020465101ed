"""`make run` as a person uses it: in a terminal, ended by Ctrl-C, killed and started again (EC-31, RR-14)."""

import json
import os
import pty
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import psutil
import pytest

from tests.waiting import block_poll

ROOT = Path(__file__).parents[2]


class Terminal:
    """`make run` in a terminal of its own; what it prints is kept."""

    def __init__(self, data_dir: Path, port: int) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HOOKWIRE_")}
        settings = {"HOOKWIRE_DATA_DIR": str(data_dir), "HOOKWIRE_LISTEN": f"127.0.0.1:{port}"}
        self.url = f"http://127.0.0.1:{port}"
        self.said = ""
        self._code: int | None = None
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.chdir(ROOT)
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background job, and what it starts, ignores it
            os.execvpe("make", ["make", "run"], kept | settings)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                self.said += os.read(self._terminal, 65_536).decode(errors="replace")
            except OSError:  # the last process that had the terminal open has ended
                return

    def publish(self, body: bytes) -> dict[str, Any]:
        """The answer to a POST, repeated until there is one."""
        deadline = time.monotonic() + 60
        while True:
            try:
                with urlopen(Request(f"{self.url}/topics/t/events", data=body, method="POST"), timeout=30) as answer:
                    decoded: dict[str, Any] = json.load(answer)
                    return decoded
            except (URLError, ConnectionError):
                if time.monotonic() > deadline:
                    raise TimeoutError(self.said) from None
                block_poll()

    def press_ctrl_c(self) -> None:
        os.write(self._terminal, b"\x03")

    def kill_the_service(self) -> None:
        """As `kill -9` does; only the service, not the database's processes."""
        for child in psutil.Process(self.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # others come and go
                if "serve" in child.cmdline():
                    child.kill()

    @property
    def has_ended(self) -> bool:
        """Whether `wait` has seen it end."""
        return self._code is not None

    def wait(self) -> int:
        """How it ended: an exit code, or minus a signal's number."""
        if self._code is None:
            deadline = time.monotonic() + 60
            while (ended := os.waitpid(self.pid, os.WNOHANG)) == (0, 0):
                if time.monotonic() > deadline:
                    raise TimeoutError(self.said)
                block_poll()
            self._code = os.waitstatus_to_exitcode(ended[1])
            self._reader.join(timeout=10)
            os.close(self._terminal)
        return self._code


MakeRun = Callable[[], Terminal]


@pytest.fixture
def make_run(free_port: int) -> Iterator[MakeRun]:
    """Starts `make run` on one port and one data folder; what is left at the end of a failed test is asked to stop."""
    folder = Path(tempfile.mkdtemp(prefix="hw-"))
    folder.chmod(0o711)
    terminals: list[Terminal] = []

    def start() -> Terminal:
        terminals.append(Terminal(folder / "data", free_port))
        return terminals[-1]

    yield start
    for terminal in terminals:
        if not terminal.has_ended:
            terminal.press_ctrl_c()
            terminal.wait()
    shutil.rmtree(folder)


def test_it_takes_events_and_ctrl_c_ends_it_without_a_word_from_make(make_run: MakeRun) -> None:
    terminal = make_run()
    accepted = terminal.publish(b"hello")
    terminal.press_ctrl_c()
    assert (accepted["topic"], terminal.wait()) == ("t", -signal.SIGINT), terminal.said
    assert ("Traceback" in terminal.said, "***" in terminal.said) == (False, False), terminal.said


def test_after_kill_9_it_starts_again_with_everything_that_was_acknowledged(make_run: MakeRun) -> None:
    """No stale-lock error, whatever the dead service left behind."""
    killed = make_run()
    accepted = killed.publish(b"kept")
    killed.kill_the_service()
    killed.wait()
    terminal = make_run()
    terminal.publish(b"another")
    with urlopen(f"{terminal.url}/events/{accepted['id']}", timeout=30) as answer:
        event = json.load(answer)
    terminal.press_ctrl_c()
    terminal.wait()
    assert (event["id"], "Traceback" in terminal.said) == (accepted["id"], False)
