"""Where the children of the scenarios come from: forks of a process that has already imported the product.

A start is a second of processor time, most of it imports, and the scenarios start some hundred services on two cores.
What is begun here is all the same a process of its own, in a session of its own, that runs ``hookwire`` from its first
setting to its last; signals, exit codes and pids are its own as well. Starts from nothing are shown by ``hookwire
prove``, the upgrade and the suites of the commands, which do not come here.

::

    test process --(one message a start: what, where, and two descriptors)--> pool --fork--> hookwire ...
         ^                                                                       |
         +----------- a pipe for each child: its pid, then how it ended ---------+

Whatever ends the test process ends the process pool, and that its children, by the kernel's parent-death signal. The
signal comes when the *thread* that forked ends; here is but one.
"""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import gc
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

_MESSAGE_BYTES_MAX = 128 * 1024
_ROOT = Path(__file__).parents[2]
_PR_SET_PDEATHSIG = 1  # prctl(2)


# --- in the test process ----------------------------------------------------------------------------------------


class Forked:
    """A child, as ``asyncio.subprocess.Process`` shows one."""

    def __init__(self, pid: int, end: asyncio.Future[int]) -> None:
        self.pid = pid
        self._end = end

    @property
    def returncode(self) -> int | None:
        return self._end.result() if self._end.done() else None

    async def wait(self) -> int:
        return await asyncio.shield(self._end)


class ProcessPool:
    """Begun with the first child, gone with this process."""

    def __init__(self) -> None:
        self._line: socket.socket | None = None

    async def fork(
        self, bug: str | None, command: Sequence[str], folder: Path, environment: Mapping[str, str], log: IO[bytes]
    ) -> Forked:
        """``hookwire`` with this command, or :mod:`app.cli.seeded_bug` with this bug and it."""
        reading, writing = os.pipe()
        what = {"bug": bug, "command": list(command), "folder": str(folder), "environment": dict(environment)}
        try:
            self._send(json.dumps(what).encode(), [log.fileno(), writing])
        finally:
            os.close(writing)
        reader = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb", buffering=0)
        )
        pid = int(await reader.readline())
        end = asyncio.get_running_loop().create_task(_end_of(reader, transport))
        return Forked(pid, end)

    def _send(self, message: bytes, descriptors: Sequence[int]) -> None:
        """Send to the process pool. If it has ended, as for lack of memory, begin another one."""
        with suppress(BrokenPipeError):
            socket.send_fds(self._line or self._begin(), [message], descriptors)
            return
        socket.send_fds(self._begin(), [message], descriptors)

    def _begin(self) -> socket.socket:
        self._line = _begin()
        return self._line


async def _end_of(reader: asyncio.StreamReader, transport: asyncio.ReadTransport) -> int:
    try:
        return os.waitstatus_to_exitcode(int(await reader.readline()))
    finally:
        transport.close()


def _begin() -> socket.socket:
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its:
        pool = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.process_pool", str(its.fileno())],
            cwd=_ROOT, pass_fds=[its.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip

    def end() -> None:
        ours.close()
        pool.wait()

    atexit.register(end)
    return ours


# --- in the process pool ---------------------------------------------------------------------------------------------


def _serve(line: socket.socket) -> dict[str, Any] | None:
    """Returns in each child, with what it has to do; in the process pool itself when nobody is there any more."""
    pipes: dict[int, int] = {}
    pool, prctl = os.getpid(), ctypes.CDLL(None).prctl

    def on_end(*_: object) -> None:
        for pid in list(pipes):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                _tell(pipes[pid], status)
                os.close(pipes.pop(pid))

    signal.signal(signal.SIGCHLD, on_end)
    while True:
        message, descriptors, _, _ = socket.recv_fds(line, _MESSAGE_BYTES_MAX, 2)
        if not message:
            return None
        log, pipe = descriptors
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})  # until we know whose end it is
        if (pid := os.fork()) == 0:
            prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))
            if os.getppid() != pool:  # it has ended already, and no signal comes any more
                os._exit(1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
            os.setsid()
            os.dup2(log, 1)
            os.dup2(log, 2)
            for descriptor in (line.detach(), log, pipe, *pipes.values()):
                os.close(descriptor)
            found: dict[str, Any] = json.loads(message)
            return found
        pipes[pid] = pipe
        os.close(log)
        _tell(pipe, pid)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})


def _tell(pipe: int, number: int) -> None:
    with suppress(BrokenPipeError):  # its test is over
        os.write(pipe, b"%d\n" % number)


def _become(what: dict[str, Any]) -> None:
    """From here on this process is that command."""
    os.chdir(what["folder"])
    os.environ.clear()
    os.environ.update(what["environment"])
    if what["bug"] is not None:
        from app.cli.seeded_bug import main

        sys.argv = ["app.cli.seeded_bug", what["bug"], *what["command"]]
    else:
        from app.cli.main import main

        sys.argv = ["hookwire", *what["command"]]
    main()


if __name__ == "__main__":
    import app.cli.main
    import app.serve
    import app.web.application
    import app.wiring

    app.cli.main.application()
    gc.collect()
    gc.freeze()
    if (what := _serve(socket.socket(fileno=int(sys.argv[1])))) is not None:
        _become(what)
