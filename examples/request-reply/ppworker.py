"""Paranoid Pirate worker: returns each request, after one second of work."""

import signal
import time

from failures import WorkerFailures, parser

from hookwire.services import PirateOptions, PirateWorker

options = parser(
    __doc__, connect="tcp://127.0.0.1:5556", work_seconds=1.0, simulate_failures=False, sends_text=False
).parse_args()
failures = WorkerFailures(options.simulate_failures)


def echo(frames: list[bytes]) -> list[bytes]:
    failures.strike()
    time.sleep(options.work_seconds)
    return frames


worker = PirateWorker(options.connect, echo, is_paranoid=True, options=PirateOptions(sends_text=options.sends_text))
signal.signal(signal.SIGTERM, lambda *_: worker.stop())
print("ready", flush=True)
worker.run()
