"""Delivery clients side by side: ours, aiohttp and httpx POST to one small fast sink in another process.

    python -m benchmarks.outbound --requests 20000 --concurrency 50 --rounds 3 --loop uvloop

All use keep-alive connections on loopback, a 600-byte body and the headers of a signed delivery. Rounds alternate
(ours, aiohttp, httpx, ours, ...). The output has each median with its CPU per request in this process, and the ratios
of the rates. httpx sends a twentieth of the requests, because it is much slower.
"""

import argparse
import asyncio
import multiprocessing
import multiprocessing.connection
import resource
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import cast

import aiohttp
import httpx
import uvloop

from egress.client import Client, ClientOptions, Request
from egress.guard import GuardPolicy, networks
from egress.resolver import ThreadResolver
from egress.url import parse_target

BODY = b'{"n": 1, "text": "' + b"x" * 580 + b'"}'
HEADERS = [
    ("content-type", "application/json"),
    ("webhook-id", "evt_0001"),
    ("webhook-timestamp", "1700000000"),
    ("webhook-signature", "v1,RI5Z2Z5jkA7+Nh7GL5fqYUHeTXfUAndhYMCkpdooUIE="),
]
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok"

Post = Callable[[], Awaitable[int]]


class Sink(asyncio.Protocol):
    """A server that answers each request of a known length with minimal work, so that the client is measured."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start with an empty buffer."""
        self.transport = cast(asyncio.Transport, transport)
        self.pending = b""

    def data_received(self, data: bytes) -> None:
        """Answer every complete request in the buffer."""
        self.pending += data
        while (end := self.pending.find(b"\r\n\r\n")) >= 0 and len(self.pending) >= end + 4 + len(BODY):
            self.pending = self.pending[end + 4 + len(BODY) :]
            self.transport.write(ANSWER)


def serve(ready: multiprocessing.connection.Connection) -> None:
    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(Sink, "127.0.0.1", 0)
        ready.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    uvloop.run(run())


async def drive(post: Post, requests: int, concurrency: int) -> tuple[float, float]:
    """Return requests per second and CPU milliseconds per request."""
    left = iter(range(requests))

    async def lane() -> None:
        for _ in left:
            assert await post() == 200

    for _ in range(concurrency):
        await post()
    cpu, wall = cpu_seconds(), time.perf_counter()
    async with asyncio.TaskGroup() as lanes:
        for _ in range(concurrency):
            lanes.create_task(lane())
    wall, cpu = time.perf_counter() - wall, cpu_seconds() - cpu
    return requests / wall, cpu / requests * 1000


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def ours(port: int, requests: int, concurrency: int) -> tuple[float, float]:
    policy = GuardPolicy(allow_cidrs=networks(["127.0.0.0/8"]), allow_high_ports=True)
    client = Client(policy, ThreadResolver(), ClientOptions(idle_per_origin_max=concurrency))
    target = parse_target(f"http://127.0.0.1:{port}/hook?a=1", policy)

    async def post() -> int:
        return (await client.send(Request("POST", target, HEADERS, BODY, 15.0))).status

    try:
        return await drive(post, requests, concurrency)
    finally:
        await client.aclose()


async def with_aiohttp(port: int, requests: int, concurrency: int) -> tuple[float, float]:
    connector = aiohttp.TCPConnector(limit=concurrency)
    timeout = aiohttp.ClientTimeout(total=15)
    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False
    ) as session:
        url, headers = f"http://127.0.0.1:{port}/hook?a=1", dict(HEADERS)

        async def post() -> int:
            async with session.post(url, data=BODY, headers=headers, allow_redirects=False) as response:
                await response.content.read(4096)
                return response.status

        return await drive(post, requests, concurrency)


async def with_httpx(port: int, requests: int, concurrency: int) -> tuple[float, float]:
    limits = httpx.Limits(max_connections=concurrency, max_keepalive_connections=concurrency)
    async with httpx.AsyncClient(limits=limits, timeout=15, trust_env=False) as client:
        url = f"http://127.0.0.1:{port}/hook?a=1"

        async def post() -> int:
            return (await client.post(url, content=BODY, headers=HEADERS)).status_code

        return await drive(post, max(requests // 20, concurrency), concurrency)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--concurrency", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--loop", choices=("uvloop", "asyncio"), default="uvloop")
    options = parser.parse_args()
    ours_end, theirs_end = multiprocessing.Pipe()
    sink = multiprocessing.Process(target=serve, args=(theirs_end,), daemon=True)
    sink.start()
    port = ours_end.recv()
    run = uvloop.run if options.loop == "uvloop" else asyncio.run
    clients = {"hookwire": ours, "aiohttp": with_aiohttp, "httpx": with_httpx}
    figures: dict[str, list[tuple[float, float]]] = {name: [] for name in clients}
    for _ in range(options.rounds):
        for name, measure in clients.items():
            figures[name].append(run(measure(port, options.requests, options.concurrency)))
    sink.terminate()
    sink.join()
    medians = {name: statistics.median(rate for rate, _ in rows) for name, rows in figures.items()}
    print(f"{options.concurrency} concurrent keep-alive POSTs of {len(BODY)} bytes, {options.loop}, loopback")
    for name, rows in figures.items():
        cpu = statistics.median(milliseconds for _, milliseconds in rows)
        ratio = medians["hookwire"] / medians[name]
        print(f"{name:10} {medians[name]:9,.0f} requests/s  {cpu:7.3f} ms CPU each  hookwire is {ratio:5.1f} x")


if __name__ == "__main__":
    main()
