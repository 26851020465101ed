"""Request-reply: our broker, the guide's shape and a bare loop, with the same clients and workers (ZP-30 to ZP-33).

    python -m benchmarks.services --requests 20000 --rounds 3
    git worktree add ../before COMMIT && python -m benchmarks.services --before ../before

Each broker is a process of its own. Rounds alternate, and the output has medians of four figures:

* requests per second, one at a time, with one worker
* requests per second, with 200 outstanding requests and ten workers
* the broker's CPU per round trip of both; on a shared machine these figures are the most robust
* the jitter of its heartbeats to an idle worker meanwhile

Our broker runs with all its safety features. ``--before`` names a checkout of another commit, whose broker takes turns
with the others.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import zmq

from benchmarks.services_brokers import HEARTBEAT_SECONDS
from runtime.port import free_port

_KINDS = ("ours", "guide", "bare")
_BEFORE = "before"
_WINDOW = 200
_WORKERS = 10
_WAIT_MS = 60_000
_WORKER = """
import sys, zmq
context, poller = zmq.Context(), zmq.Poller()
for _ in range(int(sys.argv[2])):
    socket = context.socket(zmq.DEALER)
    socket.connect(sys.argv[1])
    socket.send_multipart([b"", b"MDPW01", b"\\x01", b"echo"])
    poller.register(socket, zmq.POLLIN)
sockets = [socket for socket, _ in poller.sockets]
while True:
    ready = poller.poll(400)
    for socket, _ in ready:
        frames = socket.recv_multipart()
        if frames[2] == b"\\x02":
            socket.send_multipart([b"", b"MDPW01", b"\\x03", *frames[3:]])
    if not ready:
        for socket in sockets:
            socket.send_multipart([b"", b"MDPW01", b"\\x04"])
"""


def worker_script() -> str:
    """Return the program of the workers: its words are the endpoint and the number of workers."""
    return _WORKER


@dataclass
class Figures:
    """The results of one broker over all rounds."""

    sync_rates: list[float] = field(default_factory=list)
    windowed_rates: list[float] = field(default_factory=list)
    sync_cpu_microseconds: list[float] = field(default_factory=list)
    cpu_microseconds: list[float] = field(default_factory=list)
    jitter: list[float] = field(default_factory=list)
    lost: int = 0


@contextmanager
def _process(*words: str, checkout: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """Run Python in this checkout or in another one."""
    environment = None if checkout is None else os.environ | {"PYTHONPATH": str(checkout)}
    process = subprocess.Popen([sys.executable, *words], cwd=checkout, env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _client(endpoint: str) -> zmq.Socket[bytes]:
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.RCVTIMEO, _WAIT_MS)
    socket.connect(endpoint)
    return socket


_REQUEST = [b"", b"MDPC01", b"echo", b"Hello world"]


def _windowed(endpoint: str, requests: int, window: int) -> tuple[float, int]:
    """Return round trips per second, and the number of requests without a reply."""
    socket = _client(endpoint)
    socket.send_multipart(_REQUEST)
    socket.recv_multipart()
    sent = received = 0
    began = time.perf_counter()
    try:
        while received < requests:
            while sent < requests and sent - received < window:
                socket.send_multipart(_REQUEST)
                sent += 1
            socket.recv_multipart()
            received += 1
    except zmq.Again:
        pass
    finally:
        socket.close()
    return received / (time.perf_counter() - began), requests - received


class Probe(threading.Thread):
    """An idle worker of a service without calls. It measures how regular the broker's heartbeats are."""

    def __init__(self, endpoint: str) -> None:
        super().__init__()
        self.endpoint = endpoint
        self.gaps: list[float] = []
        self.is_done = threading.Event()

    def run(self) -> None:
        """Note the time between heartbeats, and send our own."""
        socket = _client(self.endpoint)
        socket.setsockopt(zmq.RCVTIMEO, 200)
        socket.send_multipart([b"", b"MDPW01", b"\x01", b"idle"])
        last = None
        while not self.is_done.is_set():
            try:
                socket.recv_multipart()
            except zmq.Again:
                socket.send_multipart([b"", b"MDPW01", b"\x04"])
                continue
            now = time.perf_counter()
            if last is not None:
                self.gaps.append(now - last)
            last = now
        socket.close()

    def jitter(self) -> float:
        """Return the median deviation from the interval, as a share of the interval."""
        if not self.gaps:
            return 0.0
        return statistics.median(abs(gap - HEARTBEAT_SECONDS) for gap in self.gaps) / HEARTBEAT_SECONDS


