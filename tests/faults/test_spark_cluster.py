"""A real standalone cluster of two workers on loopback, started by the scripts of the wheel (PL-C01, PL-C04, PL-C05).

The archive and the audit run on it as drivers in client mode; the archive of another topic under spark-submit.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyspark
import pytest

import app.cli.__main__ as hookwire
from pipeline.audit.selftest import SelftestRecord
from runtime.port import free_port
from scripts.servers.kafka import KafkaServer
from scripts.servers.tree import ProcessTree
from scripts.servers.warden import WARDEN
from tests.pipeline.broker import make, ours, record_of, write
from tests.pipeline.test_audit_command import events
from tests.waiting import block_until

__all__ = ["events"]

WAIT_SECONDS = 280
SPARK = Path(pyspark.__file__).parent
WORKERS = 2


@pytest.fixture
def topic() -> str:
    """The beginning of Kafka topics' names that only this test knows."""
    return f"lake.{secrets.token_hex(4)}"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The master's URL, and the address of its page."""
    port, page = free_port(), free_port()
    master = f"spark://127.0.0.1:{port}"
    here = ("--host", "127.0.0.1")
    with ExitStack() as stack:
        _started(stack, tmp_path, "Master", *here, "--port", str(port), "--webui-port", str(page))
        for number in range(WORKERS):
            folder = tmp_path / f"worker-{number}"
            options = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder), "--webui-port", str(free_port()))
            _started(stack, tmp_path, "worker.Worker", *here, *options, master)
        block_until(lambda: _state(page).get("aliveworkers") == WORKERS)
        yield master, f"http://127.0.0.1:{page}/json/"


def _started(stack: ExitStack, folder: Path, role: str, *arguments: str) -> None:
    environment = {"PATH": os.environ["PATH"], "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}
    log = stack.enter_context((folder / f"{role}.log").open("ab"))
    child = subprocess.Popen(
        [SPARK / "bin" / "spark-class", f"org.apache.spark.deploy.master.{role}" if role == "Master"
         else f"org.apache.spark.deploy.{role}", *arguments],
        cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True,
    )  # fmt: skip
    tree = ProcessTree.of(child.pid)
    WARDEN.watch(tree, signal.SIGTERM)  # they end with this process, however it ends
    stack.callback(WARDEN.forget, tree)
    stack.callback(child.wait, WAIT_SECONDS)
    stack.callback(os.killpg, child.pid, signal.SIGTERM)


def _state(page: int) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{page}/json/", timeout=5) as answer:
            state: dict[str, Any] = json.load(answer)
            return state
    except OSError:
        return {}


def driven(folder: Path, settings: dict[str, str], *command: str | Path) -> tuple[int, Any]:
    """Run a driver in a process of its own; exit code and what it printed."""
    environment = {
        "PATH": os.environ["PATH"],
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    } | settings
    driver = subprocess.Popen(
        list(map(str, command)), cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    tree = ProcessTree.of(driver.pid)
    WARDEN.watch(tree, signal.SIGTERM)
    try:
        output, errors = driver.communicate(timeout=WAIT_SECONDS)
    finally:
        tree.kill()
        WARDEN.forget(tree)
    assert output, errors[-2000:]
    # Under spark-submit what a driver says beside its result is in the same stream.
    result = next(line for line in output.splitlines() if line.startswith("{"))
    return driver.returncode, json.loads(result)


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.timeout(900)  # three drivers, each of which starts executors
def test_two_workers_archive_and_audit(
    kafka: KafkaServer,
    topic: str,
    events: Sequence[SelftestRecord],
    database_url: str,
    cluster: tuple[str, str],
    tmp_path: Path,
) -> None:
    """Each record is archived once, the audit finds the one that is missing; each ran on the cluster."""
    master, page = cluster
    make(kafka, f"{topic}-orders", 2)
    write(
        kafka, f"{topic}-orders", [record_of(event) for event in events[1:]], [ours(n, 1) for n in range(50)], abort=[1]
    )
    settings = {
        "HOOKWIRE_KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap, "HOOKWIRE_KAFKA_TOPIC_PREFIX": f"{topic}-",
        "HOOKWIRE_PIPELINE_LAKE": str(tmp_path / "lake"), "HOOKWIRE_DATABASE_URL": database_url,
    }  # fmt: skip
    command = Path(sys.executable).with_name("hookwire")
    submit = (SPARK / "bin" / "spark-submit", "--master", master, hookwire.__file__)
    archived = driven(tmp_path, settings, command, "pipeline", "archive", "--master", master, "--json")
    make(kafka, f"{topic}-carts")
    write(kafka, f"{topic}-carts", [ours(n) for n in range(1, 8)])
    submitted = driven(tmp_path, settings, *submit, "pipeline", "archive", "--topic", f"{topic}-carts", "--json")
    code, report = driven(
        tmp_path, settings | {"HOOKWIRE_PIPELINE_MASTER": master}, command, "pipeline", "audit", "--json"
    )
    assert (archived[0], archived[1]["rows"], submitted[0], submitted[1]["rows"]) == (0, len(events) - 1, 0, 7)
    found = {finding["fault"]: finding["examples"] for finding in report["findings"]}
    strangers = [f"evt_abcd2345_{n}" for n in range(1, 8)]
    assert (code, found) == (1, {"lost": [events[0].event_id], "phantom": strangers})
    with urllib.request.urlopen(page, timeout=5) as answer:
        finished = json.load(answer)["completedapps"]
    assert [app["state"] for app in finished] == ["FINISHED"] * 3
