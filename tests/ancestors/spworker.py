"""A Simple Pirate worker, as in the ZeroMQ guide, chapter 4, "Basic Reliable Queuing (Simple Pirate Pattern)".

The paragraph on the worker: a REQ socket with an identity. Its first message says READY, which is one byte 0x01. Then
it answers requests, which carry the client's address and an empty frame before the body.

    spworker.py ENDPOINT
"""

import sys
import uuid

import zmq

socket = zmq.Context().socket(zmq.REQ)
socket.setsockopt(zmq.IDENTITY, uuid.uuid4().hex[:8].encode())
socket.connect(sys.argv[1])
socket.send(b"\x01")
print("ready", flush=True)
while True:
    socket.send_multipart(socket.recv_multipart())
