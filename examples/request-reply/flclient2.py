"""Freelance client, model 2: each request goes to all servers; the first reply wins."""

import time

from failures import parser

from hookwire.services import FreelanceBroadcastClient

options = parser(__doc__, connect="tcp://127.0.0.1:5555,tcp://127.0.0.1:5556", count=10_000).parse_args()
client = FreelanceBroadcastClient(*options.connect.split(","))
began = time.perf_counter()
for _ in range(options.count):
    client.call(b"random name")
print(f"average round trip cost: {(time.perf_counter() - began) / options.count * 1e6:.0f} microseconds")
print(f"{client.strays} stale replies dropped")
client.close()
