"""The harness of the benchmarks: a hub on an empty database, a counting sink, processor time from /proc."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from runtime.port import free_port

__all__ = [
    "Counted",
    "Harness",
    "Sink",
    "cpu_seconds",
    "peak_bytes",
    "postgres_cpu_seconds",
    "process_tree",
    "running_harness",
    "running_sink",
]

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process so far, user and system, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def peak_bytes(pid: int) -> int:
    """Return the peak memory of a process, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def process_tree(pid: int) -> Iterator[int]:
    """Yield the process and its descendants. A process that ends meanwhile is left out."""
    try:
        children = [child for task in Path(f"/proc/{pid}/task").iterdir() for child in _children_of(task)]
    except (FileNotFoundError, ProcessLookupError):
        return
    yield pid
    for child in children:
        yield from process_tree(child)


def _children_of(task: Path) -> list[int]:
    """Return the processes that a thread has started."""
    return [int(child) for child in (task / "children").read_text().split()]


def postgres_cpu_seconds(postmaster: int) -> float:
    """Return the processor time of the postmaster and of all its children, in seconds."""
    fields = Path(f"/proc/{postmaster}/stat").read_text().rpartition(")")[2].split()
    ended = (int(fields[13]) + int(fields[14])) / _TICKS
    used = 0.0
    for pid in process_tree(postmaster):
        with suppress(FileNotFoundError, ProcessLookupError):
            used += cpu_seconds(pid)
    return ended + used


@dataclass(frozen=True)
class Harness:
    """A running hub. ``environment`` starts more processes on the same database."""

    url: str
    port: int
    pid: int
    environment: dict[str, str]
    data_dir: Path

    @property
    def database_url(self) -> str:
        """Return the URL of the embedded database."""
        return self.environment["HOOKWIRE_DATABASE_URL"]

    @property
    def postmaster(self) -> int:
        """Return the process id of the database server."""
        return int((self.data_dir / "postgres" / "postmaster.pid").read_text().split()[0])

    @contextmanager
    def process(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run another hookwire process on the same database; end it on exit."""
        with (self.data_dir.parent / "more.log").open("ab") as log:
            child = subprocess.Popen([_hookwire(), *arguments], env=self.environment, stderr=log)
        try:
            yield child
        finally:
            _end(child)


def _hookwire() -> str:
    return str(Path(sys.executable).parent / "hookwire")


def _end(child: subprocess.Popen[bytes]) -> None:
    child.send_signal(signal.SIGTERM)
    try:
        child.wait(20)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


@asynccontextmanager
async def running_harness(*roles: str, tree: str = "", **settings: str) -> AsyncIterator[Harness]:
    """Run ``hookwire serve`` in a process of its own, on an embedded database in a temporary folder.

    With the setting ``database_url`` it uses that database. ``tree``: a copy of the repository whose code is run.
    """
    folder = Path(tempfile.mkdtemp(prefix="hookwire-bench-"))
    port = free_port()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOOKWIRE_")}
    environment |= {
        "HOOKWIRE_DATA_DIR": str(folder / "data"),
        "HOOKWIRE_LISTEN": f"127.0.0.1:{port}",
        "HOOKWIRE_LOG_LEVEL": "warning",
        **{f"HOOKWIRE_{name.upper()}": value for name, value in settings.items()},
    }
    if tree:
        environment["PYTHONPATH"] = os.pathsep.join([tree, f"{tree}/sdk/src"])
    arguments = [argument for role in roles for argument in ("--role", role)]
    with (folder / "serve.log").open("wb") as log:
        child = await asyncio.to_thread(
            subprocess.Popen[bytes], [_hookwire(), "serve", *arguments], env=environment, stderr=log
        )
    try:
        url = f"http://127.0.0.1:{port}"
        await _ready(url, child, folder / "serve.log")
        more = dict(environment)
        if "database_url" not in settings:
            socket_dir = next(iter((folder / "data" / "postgres" / "postmaster.pid").read_text().split("\n")[4:5]))
            more["HOOKWIRE_DATABASE_URL"] = f"postgresql://hookwire@/hookwire?host={socket_dir}&port=5432"
        yield Harness(url, port, child.pid, more, folder / "data")
    finally:
        _end(child)
        shutil.rmtree(folder, ignore_errors=True)


async def _ready(url: str, child: subprocess.Popen[bytes], log: Path) -> None:
    async with httpx.AsyncClient(trust_env=False) as client:
        for _ in range(600):
            if child.poll() is not None:
                raise RuntimeError(f"hookwire ended: {log.read_text()}")
            try:
                if (await client.get(f"{url}/readyz", timeout=2)).status_code == 200:
                    return
            except httpx.HTTPError:
                await asyncio.sleep(0.05)
    raise RuntimeError("hookwire did not become ready")


@dataclass(frozen=True)
class Counted:
    """A count of arrivals. ``p50`` and ``p99`` are milliseconds from the time stamp in the body to its arrival."""

    count: int
    first: float
    last: float
    p50: float
    p99: float


@dataclass(frozen=True)
class Sink:
    """A counting receiver."""

    port: int

    async def counted(self) -> Counted:
        """Return the counts of all arrivals so far."""
        async with httpx.AsyncClient(trust_env=False) as client:
            words = (await client.get(f"http://127.0.0.1:{self.port}/count")).text.split()
        return Counted(int(words[0]), float(words[1]), float(words[2]), 1000 * float(words[3]), 1000 * float(words[4]))

    async def latencies(self) -> list[float]:
        """Return the latency of each arrival so far, in milliseconds."""
        async with httpx.AsyncClient(trust_env=False) as client:
            words = (await client.get(f"http://127.0.0.1:{self.port}/latencies")).text.split()
        return [1000 * float(word) for word in words]

    async def clear(self) -> None:
        """Start counting at zero."""
        async with httpx.AsyncClient(trust_env=False) as client:
            await client.delete(f"http://127.0.0.1:{self.port}/count")

    async def until(self, count: int, seconds: float) -> Counted:
        """Wait for ``count`` arrivals. Raise TimeoutError after ``seconds``."""
        deadline = time.monotonic() + seconds
        while (counted := await self.counted()).count < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{counted.count} of {count} arrived in {seconds:.0f} s")
            await asyncio.sleep(0.1)
        return counted


@asynccontextmanager
async def running_sink() -> AsyncIterator[Sink]:
    """Run the sink in a process of its own."""
    sink = Sink(free_port())
    command = [sys.executable, "-m", "benchmarks.sink", str(sink.port)]
    child = await asyncio.to_thread(subprocess.Popen[bytes], command)
    try:
        for _ in range(200):
            try:
                await sink.counted()
                break
            except httpx.HTTPError:
                await asyncio.sleep(0.02)
        yield sink
    finally:
        child.kill()
        child.wait()
