"""A worker or server as a process: held_peer.py KIND FOLDER ENDPOINT. It answers each request with its own frames.

It appends the body to the file `started`, then waits while a file `hold` is in the folder.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path

from hookwire.services import HeartbeatOptions, PirateOptions, PirateWorker, Worker
from hookwire.services.server import FreelanceServer, ReplyServer

kind, folder, endpoint = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
fast = HeartbeatOptions(interval_seconds=0.2)


def echo(frames: list[bytes]) -> list[bytes]:
    with (folder / "started").open("ab") as file:
        file.write(frames[-1] + b"\n")
    while (folder / "hold").exists():
        time.sleep(0.02)
    return frames


def majordomo() -> Worker:
    worker = Worker(endpoint, heartbeat=fast, reconnect_seconds=0.1)
    worker.frames_service("echo")(echo)
    return worker


def pirate(is_paranoid: bool) -> PirateWorker:
    options = PirateOptions(heartbeat=fast, pause_seconds_first=0.1, pause_seconds_max=0.4)
    return PirateWorker(endpoint, echo, is_paranoid=is_paranoid, options=options)


makers: dict[str, Callable[[], Worker | PirateWorker | ReplyServer | FreelanceServer]] = {
    "lazy": lambda: ReplyServer(endpoint, echo),
    "simple": lambda: pirate(is_paranoid=False),
    "paranoid": lambda: pirate(is_paranoid=True),
    "majordomo": majordomo,
    "freelance": lambda: FreelanceServer(endpoint, echo),
}
made = makers[kind]()
print("ready", flush=True)
made.run()
