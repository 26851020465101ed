"""Majordomo client with many outstanding requests: send first, receive later, at most a window at once."""

import time

from failures import parser

from hookwire.services import Pipeline

options = parser(__doc__, connect="tcp://127.0.0.1:5555", service="echo", count=100_000, window=200).parse_args()
client = Pipeline(*options.connect.split(","), window=options.window)
began = time.perf_counter()
for _ in range(options.count):
    client.send(options.service, b"Hello world")
lost = sum(client.receive().frames is None for _ in range(options.count))
client.close()
rate = options.count / (time.perf_counter() - began)
print(f"{options.count - lost} replies received, {lost} lost, {rate:.0f} per second")
