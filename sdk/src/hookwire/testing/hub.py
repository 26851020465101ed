"""The fixture ``hookwire_hub``: a hub on an embedded database of its own, for a session of pytest."""

from __future__ import annotations

import http.client
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hookwire.client.hookwire import Hookwire

__all__ = ["hookwire_hub", "running_hub"]

_START_SECONDS = 120
_STOP_SECONDS = 30
_POLL_SECONDS = 0.1


@pytest.fixture(scope="session")
def hookwire_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hookwire]:
    """Run a hub for the session, and return its client. It needs ``pip install hookwire-server``."""
    if importlib.util.find_spec("hookwire_server") is None:
        pytest.fail("hookwire_hub runs a hub, which is not installed here: pip install hookwire-server", pytrace=False)
    yield from running_hub(tmp_path_factory.mktemp("hookwire"))


def running_hub(folder: Path) -> Iterator[Hookwire]:
    """Run a hub with its data in ``folder``, and yield its client when it is ready."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    given = {name: value for name, value in os.environ.items() if not name.startswith("HOOKWIRE_")}
    settings = {"HOOKWIRE_LISTEN": f"127.0.0.1:{port}", "HOOKWIRE_DATA_DIR": str(folder), "HOOKWIRE_LOG_LEVEL": "error"}
    with (folder / "hub.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "hookwire_server", "serve"], env=given | settings, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip
        try:
            _wait(process, port, folder / "hub.log")
            with Hookwire(url) as hub:
                yield hub
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until:
        try:
            process.wait(_POLL_SECONDS)
        except subprocess.TimeoutExpired:
            if _is_ready(port):
                return
        else:
            pytest.fail(f"the hub ended with {process.returncode}: {log.read_text('utf-8', 'replace')[-2000:]}")
    pytest.fail(f"the hub was not ready in {_START_SECONDS} s: {log.read_text('utf-8', 'replace')[-2000:]}")


def _is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == http.HTTPStatus.OK
    except OSError:
        return False
    finally:
        connection.close()
