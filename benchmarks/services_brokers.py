"""The three brokers of ``benchmarks.services``: ours, the guide's shape, and a bare loop with minimal work (ZP-16).

Run a broker by ``python -m benchmarks.services_brokers KIND ENDPOINT``.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import deque

import uvloop
import zmq

from reqrep.majordomo.options import BrokerOptions
from reqrep.majordomo.program import BrokerProgram

HEARTBEAT_SECONDS = 0.5


def ours(endpoint: str) -> None:
    """Run the broker of this repository, with all its safety features."""
    BrokerProgram([endpoint], BrokerOptions(heartbeat_seconds=HEARTBEAT_SECONDS)).run()


class GuideService:
    """A service in the guide's shape: a list of requests and a list of workers."""

    def __init__(self) -> None:
        self.requests: list[list[bytes]] = []
        self.waiting: list[GuideWorker] = []


class GuideWorker:
    """A worker in the guide's shape, which expires by the wall clock."""

    def __init__(self, address: bytes) -> None:
        self.address = address
        self.service: GuideService | None = None
        self.expiry = 0.0


class GuideBroker:
    """The shape of the guide's Python broker: poll, handle one message, then purge and send heartbeats."""

    def __init__(self, endpoint: str) -> None:
        self.socket = zmq.Context().socket(zmq.ROUTER)
        self.socket.bind(endpoint)
        self.poller = zmq.Poller()
        self.poller.register(self.socket, zmq.POLLIN)
        self.services: dict[bytes, GuideService] = {}
        self.workers: dict[bytes, GuideWorker] = {}
        self.waiting: list[GuideWorker] = []
        self.heartbeat_at = time.time() + HEARTBEAT_SECONDS

    def run(self) -> None:
        """Serve for ever."""
        while True:
            if self.poller.poll(round(HEARTBEAT_SECONDS * 1000)):
                message = self.socket.recv_multipart()
                sender, _, header, *rest = message
                if header == b"MDPC01":
                    self.request(sender, rest[0], rest[1:])
                else:
                    self.from_worker(sender, rest[0], rest[1:])
            self.purge()
            self.beat()

    def request(self, sender: bytes, service: bytes, body: list[bytes]) -> None:
        """Queue a request and dispatch."""
        self.dispatch(self.services.setdefault(service, GuideService()), [sender, b"", *body])

    def from_worker(self, sender: bytes, command: bytes, rest: list[bytes]) -> None:
        """Take READY, REPLY or HEARTBEAT."""
        worker = self.workers.setdefault(sender, GuideWorker(sender))
        worker.expiry = time.time() + 3 * HEARTBEAT_SECONDS
        if command == b"\x01":
            worker.service = self.services.setdefault(rest[0], GuideService())
            self.wait(worker)
        elif command == b"\x03" and worker.service is not None:
            name = next(name for name, service in self.services.items() if service is worker.service)
            self.socket.send_multipart([rest[0], b"", b"MDPC01", name, *rest[2:]])
            self.wait(worker)

    def wait(self, worker: GuideWorker) -> None:
        """Append the worker to both lists of waiting workers."""
        assert worker.service is not None
        self.waiting.append(worker)
        worker.service.waiting.append(worker)
        worker.expiry = time.time() + 3 * HEARTBEAT_SECONDS
        self.dispatch(worker.service, None)

    def dispatch(self, service: GuideService, message: list[bytes] | None) -> None:
        """Send requests to waiting workers."""
        if message is not None:
            service.requests.append(message)
        self.purge()
        while service.waiting and service.requests:
            request, worker = service.requests.pop(0), service.waiting.pop(0)
            self.waiting.remove(worker)
            self.socket.send_multipart([worker.address, b"", b"MDPW01", b"\x02", *request])

    def purge(self) -> None:
        """Forget expired workers, up to the first live one."""
        while self.waiting and self.waiting[0].expiry < time.time():
            worker = self.waiting.pop(0)
            self.workers.pop(worker.address, None)
            if worker.service is not None and worker in worker.service.waiting:
                worker.service.waiting.remove(worker)

    def beat(self) -> None:
        """Send heartbeats if they are due."""
        if time.time() > self.heartbeat_at:
            for worker in self.waiting:
                self.socket.send_multipart([worker.address, b"", b"MDPW01", b"\x04"])
            self.heartbeat_at = time.time() + HEARTBEAT_SECONDS


class BareLoop:
    """A Python broker on asyncio with minimal work: no timers, no checks, one service (ZP-16)."""

    def __init__(self, endpoint: str) -> None:
        self.socket = zmq.Context().socket(zmq.ROUTER)
        self.socket.bind(endpoint)
        self.idle: deque[bytes] = deque()
        self.requests: deque[list[bytes]] = deque()

    def read(self) -> None:
        """Read at most 500 messages. The descriptor is edge-triggered, so schedule another read (ZA-02)."""
        for _ in range(500):
            try:
                message = self.socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            if message[2] == b"MDPC01":
                self.requests.append(message)
            elif message[3] == b"\x01":
                self.idle.append(message[0])
            elif message[3] == b"\x03":
                self.socket.send_multipart([message[4], b"", b"MDPC01", b"echo", *message[6:]])
                self.idle.append(message[0])
            while self.idle and self.requests:
                request = self.requests.popleft()
                worker = [self.idle.popleft(), b"", b"MDPW01", b"\x02", request[0], b"", *request[4:]]
                self.socket.send_multipart(worker)
        asyncio.get_running_loop().call_soon(self.read)

    async def run(self) -> None:
        """Serve for ever."""
        asyncio.get_running_loop().add_reader(self.socket.fileno(), self.read)
        self.read()
        await asyncio.Event().wait()


def main() -> None:
    """Run the broker that the command line names."""
    kind, endpoint = sys.argv[1:]
    if kind == "ours":
        ours(endpoint)
    elif kind == "guide":
        GuideBroker(endpoint).run()
    else:
        uvloop.run(BareLoop(endpoint).run())


if __name__ == "__main__":
    main()
