"""A client of model one, as in the ZeroMQ guide, chapter 4, "Brokerless Reliability (Freelance Pattern)".

The paragraphs on model one, simple retry and failover: it asks one server three times, or each of several servers once,
each time on a new REQ socket.

    flclient1.py ENDPOINT [ENDPOINT ...]
"""

import sys

import zmq

TIMEOUT_MS, TRIES_OF_ONE = 1000, 3


def asked(context: zmq.Context[zmq.Socket[bytes]], endpoint: str, request: bytes) -> bytes | None:
    socket = context.socket(zmq.REQ)
    socket.setsockopt(zmq.LINGER, 0)
    socket.connect(endpoint)
    socket.send(request)
    reply = socket.recv() if socket.poll(TIMEOUT_MS) else None
    socket.close()
    return reply


def main() -> int:
    context, endpoints = zmq.Context(), sys.argv[1:]
    for endpoint in endpoints * TRIES_OF_ONE if len(endpoints) == 1 else endpoints:
        reply = asked(context, endpoint, b"Hello world")
        if reply is not None:
            print(f"{reply.decode()} from {endpoint}", flush=True)
            return 0
    print("no reply", flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
