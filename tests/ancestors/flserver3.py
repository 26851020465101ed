"""A server of model three, as in the ZeroMQ guide, chapter 4, "Brokerless Reliability (Freelance Pattern)".

The paragraphs on model three, complex and nasty, and 10/FLP: a ROUTER whose identity is the endpoint that its clients
connect to. PING is answered by PONG. Any other message is a request: its first frame comes back unchanged.

    flserver3.py ENDPOINT
"""

import sys

import zmq

socket = zmq.Context().socket(zmq.ROUTER)
socket.setsockopt(zmq.IDENTITY, sys.argv[1].encode())
socket.bind(sys.argv[1])
print("ready", flush=True)
while True:
    client, control, *_ = socket.recv_multipart()
    socket.send_multipart([client, b"PONG"] if control == b"PING" else [client, control, b"OK"])
