"""A Simple Pirate queue, as in the ZeroMQ guide, chapter 4, "Basic Reliable Queuing (Simple Pirate Pattern)".

The paragraph on the load balancer: two ROUTERs. Clients are read only while a worker is ready. The worker that has been
ready for the longest time gets the request. A reply makes its worker ready again.

    spqueue.py FRONTEND BACKEND
"""

import sys
from collections import deque

import zmq

context = zmq.Context()
frontend, backend = context.socket(zmq.ROUTER), context.socket(zmq.ROUTER)
frontend.bind(sys.argv[1])
backend.bind(sys.argv[2])
print("ready", flush=True)
ready: deque[bytes] = deque()
while True:
    readable = zmq.select([backend, frontend] if ready else [backend], [], [])[0]
    if backend in readable:
        worker, _, *frames = backend.recv_multipart()
        ready.append(worker)
        if frames not in ([b"\x01"], [b"READY"]):
            frontend.send_multipart(frames)
    elif frontend in readable:
        backend.send_multipart([ready.popleft(), b"", *frontend.recv_multipart()])
