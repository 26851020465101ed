"""Majordomo with strangers: the npm package zeromq as client and as worker of our broker (`make test-interop`).

It needs Node >= 20 and npm, and fetches one pinned package into a temporary folder.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from hookwire.services import Client, Worker
from reqrep.majordomo.options import BrokerOptions
from reqrep.majordomo.program import BrokerProgram

_PACKAGE = "zeromq@6.8.0"
_SOURCE = Path(__file__).with_name("interop") / "mdp.mjs"
_COUNT = 1_000


def main() -> int:
    """Run both directions; return the exit code."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        print("interop: install Node >= 20 and npm to try strangers' clients", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="hookwire-interop-") as folder:
        subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", _PACKAGE], cwd=folder, check=True)
        script = Path(folder) / "mdp.mjs"
        shutil.copy(_SOURCE, script)
        broker = BrokerProgram(["tcp://127.0.0.1:*"], BrokerOptions())
        thread = threading.Thread(target=broker.run)
        thread.start()
        try:
            _their_client(str(script), *broker.endpoints)
            _their_worker(str(script), *broker.endpoints)
        finally:
            broker.stop()
            thread.join()
    print("interop: npm zeromq as client and as worker of our broker: passed")
    return 0


def _their_client(script: str, endpoint: str) -> None:
    worker = Worker(endpoint)
    worker.frames_service("echo")(lambda frames: frames)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        subprocess.run(["node", script, "client", endpoint, str(_COUNT)], check=True, timeout=120)
    finally:
        worker.stop()
        thread.join()


def _their_worker(script: str, endpoint: str) -> None:
    with subprocess.Popen(["node", script, "worker", endpoint], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            with Client(endpoint, timeout_seconds=60) as client:
                for number in range(_COUNT):
                    assert client.call_frames("echo", [b"%d" % number, b""]) == [b"%d" % number, b""]
        finally:
            process.kill()


if __name__ == "__main__":
    sys.exit(main())
