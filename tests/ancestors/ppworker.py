"""A Paranoid Pirate worker, as in the ZeroMQ guide, chapter 4, "Robust Reliable Queuing (Paranoid Pirate Pattern)".

The paragraph on heartbeats, and 6/PPP: a DEALER that says READY, then sends a heartbeat once per second. When the queue
is silent for three seconds, the worker waits, opens a new socket and says READY again; the wait doubles up to 32 s.

    ppworker.py ENDPOINT
"""

import sys
import time

import zmq

READY, HEARTBEAT = b"\x01", b"\x02"
INTERVAL_MS, LIVENESS, PAUSE_SECONDS, PAUSE_SECONDS_MAX = 1000, 3, 1.0, 32.0
context = zmq.Context()


def connected() -> zmq.Socket[bytes]:
    socket = context.socket(zmq.DEALER)
    socket.connect(sys.argv[1])
    socket.send(READY)
    return socket


socket, lives, pause = connected(), LIVENESS, PAUSE_SECONDS
beat_at = time.monotonic() + INTERVAL_MS / 1000
print("ready", flush=True)
while True:
    if socket.poll(INTERVAL_MS):
        frames = socket.recv_multipart()
        lives, pause = LIVENESS, PAUSE_SECONDS
        if frames != [HEARTBEAT]:
            socket.send_multipart(frames)
    else:
        lives -= 1
        if lives == 0:
            time.sleep(pause)
            pause = min(PAUSE_SECONDS_MAX, pause * 2)
            socket.close(linger=0)
            socket, lives = connected(), LIVENESS
    if time.monotonic() >= beat_at:
        beat_at = time.monotonic() + INTERVAL_MS / 1000
        socket.send(HEARTBEAT)
