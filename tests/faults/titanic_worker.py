"""A worker of the service `pay` as a process: it writes down each effect, then obeys the files in its folder.

`kill` in the folder: the process ends between effect and reply, once. `hold`: the reply waits until the file is gone.
"""

import os
import signal
import sys
import time
from pathlib import Path

from hookwire.services import HeartbeatOptions, Worker

endpoint, name, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
worker = Worker(endpoint, heartbeat=HeartbeatOptions(interval_seconds=0.2), reconnect_seconds=0.1)


@worker.service("pay")
def pay(body: bytes) -> bytes:
    """Append the effect, durably; then reply with the name of this worker."""
    with (folder / "effects").open("ab") as file:
        file.write(name.encode() + b" " + body + b"\n")
        file.flush()
        os.fsync(file.fileno())
    if (folder / "kill").exists():
        (folder / "kill").unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    while (folder / "hold").exists():
        time.sleep(0.05)
    return name.encode() + b" did " + body


print("ready", flush=True)
worker.run()
