"""A Lazy Pirate client, as in the ZeroMQ guide, chapter 4, "Client-Side Reliability (Lazy Pirate Pattern)".

The paragraph on the three things that this client does: it polls its REQ socket and receives only when a reply has
arrived; it sends the request again, on a new socket, when no reply comes in time; it gives up after several requests.

    lpclient.py ENDPOINT [--count N] [--timeout-ms N] [--tries N]
"""

import argparse
import sys

import zmq


def connected(context: zmq.Context[zmq.Socket[bytes]], endpoint: str) -> zmq.Socket[bytes]:
    socket = context.socket(zmq.REQ)
    socket.setsockopt(zmq.LINGER, 0)
    socket.connect(endpoint)
    return socket


def main() -> int:
    words = argparse.ArgumentParser()
    words.add_argument("endpoint")
    words.add_argument("--count", type=int, default=3)
    words.add_argument("--timeout-ms", type=int, default=2500)
    words.add_argument("--tries", type=int, default=3)
    given = words.parse_args()
    context = zmq.Context()
    socket = connected(context, given.endpoint)
    for number in range(given.count):
        request = b"%d" % number
        for _ in range(given.tries):
            socket.send(request)
            if socket.poll(given.timeout_ms):
                reply = socket.recv()
                print("ok" if reply == request else f"wrong: {reply!r}", flush=True)
                break
            socket.close()
            socket = connected(context, given.endpoint)
        else:
            print("no reply", flush=True)
            return 1
    socket.close()
    context.term()
    return 0


if __name__ == "__main__":
    sys.exit(main())
