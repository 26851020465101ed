"""A Majordomo worker, as in the ZeroMQ guide, chapter 4, "Service-Oriented Reliable Queuing (Majordomo Pattern)".

The paragraph on the worker API: one thread registers by READY, waits for a request, works, and replies. It sends
heartbeats only while it waits. After three silent intervals it opens a new socket and registers again.

    mdworker.py ENDPOINT SERVICE [--work-seconds S] [--folder F] [--identity I] [--heartbeat-ms N]

It replies with the frames of the request. With a folder it first writes the file ``got-PID`` there.
"""

import argparse
import os
import time
from pathlib import Path

import zmq

EMPTY, HEADER = b"", b"MDPW01"
READY, REQUEST, REPLY, HEARTBEAT, DISCONNECT = b"\x01", b"\x02", b"\x03", b"\x04", b"\x05"
LIVENESS = 3


class Worker:
    def __init__(self, endpoint: str, service: bytes, heartbeat_ms: int, identity: bytes | None) -> None:
        self.endpoint, self.service, self.heartbeat_ms, self.identity = endpoint, service, heartbeat_ms, identity
        self.context = zmq.Context()
        self.socket: zmq.Socket[bytes] | None = None
        self.connect()

    def connect(self) -> None:
        if self.socket is not None:
            self.socket.close(linger=0)
        self.socket = self.context.socket(zmq.DEALER)
        if self.identity is not None:
            self.socket.setsockopt(zmq.IDENTITY, self.identity)
        self.socket.connect(self.endpoint)
        self.send(READY, self.service)
        self.lives = LIVENESS

    def send(self, command: bytes, *frames: bytes) -> None:
        assert self.socket is not None
        self.socket.send_multipart([EMPTY, HEADER, command, *frames])
        self.beat_at = time.monotonic() + self.heartbeat_ms / 1000

    def next_request(self) -> tuple[bytes, list[bytes]]:
        """Wait for a request; return the client's address and the body."""
        while True:
            assert self.socket is not None
            if self.socket.poll(self.heartbeat_ms):
                frames = self.socket.recv_multipart()
                self.lives = LIVENESS
                if frames[:3] == [EMPTY, HEADER, REQUEST]:
                    return frames[3], frames[5:]
                if frames[2:] == [DISCONNECT]:
                    print("disconnected", flush=True)
                    time.sleep(self.heartbeat_ms / 1000)
                    self.connect()
            else:
                self.lives -= 1
                if self.lives == 0:
                    time.sleep(self.heartbeat_ms / 1000)
                    self.connect()
            if time.monotonic() > self.beat_at:
                self.send(HEARTBEAT)


def main() -> None:
    words = argparse.ArgumentParser()
    words.add_argument("endpoint")
    words.add_argument("service")
    words.add_argument("--work-seconds", type=float, default=0.0)
    words.add_argument("--folder", type=Path)
    words.add_argument("--identity")
    words.add_argument("--heartbeat-ms", type=int, default=2500)
    given = words.parse_args()
    identity = None if given.identity is None else given.identity.encode()
    worker = Worker(given.endpoint, given.service.encode(), given.heartbeat_ms, identity)
    print("ready", flush=True)
    while True:
        client, body = worker.next_request()
        if given.folder is not None:
            (given.folder / f"got-{os.getpid()}").touch()
        time.sleep(given.work_seconds)
        worker.send(REPLY, client, EMPTY, *body)


if __name__ == "__main__":
    main()
