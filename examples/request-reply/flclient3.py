"""Freelance client, model 3: a background agent knows which servers are live."""

import time

from failures import parser

from hookwire.services import FreelanceClient

options = parser(__doc__, connect="tcp://127.0.0.1:5555,tcp://127.0.0.1:5556", count=1_000).parse_args()
client = FreelanceClient(*options.connect.split(","))
began = time.perf_counter()
for _ in range(options.count):
    reply = client.call(b"random name")
print(f"average round trip cost: {(time.perf_counter() - began) / options.count * 1e6:.0f} microseconds")
print(f"last reply from {reply.server}")
client.close()
