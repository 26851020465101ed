"""A server of model one, as in the ZeroMQ guide, chapter 4, "Brokerless Reliability (Freelance Pattern)".

The paragraphs on model one, simple retry and failover: a REP socket that answers each request with the same body.

    flserver1.py ENDPOINT
"""

import sys

import zmq

socket = zmq.Context().socket(zmq.REP)
socket.bind(sys.argv[1])
print("ready", flush=True)
while True:
    socket.send_multipart(socket.recv_multipart())
