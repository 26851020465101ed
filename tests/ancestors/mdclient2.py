"""An asynchronous Majordomo client, as in the ZeroMQ guide, chapter 4, "Asynchronous Majordomo Pattern".

The paragraph on the asynchronous client: a DEALER that adds the empty frame itself. It first sends all requests, then
receives all replies.

    mdclient2.py ENDPOINT SERVICE COUNT [--bytes N] [--timeout-ms N]

It prints how many replies came, and how many different ones.
"""

import argparse
import sys

import zmq

EMPTY, HEADER = b"", b"MDPC01"


def main() -> int:
    words = argparse.ArgumentParser()
    words.add_argument("endpoint")
    words.add_argument("service")
    words.add_argument("count", type=int)
    words.add_argument("--bytes", type=int, default=11)
    words.add_argument("--timeout-ms", type=int, default=30_000)
    given = words.parse_args()
    context = zmq.Context()
    socket = context.socket(zmq.DEALER)
    socket.setsockopt(zmq.LINGER, 0)
    socket.connect(given.endpoint)
    for number in range(given.count):
        socket.send_multipart([EMPTY, HEADER, given.service.encode(), b"%0*d" % (given.bytes, number)])
    print("sent", flush=True)
    replies: set[bytes] = set()
    received = 0
    while received < given.count and socket.poll(given.timeout_ms):
        _, _, _, body = socket.recv_multipart()
        received += 1
        replies.add(body)
    print(f"{received} replies, {len(replies)} different", flush=True)
    return 0 if received == given.count else 1


if __name__ == "__main__":
    sys.exit(main())
