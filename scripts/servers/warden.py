"""The warden: a small process that cleans up after an owner that died without doing so.

The owner holds the only write end of a pipe and reports over it, one JSON object a line. These are `{"watch": [pid,
created_at, signal]}`, `{"forget": [pid, created_at]}`, `{"remove": folder}`. At any end of the owner the kernel closes
the pipe. The warden then ends every tree that is still watched and removes the folders. It lives in a session of its
own, so that Ctrl-C in a terminal reaches the owner and not the warden.
"""

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

from scripts.servers.tree import ProcessTree

_GRACE_SECONDS = 5.0
_ROOT = Path(__file__).parents[2]


class Warden:
    """The owner's side of the pipe. Safe to use from several threads; its process starts at the first report."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def watch(self, tree: ProcessTree, quit_signal: int) -> None:
        """Asks the warden to end this tree after us: first by the signal, and by SIGKILL 5 s later."""
        self._report({"watch": [tree.pid, tree.created_at, quit_signal]})

    def forget(self, tree: ProcessTree) -> None:
        """Says that the tree has ended."""
        self._report({"forget": [tree.pid, tree.created_at]})

    def remove(self, folder: Path) -> None:
        """Asks the warden to remove a folder after us, once the trees have ended."""
        self._report({"remove": str(folder)})

    def _report(self, message: dict[str, object]) -> None:
        with self._lock:
            if self._process is None:
                self._process = _spawn()
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()


def _spawn() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "scripts.servers.warden"],
        cwd=_ROOT,
        stdin=subprocess.PIPE,
        # Not ours: a reader of the owner's output would wait for the warden to close it.
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    )


def keep_watch(reports: Iterable[str]) -> None:
    """Reads reports until the owner is gone, then ends and removes what it left."""
    watched: dict[ProcessTree, int] = {}
    folders: list[str] = []
    for line in reports:
        match json.loads(line):
            case {"watch": [pid, created_at, quit_signal]}:
                watched[ProcessTree(pid, created_at)] = quit_signal
            case {"forget": [pid, created_at]}:
                watched.pop(ProcessTree(pid, created_at), None)
            case {"remove": folder}:
                folders.append(folder)
    for tree, quit_signal in watched.items():
        tree.end(quit_signal, _GRACE_SECONDS)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


WARDEN = Warden()

if __name__ == "__main__":
    keep_watch(sys.stdin)
