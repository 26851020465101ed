"""A Paranoid Pirate queue, as in the ZeroMQ guide, chapter 4, "Robust Reliable Queuing (Paranoid Pirate Pattern)".

The paragraph on heartbeats, and 6/PPP: the queue sends a heartbeat to each ready worker once per second. A worker that
is silent for three seconds is forgotten.

    ppqueue.py FRONTEND BACKEND
"""

import sys
import time

import zmq

READY, HEARTBEAT = b"\x01", b"\x02"
INTERVAL, LIVENESS = 1.0, 3
context = zmq.Context()
frontend, backend = context.socket(zmq.ROUTER), context.socket(zmq.ROUTER)
frontend.bind(sys.argv[1])
backend.bind(sys.argv[2])
print("ready", flush=True)
ready: dict[bytes, float] = {}
beat_at = time.monotonic() + INTERVAL


def read_backend() -> None:
    worker, *frames = backend.recv_multipart()
    expires_at = time.monotonic() + INTERVAL * LIVENESS
    if frames == [HEARTBEAT]:
        if worker in ready:
            ready[worker] = expires_at
        return
    ready.pop(worker, None)
    ready[worker] = expires_at
    if frames != [READY]:
        frontend.send_multipart(frames)


while True:
    waiting = [backend, frontend] if ready else [backend]
    readable = zmq.select(waiting, [], [], max(0.0, beat_at - time.monotonic()))[0]
    if backend in readable:
        read_backend()
    elif frontend in readable and ready:
        oldest = next(iter(ready))
        del ready[oldest]
        backend.send_multipart([oldest, *frontend.recv_multipart()])
    now = time.monotonic()
    if now >= beat_at:
        beat_at = now + INTERVAL
        ready = {worker: at for worker, at in ready.items() if at > now}
        for worker in ready:
            backend.send_multipart([worker, HEARTBEAT])
