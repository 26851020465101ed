"""A Majordomo client, as in the ZeroMQ guide, chapter 4, "Service-Oriented Reliable Queuing (Majordomo Pattern)".

The paragraph on the client API, and 7/MDP: a REQ socket. Each request names its service. Without a reply after 2.5 s
the client sends the request again on a new socket, three times in all.

    mdclient.py ENDPOINT SERVICE [--count N]
"""

import argparse
import sys

import zmq

HEADER = b"MDPC01"


class Client:
    def __init__(self, endpoint: str, timeout_ms: int = 2500, tries: int = 3) -> None:
        self.endpoint, self.timeout_ms, self.tries = endpoint, timeout_ms, tries
        self.context = zmq.Context()
        self.socket = self.connected()

    def connected(self) -> zmq.Socket[bytes]:
        socket = self.context.socket(zmq.REQ)
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(self.endpoint)
        return socket

    def send(self, service: bytes, *body: bytes) -> list[bytes] | None:
        """Return the body of the reply, or None after the last try."""
        for _ in range(self.tries):
            self.socket.send_multipart([HEADER, service, *body])
            if self.socket.poll(self.timeout_ms):
                header, named, *reply = self.socket.recv_multipart()
                assert (header, named) == (HEADER, service)
                return reply
            self.socket.close()
            self.socket = self.connected()
        return None


def main() -> int:
    words = argparse.ArgumentParser()
    words.add_argument("endpoint")
    words.add_argument("service")
    words.add_argument("--count", type=int, default=3)
    given = words.parse_args()
    client = Client(given.endpoint)
    for number in range(given.count):
        reply = client.send(given.service.encode(), b"%d" % number)
        print("no reply" if reply is None else "ok" if reply == [b"%d" % number] else f"wrong: {reply}", flush=True)
        if reply is None:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
