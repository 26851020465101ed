"""Majordomo worker of the service `echo`."""

import signal

from failures import WorkerFailures, parser

from hookwire.services import Worker

options = parser(__doc__, connect="tcp://127.0.0.1:5555", service="echo", simulate_failures=False).parse_args()
failures = WorkerFailures(options.simulate_failures)
worker = Worker(*options.connect.split(","))


@worker.frames_service(options.service)
def echo(frames: list[bytes]) -> list[bytes]:
    failures.strike()
    return frames


signal.signal(signal.SIGTERM, lambda *_: worker.stop())
print("ready", flush=True)
worker.run()
