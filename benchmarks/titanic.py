"""Titanic: durable accepts by 8 clients, at the store and over ZeroMQ, beside the speed of the disk (ZP-20, ZP-34).

    python -m benchmarks.titanic --requests 20000 --pending 100000 --rounds 3

A request has 200 bytes. Rounds alternate between the stores, and the output has medians. In the first half, an empty
store and a store with many pending requests are measured in turns. In the second half, the broker is a process of its
own. Its clients are 8 sockets of this process, with 1 and with 25 open requests each. The database is embedded.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import zmq

from db.embedded.server import EmbeddedOptions, EmbeddedServer
from db.migrate import migrate
from db.pool import PoolOptions, open_database
from reqrep.titanic.file_store import FileStoreOptions, open_file_store
from reqrep.titanic.memory_store import MemoryRequestStore
from reqrep.titanic.postgresql_store import PostgresqlRequestStore
from reqrep.titanic.store import AcceptedRequest, RequestStore
from runtime.port import free_port

_KINDS = ("memory", "file", "database")
_CLIENTS = 8
_BODY = b"x" * 200
_RAW_SYNCS = 100
_SLICES = 5
_WINDOWS = (1, 25)
_WAIT_MS = 60_000
_BAR_PER_SECOND = 3_000
_DATABASES = ("titanic_empty", "titanic_full", "titanic_wire")
OpenStore = Callable[[], AbstractAsyncContextManager[RequestStore]]


@dataclass(frozen=True)
class Arena:
    """Functions that open an empty store and a store to fill, and the yardstick for both."""

    empty: OpenStore
    full: OpenStore
    raw: Callable[[], Awaitable[float]]


@dataclass
class Figures:
    """The results of one store over all rounds; a slice yields a rate and CPU microseconds."""

    empty: list[tuple[float, float]] = field(default_factory=list)
    full: list[tuple[float, float]] = field(default_factory=list)
    raw: list[float] = field(default_factory=list)
    single: list[float] = field(default_factory=list)
    windowed: list[float] = field(default_factory=list)


async def _raw_appends() -> float:
    """Return records per second of a writer that syncs once per eight appends, as eight clients would share a sync."""
    with tempfile.TemporaryFile(buffering=0) as file:
        began = time.perf_counter()
        for _ in range(_RAW_SYNCS):
            file.write(_BODY * _CLIENTS)
            os.fdatasync(file.fileno())
        return _RAW_SYNCS * _CLIENTS / (time.perf_counter() - began)


async def _raw_commits(url: str, requests: int) -> float:
    """Return single-row INSERT commits per second of 8 connections."""

    async def insert(count: int) -> None:
        connection = await asyncpg.connect(url)
        for _ in range(count):
            await connection.execute("INSERT INTO raw_rows (body) VALUES ($1)", _BODY)
        await connection.close()

    connection = await asyncpg.connect(url)
    await connection.execute("CREATE TABLE IF NOT EXISTS raw_rows (id bigserial PRIMARY KEY, body bytea)")
    await connection.close()
    began = time.perf_counter()
    await asyncio.gather(*(insert(requests // _CLIENTS) for _ in range(_CLIENTS)))
    return requests / (time.perf_counter() - began)


@asynccontextmanager
async def _in_memory() -> AsyncIterator[RequestStore]:
    yield MemoryRequestStore()


@asynccontextmanager
async def _in_file() -> AsyncIterator[RequestStore]:
    with tempfile.TemporaryDirectory() as folder:
        async with open_file_store(FileStoreOptions(Path(folder))) as store:
            yield store


@asynccontextmanager
async def _in_database(url: str) -> AsyncIterator[RequestStore]:
    async with aclosing(await open_database(PoolOptions(url))) as database:
        yield PostgresqlRequestStore(database, "benchmark")


async def _make_databases(url: str) -> list[str]:
    """Return the URLs of new, migrated databases of a server; drop those of an earlier round."""
    connection = await asyncpg.connect(url)
    urls = [urlsplit(url)._replace(path=f"/{name}").geturl() for name in _DATABASES]
    for name, made in zip(_DATABASES, urls, strict=True):
        await connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        await connection.execute(f"CREATE DATABASE {name}")
        await migrate(made)
    await connection.close()
    return urls


async def _accept_rate(store: RequestStore, requests: int, clients: int = _CLIENTS) -> tuple[float, float]:
    """Return accepts per second by clients that wait for each answer, and the CPU microseconds per accept."""

    async def accept(count: int) -> None:
        for _ in range(count):
            await store.accept(AcceptedRequest("bench", [_BODY]))

    began, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(accept(requests // clients) for _ in range(clients)))
    return requests / (time.perf_counter() - began), (time.process_time() - cpu) / requests * 1e6


async def _at_the_store(arena: Arena, requests: int, pending: int, found: Figures) -> None:
    """Measure an empty store, a store with ``pending`` requests and the yardstick, in turns."""
    async with arena.empty() as empty, arena.full() as full:
        await _accept_rate(empty, 1_000)
        await _accept_rate(full, pending, 500)
        for _ in range(_SLICES):
            found.empty.append(await _accept_rate(empty, requests // _SLICES))
            found.full.append(await _accept_rate(full, requests // _SLICES))
            found.raw.append(await arena.raw())


@contextmanager
def _broker(where: str, database_url: str) -> Iterator[str]:
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    command = [str(Path(sys.executable).with_name("hookwire")), "broker", "--bind", endpoint, "--titanic", where]
    environment = {**os.environ, "HOOKWIRE_DATABASE_URL": database_url}
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environment)
    try:
        yield endpoint
    finally:
        process.kill()
        process.wait()


def _rate_over_zeromq(endpoint: str, requests: int, window: int) -> float:
    """Return accepts per second by sockets with ``window`` open requests each."""
    poller = zmq.Poller()
    for _ in range(_CLIENTS):
        socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(endpoint)
        poller.register(socket, zmq.POLLIN)
    sockets = [socket for socket, _ in poller.sockets]
    request = [b"", b"MDPC01", b"titanic.request", b"bench", _BODY]
    began, sent, received = time.perf_counter(), 0, 0
    for socket in sockets * window:
        socket.send_multipart(request)
        sent += 1
    while received < requests:
        ready = poller.poll(_WAIT_MS)
        if not ready:
            raise SystemExit(f"{endpoint} did not answer within {_WAIT_MS} ms")
        for socket, _ in ready:
            status = socket.recv_multipart()[3]
            if status != b"200":
                raise SystemExit(f"titanic.request answered {status!r}")
            received += 1
            if sent < requests:
                socket.send_multipart(request)
                sent += 1
    for socket in sockets:
        socket.close()
    return received / (time.perf_counter() - began)


def _over_zeromq(kind: str, database_url: str, requests: int, found: Figures) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        _broker(folder if kind == "file" else kind, database_url) as endpoint,
    ):
        _rate_over_zeromq(endpoint, 500, 1)
        found.single.append(_rate_over_zeromq(endpoint, requests, _WINDOWS[0]))
        found.windowed.append(_rate_over_zeromq(endpoint, requests, _WINDOWS[1]))


def _medians(slices: list[tuple[float, float]]) -> tuple[float, float]:
    rates, costs = zip(*slices, strict=True)
    return statistics.median(rates), statistics.median(costs)


def report(found: dict[str, Figures], pending: int) -> list[str]:
    """Return the table and the bars."""
    lines = [
        f"{'store':8} {'accepts/s':>10} {'with queue':>11} {'CPU us':>7} {'with queue':>11} {'raw/s':>8} {'of raw':>7}"
        f" {'8 clients/s':>12} {'8 x 25/s':>10}"
    ]
    for kind, figures in found.items():
        (empty, cpu), (full, full_cpu) = (_medians(slices) for slices in (figures.empty, figures.full))
        of_raw = statistics.median(ours / theirs for (ours, _), theirs in zip(figures.empty, figures.raw, strict=True))
        raw = statistics.median(figures.raw)
        single, windowed = statistics.median(figures.single), statistics.median(figures.windowed)
        lines.append(
            f"{kind:8} {empty:10.0f} {full:11.0f} {cpu:7.1f} {full_cpu:11.1f} {raw:8.0f} {of_raw:7.2f} {single:12.0f}"
            f" {windowed:10.0f}"
        )
    lines.append("raw: eight appends to a sync, or INSERT commits of 8 connections; of raw: median of the slices")
    lines.append(f"bars: {_BAR_PER_SECOND}/s durable with 8 clients; {pending} pending requests cost 10 % at most")
    return lines


async def _measure(server: str, options: argparse.Namespace, found: dict[str, Figures]) -> None:
    """Measure all stores once."""
    empty, full, wire = await _make_databases(server)
    arenas = {
        "memory": Arena(_in_memory, _in_memory, _raw_appends),
        "file": Arena(_in_file, _in_file, _raw_appends),
        "database": Arena(
            lambda: _in_database(empty),
            lambda: _in_database(full),
            lambda: _raw_commits(wire, options.requests // _SLICES),
        ),
    }
    for kind in options.stores:
        await _at_the_store(arenas[kind], options.requests, options.pending, found[kind])
        await asyncio.to_thread(_over_zeromq, kind, wire, options.requests // 2, found[kind])


async def _run(options: argparse.Namespace) -> None:
    found = {kind: Figures() for kind in options.stores}
    with tempfile.TemporaryDirectory() as folder:
        server = EmbeddedServer(EmbeddedOptions(Path(folder)))
        url = await server.start()
        try:
            for _ in range(options.rounds):
                await _measure(url, options, found)
        finally:
            await server.stop()
    print("\n".join(report(found, options.pending)), flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--pending", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--stores", nargs="+", choices=_KINDS, default=_KINDS)
    asyncio.run(_run(parser.parse_args()))


if __name__ == "__main__":
    main()
