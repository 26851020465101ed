"""Majordomo client, one request after the other."""

import time

from failures import parser

from hookwire.services import Client

options = parser(__doc__, connect="tcp://127.0.0.1:5555", service="echo", count=10_000).parse_args()
client = Client(*options.connect.split(","))
began = time.perf_counter()
for _ in range(options.count):
    client.call(options.service, b"Hello world")
client.close()
print(f"{options.count} replies received, {options.count / (time.perf_counter() - began):.0f} per second")
