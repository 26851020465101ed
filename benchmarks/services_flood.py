"""The asynchronous client of the ZeroMQ guide: all its requests leave before it receives the first reply.

    python -m benchmarks.services_flood --requests 100000

The broker is ``hookwire broker`` with its default settings. Ten workers start when all requests have been sent, so all
are outstanding at once. The output has:

* how many of the requests were answered, and how long that took
* the largest resident memory of the broker, and what it holds ten seconds after the client has left
* the 99th percentile of a second client with one request at a time: alone, and beside the flood
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import zmq

from benchmarks.services import worker_script
from runtime.port import free_port

_WAIT_MS = 60_000
_WORKERS = 10
_POLITE_REQUESTS = 2_000
_SETTLE_SECONDS = 10.0
_FLOOD = Path(__file__).parents[1] / "tests" / "ancestors" / "mdclient2.py"
_MIB = 1024 * 1024


@contextmanager
def _process(*words: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


class Memory(threading.Thread):
    """Notes the largest resident memory of a process."""

    def __init__(self, pid: int) -> None:
        super().__init__()
        self._process = psutil.Process(pid)
        self.largest = 0
        self.is_done = threading.Event()

    def now(self) -> int:
        """Return the present resident memory in bytes."""
        return int(self._process.memory_info().rss)

    def run(self) -> None:
        """Look ten times a second."""
        while not self.is_done.wait(0.1):
            self.largest = max(self.largest, self.now())


def _polite(endpoint: str, until: threading.Event | None = None) -> float:
    """Return the 99th percentile of single requests, in milliseconds."""
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.REQ)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.RCVTIMEO, _WAIT_MS)
    socket.connect(endpoint)
    times: list[float] = []
    while (len(times) < _POLITE_REQUESTS) if until is None else not until.is_set():
        began = time.perf_counter()
        socket.send_multipart([b"MDPC01", b"echo", b"Hello world"])
        socket.recv_multipart()
        times.append((time.perf_counter() - began) * 1000)
        time.sleep(0.001)
    socket.close()
    return statistics.quantiles(times, n=100)[98]


def main() -> None:
    """Run the flood once and print the figures."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--requests", type=int, default=100_000)
    given = words.parse_args()
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    command = ("-m", "app.cli", "broker", "--bind", endpoint)
    workers = ("-c", worker_script(), endpoint, str(_WORKERS))
    with _process(*command) as broker:
        with _process(*workers):
            alone = _polite(endpoint)
        memory, done, beside = Memory(broker.pid), threading.Event(), [0.0]
        before = memory.now()
        memory.start()
        second = threading.Thread(target=lambda: beside.__setitem__(0, _polite(endpoint, done)))
        with _process(str(_FLOOD), endpoint, "echo", str(given.requests)) as flood:
            assert flood.stdout is not None
            assert flood.stdout.readline() == "sent\n"
            began = time.perf_counter()
            with _process(*workers):
                second.start()
                said = flood.communicate()[0].splitlines()
                seconds = time.perf_counter() - began
                done.set()
                second.join()
        time.sleep(_SETTLE_SECONDS)
        after = memory.now()
        memory.is_done.set()
        memory.join()
    print(f"{given.requests} requests: {said[-1]}, in {seconds:.1f} s")
    print(f"memory: {before / _MIB:.0f} MB before, {memory.largest / _MIB:.0f} at most, {after / _MIB:.0f} after")
    print(f"second client, 99th percentile: {alone:.2f} ms alone, {beside[0]:.2f} beside ({beside[0] / alone:.1f})")


if __name__ == "__main__":
    main()
