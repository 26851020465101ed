"""A client of model three, as in the ZeroMQ guide, chapter 4, "Brokerless Reliability (Freelance Pattern)".

The paragraphs on model three, complex and nasty, and 10/FLP: one ROUTER for all servers, whose addresses are their
endpoints. The client pings each server until it answers, and later after two seconds of silence. A server that was
silent for six seconds is dead. A request goes to the first live server, and is given up after three seconds.

    flclient3.py COUNT ENDPOINT [ENDPOINT ...]
"""

import sys
import time

import zmq

PING_SECONDS, DEAD_SECONDS, REQUEST_SECONDS, FIRST_PING_SECONDS = 2.0, 6.0, 3.0, 0.1


class Client:
    def __init__(self, endpoints: list[str]) -> None:
        self.socket = zmq.Context().socket(zmq.ROUTER)
        self.socket.setsockopt(zmq.LINGER, 0)
        for endpoint in endpoints:
            self.socket.connect(endpoint)
        self.ping_at = {endpoint.encode(): 0.0 for endpoint in endpoints}
        self.dead_at = {endpoint.encode(): 0.0 for endpoint in endpoints}

    def call(self, number: int, body: bytes) -> list[bytes] | None:
        control = b"%d" % number
        until, asked = time.monotonic() + REQUEST_SECONDS, False
        while (now := time.monotonic()) < until:
            self.ping(now)
            live = [server for server, at in self.dead_at.items() if at > now]
            if live and not asked:
                self.socket.send_multipart([live[0], control, body])
                asked = True
            if self.socket.poll(round(FIRST_PING_SECONDS * 1000)):
                server, *frames = self.socket.recv_multipart()
                self.ping_at[server], self.dead_at[server] = now + PING_SECONDS, now + DEAD_SECONDS
                if frames[:1] == [control]:
                    return frames[1:]
        return None

    def ping(self, now: float) -> None:
        for server, at in self.ping_at.items():
            if at <= now:
                self.socket.send_multipart([server, b"PING"])
                self.ping_at[server] = now + (PING_SECONDS if self.dead_at[server] > now else FIRST_PING_SECONDS)


def main() -> int:
    count, client = int(sys.argv[1]), Client(sys.argv[2:])
    answered = 0
    while answered < count and client.call(answered, b"random name") == [b"OK"]:
        answered += 1
    client.socket.close()
    print(f"{answered} of {count} answered", flush=True)
    return 0 if answered == count else 1


if __name__ == "__main__":
    sys.exit(main())
