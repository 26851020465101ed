"""Lazy Pirate server: returns each request, after one second of work."""

import time

from failures import ServerFailures, parser

from hookwire.services.server import ReplyServer

options = parser(__doc__, bind="tcp://127.0.0.1:5555", work_seconds=1.0, simulate_failures=False).parse_args()
failures = ServerFailures(options.simulate_failures)


def echo(frames: list[bytes]) -> list[bytes]:
    failures.strike()
    time.sleep(options.work_seconds)
    return frames


server = ReplyServer(options.bind, echo)
print(f"listening on {server.endpoint}", flush=True)
server.run()
