"""A Majordomo broker, as in the ZeroMQ guide, chapter 4, "Service-Oriented Reliable Queuing (Majordomo Pattern)".

The paragraphs on the broker, 7/MDP and 8/MMI: one ROUTER for clients and workers; a queue of requests and a list of
waiting workers per service. Waiting workers get heartbeats, and expire after three silent intervals. ``mmi.service``
says whether a service has workers.

    mdbroker.py ENDPOINT [--heartbeat-ms N]
"""

import argparse
import time
from collections import defaultdict, deque

import zmq

EMPTY, CLIENT, WORKER = b"", b"MDPC01", b"MDPW01"
READY, REQUEST, REPLY, HEARTBEAT, DISCONNECT = b"\x01", b"\x02", b"\x03", b"\x04", b"\x05"
LIVENESS = 3


class Broker:
    def __init__(self, endpoint: str, heartbeat_seconds: float) -> None:
        self.heartbeat_seconds = heartbeat_seconds
        self.socket = zmq.Context().socket(zmq.ROUTER)
        self.socket.bind(endpoint)
        self.requests: dict[bytes, deque[list[bytes]]] = defaultdict(deque)
        self.service_of: dict[bytes, bytes] = {}
        self.waiting: dict[bytes, float] = {}

    def run(self) -> None:
        beat_at = time.monotonic() + self.heartbeat_seconds
        while True:
            if self.socket.poll(max(0, round((beat_at - time.monotonic()) * 1000))):
                sender, _, header, *frames = self.socket.recv_multipart()
                if header == CLIENT:
                    self.from_client(sender, frames[0], frames[1:])
                elif header == WORKER:
                    self.from_worker(sender, frames[0], frames[1:])
            if time.monotonic() >= beat_at:
                beat_at = time.monotonic() + self.heartbeat_seconds
                self.purge()
                for worker in self.waiting:
                    self.to_worker(worker, HEARTBEAT)

    def from_client(self, client: bytes, service: bytes, body: list[bytes]) -> None:
        if service.startswith(b"mmi."):
            known = body[-1] in self.service_of.values()
            status = b"501" if service != b"mmi.service" else b"200" if known else b"404"
            self.socket.send_multipart([client, EMPTY, CLIENT, service, status])
            return
        self.requests[service].append([client, EMPTY, *body])
        self.dispatch(service)

    def from_worker(self, worker: bytes, command: bytes, frames: list[bytes]) -> None:
        if command == READY and worker not in self.service_of:
            self.service_of[worker] = frames[0]
            self.wait(worker)
        elif worker not in self.service_of or command == READY:
            self.forget(worker)
            self.to_worker(worker, DISCONNECT)
        elif command == REPLY:
            client, _, *body = frames
            self.socket.send_multipart([client, EMPTY, CLIENT, self.service_of[worker], *body])
            self.wait(worker)
        elif command == HEARTBEAT and worker in self.waiting:
            self.waiting[worker] = self.expiry()
        elif command == DISCONNECT:
            self.forget(worker)

    def wait(self, worker: bytes) -> None:
        self.waiting[worker] = self.expiry()
        self.dispatch(self.service_of[worker])

    def expiry(self) -> float:
        return time.monotonic() + self.heartbeat_seconds * LIVENESS

    def dispatch(self, service: bytes) -> None:
        self.purge()
        for worker in [one for one in self.waiting if self.service_of[one] == service]:
            if not self.requests[service]:
                return
            del self.waiting[worker]
            self.to_worker(worker, REQUEST, *self.requests[service].popleft())

    def purge(self) -> None:
        now = time.monotonic()
        for worker in [one for one, at in self.waiting.items() if at <= now]:
            self.forget(worker)

    def forget(self, worker: bytes) -> None:
        self.waiting.pop(worker, None)
        self.service_of.pop(worker, None)

    def to_worker(self, worker: bytes, command: bytes, *frames: bytes) -> None:
        self.socket.send_multipart([worker, EMPTY, WORKER, command, *frames])


if __name__ == "__main__":
    words = argparse.ArgumentParser()
    words.add_argument("endpoint")
    words.add_argument("--heartbeat-ms", type=int, default=2500)
    given = words.parse_args()
    broker = Broker(given.endpoint, given.heartbeat_ms / 1000)
    print("ready", flush=True)
    broker.run()
