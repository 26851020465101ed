"""Lazy Pirate client: three tries of 2.5 s, each on a new socket; then it gives up and says so."""

import sys

from failures import parser

from hookwire.services import LazyPirate, NoReply

options = parser(__doc__, connect="tcp://127.0.0.1:5555", count=10, timeout_seconds=2.5, tries=3).parse_args()
client = LazyPirate(options.connect, timeout_seconds=options.timeout_seconds, tries=options.tries)
for _ in range(options.count):
    try:
        client.call()
    except NoReply as error:
        sys.exit(f"the server seems to be offline: {error}")
    print(f"server replied OK ({client.number})", flush=True)
client.close()
