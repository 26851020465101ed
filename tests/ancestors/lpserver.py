"""An echo server, as in the ZeroMQ guide, chapter 4, "Client-Side Reliability (Lazy Pirate Pattern)".

The paragraph on the server: a REP socket that answers each request with the same body.

    lpserver.py ENDPOINT
"""

import sys

import zmq

socket = zmq.Context().socket(zmq.REP)
socket.bind(sys.argv[1])
print("ready", flush=True)
while True:
    socket.send(socket.recv())