def _measure(kind: str, requests: int, figures: Figures, checkout: Path | None = None) -> None:
    words = ("-m", "benchmarks.services_brokers", "ours" if kind == _BEFORE else kind)
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    with _process(*words, endpoint, checkout=checkout) as broker, _process("-c", _WORKER, endpoint, "1"):
        _windowed(endpoint, 100, 1)
        before = _cpu(broker)
        rate, lost = _windowed(endpoint, requests // 4, 1)
        figures.sync_cpu_microseconds.append((_cpu(broker) - before) / (requests // 4) * 1e6)
        figures.sync_rates.append(rate)
        figures.lost += lost
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    with (
        _process(*words, endpoint, checkout=checkout) as broker,
        _process("-c", _WORKER, endpoint, str(_WORKERS)),
    ):
        _windowed(endpoint, 1_000, _WINDOW)
        probe = Probe(endpoint)
        if kind in {"ours", _BEFORE}:
            probe.start()
        before = _cpu(broker)
        rate, lost = _windowed(endpoint, requests, _WINDOW)
        figures.cpu_microseconds.append((_cpu(broker) - before) / requests * 1e6)
        figures.windowed_rates.append(rate)
        figures.lost += lost
        if kind in {"ours", _BEFORE}:
            probe.is_done.set()
            probe.join()
            figures.jitter.append(probe.jitter())


def _cpu(process: subprocess.Popen[bytes]) -> float:
    """Return the seconds that the threads of a process have run."""
    files = Path(f"/proc/{process.pid}/task").glob("*/schedstat")
    return sum(int(file.read_text().split()[0]) for file in files) / 1e9


def report(found: dict[str, Figures]) -> list[str]:
    """Return the table and the ratios."""
    lines = [f"{'broker':8} {'sync/s':>8} {'windowed/s':>11} {'CPU us/rt':>10} {'lost':>5}"]
    for kind, figures in found.items():
        sync, windowed = statistics.median(figures.sync_rates), statistics.median(figures.windowed_rates)
        cpu = statistics.median(figures.cpu_microseconds)
        lines.append(f"{kind:8} {sync:8.0f} {windowed:11.0f} {cpu:10.1f} {figures.lost:5}")
    ours, guide, bare = (found[kind] for kind in _KINDS)
    sync = statistics.median(ours.sync_rates) / statistics.median(guide.sync_rates)
    windowed = statistics.median(ours.windowed_rates) / statistics.median(guide.windowed_rates)
    cpu = statistics.median(ours.cpu_microseconds) / statistics.median(bare.cpu_microseconds)
    lines.append(f"sync {sync:.2f} x guide (bar 1.5), windowed {windowed:.2f} x guide (bar 1.0)")
    lines.append(f"CPU per windowed round trip {cpu:.2f} x bare loop (bar 1.3)")
    if (before := found.get(_BEFORE)) is not None:
        lines += beside(ours, before)
    lines.append(f"heartbeat jitter while saturated {statistics.median(ours.jitter):.1%} of the interval (bar 10 %)")
    return lines


def beside(ours: Figures, before: Figures) -> list[str]:
    """Return how this checkout compares with the other one: ratios of medians."""
    names = ("sync_rates", "windowed_rates", "sync_cpu_microseconds", "cpu_microseconds")
    sync, windowed, sync_cpu, cpu = (
        statistics.median(getattr(ours, name)) / statistics.median(getattr(before, name)) for name in names
    )
    return [
        f"sync {sync:.2f} x, windowed {windowed:.2f} x the commit before (bar: not below 1)",
        f"CPU per round trip, sync {sync_cpu:.2f} x, windowed {cpu:.2f} x the commit before (bar: not above 1)",
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--before", type=Path, help="checkout of another commit, to compare with")
    options = parser.parse_args()
    kinds = (*_KINDS, *([_BEFORE] if options.before is not None else []))
    found = {kind: Figures() for kind in kinds}
    for number in range(options.rounds):
        for kind in kinds if number % 2 == 0 else reversed(kinds):
            _measure(kind, options.requests, found[kind], options.before if kind == _BEFORE else None)
    print("\n".join(report(found)), flush=True)


if __name__ == "__main__":
    main()
