"""One server of a pair, as in the ZeroMQ guide, chapter 4, "High-Availability Pair (Binary Star Pattern)".

The paragraphs on the finite state machine: each server publishes its state once per second. A passive server becomes
active if its peer was silent for two intervals and a client asks. Two active servers are an error, which ends both.
An active server returns each request. Requests to any other server are thrown away.

    bstarsrv.py primary|backup ENDPOINT OWN_STATE PEERS_STATE [--state-ms N]
"""

import argparse
import sys
import time

import zmq

PRIMARY, BACKUP, ACTIVE, PASSIVE = 1, 2, 3, 4
NAMES = {ACTIVE: "active", PASSIVE: "passive"}
NEXT = {
    (PRIMARY, BACKUP): ACTIVE,
    (PRIMARY, ACTIVE): PASSIVE,
    (BACKUP, ACTIVE): PASSIVE,
    (PASSIVE, PRIMARY): ACTIVE,
    (PASSIVE, BACKUP): ACTIVE,
}


class Server:
    def __init__(self, state: int, silence_seconds: float) -> None:
        self.state, self.silence_seconds = state, silence_seconds
        self.peer_expires_at = time.monotonic() + silence_seconds

    def turn(self, state: int) -> None:
        if state != self.state:
            self.state = state
            print(NAMES[state], flush=True)

    def hears(self, peer: int) -> None:
        if self.state == peer and peer in NAMES:
            sys.exit(f"both are {NAMES[peer]}")
        self.peer_expires_at = time.monotonic() + self.silence_seconds
        self.turn(NEXT.get((self.state, peer), self.state))

    def serves(self) -> bool:
        """Return whether a request is answered. It makes a passive server active whose peer is silent."""
        if self.state in {PRIMARY, PASSIVE} and time.monotonic() >= self.peer_expires_at:
            self.turn(ACTIVE)
        return self.state == ACTIVE


def main() -> None:
    words = argparse.ArgumentParser()
    words.add_argument("role", choices=["primary", "backup"])
    words.add_argument("endpoint")
    words.add_argument("own_state")
    words.add_argument("peers_state")
    words.add_argument("--state-ms", type=int, default=1000)
    given = words.parse_args()
    context = zmq.Context()
    clients, publisher, subscriber = (context.socket(kind) for kind in (zmq.ROUTER, zmq.PUB, zmq.SUB))
    clients.bind(given.endpoint)
    publisher.bind(given.own_state)
    subscriber.setsockopt(zmq.SUBSCRIBE, b"")
    subscriber.connect(given.peers_state)
    interval = given.state_ms / 1000
    server = Server(PRIMARY if given.role == "primary" else BACKUP, 2 * interval)
    print("ready", flush=True)
    publish_at = time.monotonic()
    while True:
        readable = zmq.select([clients, subscriber], [], [], max(0.0, publish_at - time.monotonic()))[0]
        if subscriber in readable:
            server.hears(int(subscriber.recv()))
        if clients in readable:
            frames = clients.recv_multipart()
            if server.serves():
                clients.send_multipart(frames)
        if time.monotonic() >= publish_at:
            publisher.send(b"%d" % server.state)
            publish_at = time.monotonic() + interval


if __name__ == "__main__":
    main()
