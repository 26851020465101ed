"""`hookwire pipeline` as an operator types it, and killed in the middle of a batch."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from typer.testing import CliRunner

from app.cli.main import application
from app.cli.pipeline.checks import header_checks
from app.cli.process.stop import Stop
from app.settings.settings import Settings
from pipeline.archive import ArchiveOptions, archive
from pipeline.lake import bronze
from pipeline.storage import LakeStorage
from scripts.servers.kafka import KafkaServer
from tests.pipeline.broker import kafka_options, make, ours, write
from tests.waiting import block_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAIT_SECONDS = 240.0


@pytest.fixture
def command(kafka: KafkaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str]]:
    """Run `hookwire pipeline ...` in this process, on its session; the exit code and what was printed."""
    monkeypatch.setenv("HOOKWIRE_KAFKA_BOOTSTRAP_SERVERS", kafka.bootstrap)
    monkeypatch.setenv("HOOKWIRE_PIPELINE_LAKE", str(tmp_path / "lake"))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str]:
        result = CliRunner().invoke(application("pipeline"), ["pipeline", *arguments], catch_exceptions=False)
        return result.exit_code, result.stdout

    return run


def printed(result: tuple[int, str]) -> tuple[int, Any]:
    return result[0], json.loads(result[1])


def test_a_topic_is_planned_archived_and_on_record(
    kafka: KafkaServer, topic: str, spark: SparkSession, command: Callable[..., tuple[int, str]]
) -> None:
    """PL-C07: --dry-run, --json, the table of runs."""
    make(kafka, topic)
    write(kafka, topic, [ours(1), ours(2), (b"k", b"not ours", 0, [])])
    planned = printed(command("archive", "--topic", topic, "--dry-run", "--json"))
    archived = printed(command("archive", "--topic", topic, "--json"))
    [run] = printed(command("runs", "--json"))[1]
    counts = {"batches": 1, "rows": 3, "quarantined": 1, "waiting": 0, "problems": []}
    assert planned == (
        0,
        {"ranges": [{"topic": topic, "partition": 0, "start": 0, "until": 4}], "waiting": 0, "problems": []},
    )
    assert (archived, run["job"], run["state"], run["counts"]) == ((0, counts), "archive", "done", counts)


def test_the_pipelines_doctor_checks_packages_java_kafka_lake_and_workers(
    spark: SparkSession, command: Callable[..., tuple[int, str]]
) -> None:
    """PL-V01, PL-V02, PL-V03: packages, Java, Kafka, the lake, and what the workers see."""
    code, found = printed(command("doctor", "--json"))
    assert (code, [(check["subject"], check["level"]) for check in found]) == (
        0,
        [(subject, "ok") for subject in ("packages", "Kafka", "lake", "Java", "Spark", "workers")],
    ), found


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"kafka_bootstrap_servers": "127.0.0.1:1", "relay_headers": False}, [("RO-15", "warn", True)]),
        ({"kafka_bootstrap_servers": "127.0.0.1:1"}, []),
        ({"relay_headers": False}, []),
    ],
    ids=["off", "on", "no Kafka"],
)
def test_a_lake_without_our_headers_is_warned_of(values: dict[str, Any], said: list[tuple[str, str, bool]]) -> None:
    """RO-15."""
    checks = header_checks(Settings(**values))
    assert [(check.id, check.level, "HOOKWIRE_RELAY_HEADERS" in check.cure) for check in checks] == said


def test_a_lake_that_is_damaged_is_one_sentence(tmp_path: Path, command: Callable[..., tuple[int, str]]) -> None:
    log = tmp_path / "lake" / "bronze" / "_delta_log"
    log.mkdir(parents=True)
    (log / "00000000000000000000.json").write_text("torn")
    code, found = printed(command("doctor", "--json"))
    [lake] = [check for check in found if check["subject"] == "lake"]
    assert (code, lake["level"], "bronze/_delta_log is damaged" in lake["detail"]) == (1, "refuse", True)


def test_a_signal_ends_the_wait_and_the_next_one_is_as_it_was() -> None:
    """PL-C06."""
    before = signal.getsignal(signal.SIGTERM)
    with Stop() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        stop.wait(WAIT_SECONDS)
        second = signal.getsignal(signal.SIGTERM)
    assert (stop.is_asked, second, signal.getsignal(signal.SIGTERM)) == (True, signal.SIG_DFL, before)


def test_a_kill_in_the_middle_of_a_batch_loses_and_doubles_nothing(
    kafka: KafkaServer, topic: str, spark: SparkSession, tmp_path: Path
) -> None:
    """PL-X09: SIGKILL after files were written and before they are part of the table; then it is run again."""
    make(kafka, topic, 2)
    write(kafka, topic, [ours(n, n % 2) for n in range(1, 10_001)])
    lake = LakeStorage(str(tmp_path / "lake"))
    environment = {
        "PATH": os.environ["PATH"], "HOOKWIRE_KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap,
        "HOOKWIRE_PIPELINE_LAKE": str(tmp_path / "lake"), "HOOKWIRE_PIPELINE_MASTER": "local[1]",
    }  # fmt: skip
    hookwire = Path(sys.executable).with_name("hookwire")
    log = tmp_path / "archive.log"
    with log.open("wb") as errors:
        child = subprocess.Popen(
            [hookwire, "pipeline", "archive", "--topic", topic, "--batch", "500"], env=environment, cwd=tmp_path,
            stdout=errors, stderr=errors,
        )  # fmt: skip
    try:
        block_until(lambda: child.poll() is not None or _is_between(lake), 240)
        assert child.poll() is None, log.read_text()
        family = psutil.Process(child.pid).children(recursive=True)
    finally:
        child.kill()
        child.wait()
    assert psutil.wait_procs(family, timeout=WAIT_SECONDS)[1] == [], "Spark ends with its driver"
    left = bronze(lake).unlisted(bronze(lake).snapshot())
    archive(lambda: spark, bronze(lake), kafka_options(kafka), ArchiveOptions((topic,)), "again")
    rows = bronze(lake).read(spark).select("partition", "offset", "event_number").collect()
    numbers = sorted(row.event_number for row in rows)
    assert (left != [], numbers) == (True, list(range(1, 10_001)))


def _is_between(lake: LakeStorage) -> bool:
    """Whether one batch is part of the table and files of the next one are there."""
    snapshot = bronze(lake).snapshot()
    return snapshot.version >= 1 and any(path.endswith(".parquet") for path in bronze(lake).unlisted(snapshot))
