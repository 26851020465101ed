"""A worker of the SDK as a process, with the words of ``tests/ancestors/mdworker.py``."""

import argparse
import os
import time
from pathlib import Path

from hookwire.services import HeartbeatOptions, Worker

words = argparse.ArgumentParser()
words.add_argument("endpoint")
words.add_argument("service")
words.add_argument("--work-seconds", type=float, default=0.0)
words.add_argument("--folder", type=Path, required=True)
words.add_argument("--heartbeat-ms", type=int, default=2500)
given = words.parse_args()
worker = Worker(given.endpoint, heartbeat=HeartbeatOptions(interval_seconds=given.heartbeat_ms / 1000))


@worker.frames_service(given.service)
def answer(frames: list[bytes]) -> list[bytes]:
    (given.folder / f"got-{os.getpid()}").touch()
    time.sleep(given.work_seconds)
    return frames


print("ready", flush=True)
worker.run()
