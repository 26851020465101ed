"""The asynchronous client of the ZeroMQ guide: all its requests leave before it receives the first reply.

    python -m benchmarks.services_flood --requests 100000

The broker is ``hookwire broker`` with its default settings. Ten workers start when all requests have been sent, so all
are outstanding at once. The output has:

* how many of the requests were answered, and how long that took
* the largest resident memory of the broker, and what it holds ten seconds after the client has left
* how long the broker's threads ran during the flood, and how long they waited for a core
* the 99th percentile of a second client with one request at a time, alone and beside the flood
* the same for a client of a second broker, which shows what shared cores cost without the flooded broker's queues
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
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


@dataclass
class Flooded:
    """What a flood did: the last line of its client, its length, the broker's time on a core, the second client."""

    said: str = ""
    seconds: float = 0.0
    ran: float = 0.0
    waited: float = 0.0
    p99_ms: float = 0.0


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


@contextmanager
def _broker() -> Iterator[tuple[int, str]]:
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    with _process("-m", "app.cli", "broker", "--bind", endpoint) as broker:
        yield broker.pid, endpoint


def _workers(endpoint: str) -> AbstractContextManager[subprocess.Popen[str]]:
    return _process("-c", worker_script(), endpoint, str(_WORKERS))


def _core_seconds(pid: int) -> tuple[float, float]:
    """Return how long the threads of a process have run, and how long they have waited for a core."""
    files = Path(f"/proc/{pid}/task").glob("*/schedstat")
    numbers = [[int(word) for word in file.read_text().split()] for file in files]
    return sum(run for run, _, _ in numbers) / 1e9, sum(waited for _, waited, _ in numbers) / 1e9


def _flooded(broker: int, endpoint: str, of_second: str, requests: int) -> Flooded:
    """Flood a broker while a second client asks the broker at ``of_second``."""
    done, found = threading.Event(), Flooded()
    second = threading.Thread(target=lambda: setattr(found, "p99_ms", _polite(of_second, done)))
    with _process(str(_FLOOD), endpoint, "echo", str(requests)) as flood:
        assert flood.stdout is not None
        assert flood.stdout.readline() == "sent\n"
        began, before = time.perf_counter(), _core_seconds(broker)
        with _workers(endpoint):
            second.start()
            found.said = flood.communicate()[0].splitlines()[-1]
            found.seconds = time.perf_counter() - began
            found.ran, found.waited = (after - then for after, then in zip(_core_seconds(broker), before, strict=True))
            done.set()
            second.join()
    return found


def main() -> None:
    """Run the flood twice and print the figures."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--requests", type=int, default=100_000)
    given = words.parse_args()
    with _broker() as (broker, endpoint):
        with _workers(endpoint):
            alone = _polite(endpoint)
        memory = Memory(broker)
        before = memory.now()
        memory.start()
        here = _flooded(broker, endpoint, endpoint, given.requests)
        time.sleep(_SETTLE_SECONDS)
        after = memory.now()
        memory.is_done.set()
        memory.join()
        with _broker() as (_, other), _workers(other):
            _polite(other)
            elsewhere = _flooded(broker, endpoint, other, given.requests)
    print(f"{given.requests} requests: {here.said}, in {here.seconds:.1f} s")
    print(f"memory: {before / _MIB:.0f} MB before, {memory.largest / _MIB:.0f} at most, {after / _MIB:.0f} after")
    print(f"the broker's threads ran {here.ran:.1f} s, and waited {here.waited:.1f} s for a core")
    for name, found in (("beside the flood", here), ("beside a flood at another broker", elsewhere)):
        ratio = found.p99_ms / alone
        print(f"second client, 99th percentile: {alone:.2f} ms alone, {found.p99_ms:.2f} {name} ({ratio:.1f})")


if __name__ == "__main__":
    main()
