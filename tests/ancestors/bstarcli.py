"""A client of a pair, as in the ZeroMQ guide, chapter 4, "High-Availability Pair (Binary Star Pattern)".

The paragraph on the client: it knows both servers. Without a reply within a second it closes its socket, waits until
the pair has had time to fail over, and sends the request to the other server.

    bstarcli.py PRIMARY BACKUP [--count N] [--timeout-ms N] [--settle-ms N] [--tries N]
"""

import argparse
import sys
import time
from itertools import cycle

import zmq


def main() -> int:
    words = argparse.ArgumentParser()
    words.add_argument("servers", nargs=2)
    words.add_argument("--count", type=int, default=3)
    words.add_argument("--timeout-ms", type=int, default=1000)
    words.add_argument("--settle-ms", type=int, default=2000)
    words.add_argument("--tries", type=int, default=100)
    given = words.parse_args()
    context = zmq.Context()
    servers = cycle(given.servers)

    def connected() -> zmq.Socket[bytes]:
        socket = context.socket(zmq.REQ)
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(next(servers))
        return socket

    socket = connected()
    for number in range(given.count):
        request = b"%d" % number
        for _ in range(given.tries):
            socket.send(request)
            if socket.poll(given.timeout_ms):
                reply = socket.recv()
                print("ok" if reply == request else f"wrong: {reply!r}", flush=True)
                break
            socket.close()
            time.sleep(given.settle_ms / 1000)
            socket = connected()
        else:
            print("no reply", flush=True)
            return 1
    socket.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
