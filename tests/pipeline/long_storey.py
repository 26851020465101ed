"""Processes of the long storey: a Spark session that archives in drivers that may be killed, and an S3 server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipeline.s3 import S3Options
from runtime.port import free_port
from scripts.servers.tree import ProcessTree
from scripts.servers.warden import WARDEN
from tests.pipeline.fetched import lake_jars, moto_folder
from tests.waiting import block_poll

WAIT_SECONDS = 240.0
DISK_BYTES = 16 << 20
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.shuffle.partitions": "2",
    # Delta computes a table's state in 50 tasks otherwise.
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.ui.enabled": "false",
}


class Archiver:
    """Hands orders to ``tests.pipeline.archiver`` and returns its answers."""

    def __init__(self, child: subprocess.Popen[str], common: Mapping[str, Any]) -> None:
        self._child = child
        self._common = {"batch": 10, "accept_loss": False, "s3": {}, "point": "", "job": "archive", **common}

    def ask(self, do: str, **order: Any) -> Any:
        """Return what came of ``run``, ``race`` or ``read``; None for a driver that was killed."""
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps({"do": do, **self._common, **order}) + "\n")
        self._child.stdin.flush()
        return self.answer()

    def answer(self) -> Any:
        """Return the next line that it writes; fails when it has ended."""
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        assert line, f"the archiver ended with {self._child.wait(WAIT_SECONDS)}"
        return json.loads(line)


@contextmanager
def archiver(conf: Mapping[str, str], **common: Any) -> Iterator[Archiver]:
    """Start one whose session has these settings; ``common`` is part of each order."""
    settings = {"spark.jars": ",".join(lake_jars()), **DELTA, **conf}
    with _child([sys.executable, "-m", "tests.pipeline.archiver", json.dumps(settings)], {}) as child:
        started = Archiver(child, common)
        started.answer()
        yield started


@contextmanager
def s3_server(folder: Path) -> Iterator[tuple[S3Options, Path]]:
    """Start an S3 server with the bucket ``lakes``; yield how it is reached, and the file of its trouble."""
    port, trouble = free_port(), folder / "trouble"
    command = [sys.executable, "-m", "tests.pipeline.s3_server", str(port), str(trouble)]
    with (folder / "s3.log").open("w") as log, _child(command, {"PYTHONPATH": str(moto_folder())}, log) as child:
        endpoint = f"http://127.0.0.1:{port}"
        _make_bucket(f"{endpoint}/lakes", child)
        yield S3Options(endpoint, "us-east-1", "an-access-key", "a-secret-key"), trouble


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Make a file system of a few megabytes in this folder, which can be filled."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)], capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert mounted.returncode == 0, f"A full disk needs a small file system, and mounting one needs root: {mounted}"
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _make_bucket(url: str, server: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            urllib.request.urlopen(urllib.request.Request(url, method="PUT"), timeout=10).close()
        except (urllib.error.URLError, ConnectionError):
            assert server.poll() is None, "the S3 server has ended: see s3.log"
            if time.monotonic() > deadline:
                raise TimeoutError(url) from None
            block_poll()
        else:
            return


@contextmanager
def _child(command: list[str], more: Mapping[str, str], errors: Any = None) -> Iterator[subprocess.Popen[str]]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "HOOKWIRE_"))}
    child = subprocess.Popen(
        command, env={**environment, **more}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
    )
    tree = ProcessTree.of(child.pid)
    WARDEN.watch(tree, signal.SIGTERM)
    try:
        yield child
    finally:
        tree.kill()
        WARDEN.forget(tree)
        child.wait(WAIT_SECONDS)
        child.stdin.close()
        child.stdout.close()
