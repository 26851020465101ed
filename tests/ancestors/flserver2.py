"""A server of model two, as in the ZeroMQ guide, chapter 4, "Brokerless Reliability (Freelance Pattern)".

The paragraphs on model two, brutal shotgun massacre: a REP socket. A request has a number and a body. The reply has the
same number and "OK".

    flserver2.py ENDPOINT
"""

import sys

import zmq

socket = zmq.Context().socket(zmq.REP)
socket.bind(sys.argv[1])
print("ready", flush=True)
while True:
    number, _ = socket.recv_multipart()
    socket.send_multipart([number, b"OK"])
