"""A server's process tree: the process that was started and everything that it started since."""

import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

# Start times are given with a resolution of 10 ms and shift a little when the wall clock is adjusted.
_START_TIME_TOLERANCE_SECONDS = 2.0
_SIGNAL_SECONDS = 10.0
_POLL_SECONDS = 0.01


@dataclass(frozen=True)
class ProcessTree:
    """The tree below one process, named so that a reused pid is never mistaken for it.

    `pid` is the root's, `created_at` its start in seconds since the epoch. All methods do nothing on a tree that has
    ended.
    """

    pid: int
    created_at: float

    @classmethod
    def of(cls, pid: int) -> "ProcessTree":
        """Return the tree below a process that is certainly running, such as a child."""
        return cls(pid, psutil.Process(pid).create_time())

    def is_alive(self) -> bool:
        """Returns whether the root still runs; one that has ended but was not waited for does not."""
        return self._root() is not None

    def is_paused(self) -> bool:
        """Returns whether the root is stopped by a signal."""
        root = self._root()
        return root is not None and _status(root) == psutil.STATUS_STOPPED

    def signal(self, number: int) -> None:
        """Sends a signal to the root alone, as an orderly stop wants it."""
        if root := self._root():
            _forgiving(root.send_signal, number)

    def pause(self) -> None:
        """Stops (SIGSTOP) the root, then every descendant: a stopped parent forks no more, so none is missed."""
        if running := [process.pid for process in self._stopped_processes() if not _is_stopped(process)]:
            raise TimeoutError(f"still running {_SIGNAL_SECONDS:g} s after SIGSTOP: {running}")

    def resume(self) -> None:
        """Continues (SIGCONT) the descendants, then the root."""
        for process in reversed(self._processes()):
            _forgiving(process.resume)

    def kill(self) -> None:
        """Ends every process of the tree (SIGKILL) and waits until they are gone."""
        _kill(self._stopped_processes())

    def end(self, number: int, grace_seconds: float) -> bool:
        """Wakes the tree, sends a signal to its root, waits for all of it, and kills what is left.

        Returns whether the tree ended by itself within the grace. SIGKILL is for the whole tree at once: a root that
        has no time to end its children would leave them behind.
        """
        if number == signal.SIGKILL:
            self.kill()
            return True
        processes = self._processes()
        self.resume()
        self.signal(number)
        left = _wait(_is_running, processes, grace_seconds)
        _kill({*left, *self._stopped_processes()})
        return not left

    def _root(self) -> psutil.Process | None:
        try:
            root = psutil.Process(self.pid)
            is_ours = abs(root.create_time() - self.created_at) < _START_TIME_TOLERANCE_SECONDS
        except psutil.NoSuchProcess:
            return None
        return root if is_ours and _is_running(root) else None

    def _processes(self) -> list[psutil.Process]:
        root = self._root()
        if root is None:
            return []
        try:
            return [root, *root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def _stopped_processes(self) -> list[psutil.Process]:
        """Stops every process of the tree, including those that were being started meanwhile, and returns them."""
        stopped: list[psutil.Process] = []
        while fresh := [process for process in self._processes() if process not in stopped]:
            for process in fresh:
                _forgiving(process.suspend)
            # The signal is only a request: a thread on another core runs on for a moment, and may still answer.
            _wait(lambda process: not _is_stopped(process), fresh, _SIGNAL_SECONDS)
            stopped += fresh
        return stopped


def _status(process: psutil.Process) -> str:
    """Returns psutil's word for the state of a process; one that is gone has ended like any other ("zombie")."""
    try:
        return str(process.status())
    except psutil.NoSuchProcess:
        return str(psutil.STATUS_ZOMBIE)


def _is_running(process: psutil.Process) -> bool:
    """Return whether it still runs; an ended process without a wait of its parent does not."""
    return bool(_status(process) != psutil.STATUS_ZOMBIE)


def _is_stopped(process: psutil.Process) -> bool:
    """Returns whether no thread of the process runs, because of SIGSTOP or because it has ended."""
    # Linux tells the state of each thread; elsewhere there is only that of the process.
    states = [_thread_state(stat) for stat in Path(f"/proc/{process.pid}/task").glob("*/stat")]
    if states:
        return all(state in "TtZX" for state in states)
    return bool(_status(process) in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE))


def _thread_state(stat: Path) -> str:
    """Returns the letter of proc(5); a thread that is gone counts as dead ("X")."""
    try:
        return stat.read_text().rpartition(") ")[2][:1]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def _wait(
    is_unfinished: Callable[[psutil.Process], bool], processes: Iterable[psutil.Process], seconds: float
) -> list[psutil.Process]:
    """Waits until the condition holds for none of the processes; returns those it holds for after the given time."""
    deadline = time.monotonic() + seconds
    while (left := [process for process in processes if is_unfinished(process)]) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    return left


def _kill(processes: Iterable[psutil.Process]) -> None:
    for process in processes:
        _forgiving(process.kill)
    if left := _wait(_is_running, processes, _SIGNAL_SECONDS):
        raise TimeoutError(f"still there {_SIGNAL_SECONDS:g} s after SIGKILL: {[process.pid for process in left]}")


def _forgiving(act: Callable[..., None], *arguments: int) -> None:
    """Does something to a process that may have ended in the meantime."""
    try:
        act(*arguments)
    except psutil.NoSuchProcess:
        return
