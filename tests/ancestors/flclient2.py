"""A client of model two, as in the ZeroMQ guide, chapter 4, "Brokerless Reliability (Freelance Pattern)".

The paragraphs on model two, brutal shotgun massacre: a DEALER that is connected to all servers sends each request once
per server. It takes the first reply with the request's number, and throws all others away.

    flclient2.py COUNT ENDPOINT [ENDPOINT ...]
"""

import sys
import time

import zmq

TIMEOUT_SECONDS = 2.5


def reply_of(socket: zmq.Socket[bytes], servers: int, number: bytes) -> list[bytes] | None:
    for _ in range(servers):
        socket.send_multipart([b"", number, b"random name"])
    until = time.monotonic() + TIMEOUT_SECONDS
    while socket.poll(max(0, round((until - time.monotonic()) * 1000))):
        _, answers, *body = socket.recv_multipart()
        if answers == number:
            return body
    return None


def main() -> int:
    count, endpoints = int(sys.argv[1]), sys.argv[2:]
    socket = zmq.Context().socket(zmq.DEALER)
    socket.setsockopt(zmq.LINGER, 0)
    for endpoint in endpoints:
        socket.connect(endpoint)
    answered = 0
    while answered < count and reply_of(socket, len(endpoints), b"%d" % answered) == [b"OK"]:
        answered += 1
    socket.close()
    print(f"{answered} of {count} answered", flush=True)
    return 0 if answered == count else 1


if __name__ == "__main__":
    sys.exit(main())
