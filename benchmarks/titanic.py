"""Titanic: durable accepts by 8 clients, at the store and over ZeroMQ, beside a raw append and sync (ZP-20, ZP-34).

    python -m benchmarks.titanic --requests 20000 --pending 100000 --rounds 3

Rounds alternate between the stores and medians are printed. A request has 200 bytes. The broker of the second half is
a process of its own; the clients are 8 sockets of this process, with one request each under way and with 25 each.
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
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import zmq

from reqrep.titanic.file_store import FileStoreOptions, open_file_store
from reqrep.titanic.memory_store import MemoryRequestStore
from reqrep.titanic.store import AcceptedRequest, RequestStore
from runtime.port import free_port

_CLIENTS = 8
_BODY = b"x" * 200
_KINDS = ("memory", "file")
_RAW_SYNCS = 2_000
_WINDOWS = (1, 25)
_WAIT_MS = 60_000
_BAR_PER_SECOND = 3_000


def _raw_rate(folder: Path) -> float:
    """Return appends per second, each of them synced: what a disk gives to one writer that shares nothing."""
    with (folder / "raw").open("wb", buffering=0) as file:
        began = time.perf_counter()
        for _ in range(_RAW_SYNCS):
            file.write(_BODY)
            os.fdatasync(file.fileno())
        return _RAW_SYNCS / (time.perf_counter() - began)


@asynccontextmanager
async def _opened(kind: str, folder: Path) -> AsyncIterator[RequestStore]:
    if kind == "memory":
        yield MemoryRequestStore()
        return
    async with open_file_store(FileStoreOptions(folder)) as store:
        yield store


async def _accept_rate(store: RequestStore, requests: int, clients: int = _CLIENTS) -> float:
    """Return accepts per second by clients that wait for each answer."""

    async def accept(count: int) -> None:
        for _ in range(count):
            await store.accept(AcceptedRequest("bench", [_BODY]))

    began = time.perf_counter()
    await asyncio.gather(*(accept(requests // clients) for _ in range(clients)))
    return requests / (time.perf_counter() - began)


async def _at_the_store(kind: str, requests: int, pending: int) -> tuple[float, float]:
    """Return the rate of an empty store, and of the same with so many pending requests."""
    with tempfile.TemporaryDirectory() as folder:
        async with _opened(kind, Path(folder)) as store:
            await _accept_rate(store, 1_000)
            empty = await _accept_rate(store, requests)
            missing = pending - (await store.counts()).pending
            if missing > 0:
                await _accept_rate(store, missing, 500)
            return empty, await _accept_rate(store, requests)


@contextmanager
def _broker(where: str) -> Iterator[str]:
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    command = [str(Path(sys.executable).with_name("hookwire")), "broker", "--bind", endpoint, "--titanic", where]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        yield endpoint
    finally:
        process.kill()
        process.wait()


def _rate_over_zeromq(endpoint: str, requests: int, window: int) -> float:
    """Return accepts per second by sockets with so many requests under way each."""
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


def _over_zeromq(kind: str, requests: int) -> list[float]:
    with tempfile.TemporaryDirectory() as folder, _broker("memory" if kind == "memory" else folder) as endpoint:
        _rate_over_zeromq(endpoint, 500, 1)
        return [_rate_over_zeromq(endpoint, requests, window) for window in _WINDOWS]


def _line(kind: str, store: list[tuple[float, float]], wire: list[list[float]]) -> str:
    empty, full = (statistics.median(rates) for rates in zip(*store, strict=True))
    ratio = statistics.median(after / before for before, after in store)
    single, windowed = (statistics.median(rates) for rates in zip(*wire, strict=True))
    return f"{kind:8} {empty:9.0f} {full:11.0f} {ratio:7.2f} {single:12.0f} {windowed:12.0f}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--pending", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    raw: list[float] = []
    stores: dict[str, list[tuple[float, float]]] = {kind: [] for kind in _KINDS}
    wires: dict[str, list[list[float]]] = {kind: [] for kind in _KINDS}
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as folder:
            raw.append(_raw_rate(Path(folder)))
        for kind in _KINDS:
            stores[kind].append(asyncio.run(_at_the_store(kind, options.requests, options.pending)))
            wires[kind].append(_over_zeromq(kind, options.requests // 2))
    print(f"{'store':8} {'accepts/s':>9} {'with queue':>11} {'ratio':>7} {'8 clients/s':>12} {'8 x 25/s':>12}")
    for kind in _KINDS:
        print(_line(kind, stores[kind], wires[kind]))
    print(f"raw append and sync, one writer: {statistics.median(raw):.0f}/s")
    print(
        f"bars: {_BAR_PER_SECOND}/s durable with 8 clients; {options.pending} pending requests cost 10 % at most",
        flush=True,
    )


if __name__ == "__main__":
    main()
