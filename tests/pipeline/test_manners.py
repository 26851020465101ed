"""What an operator sees of Spark: nothing on a good run, one sentence on a bad one, and settings that win."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from app.cli.failure import CommandFailed
from app.cli.main import application
from app.cli.pipeline.archive_metrics import ArchiveMetrics
from app.cli.pipeline.lake import with_conf
from app.cli.pipeline.options import s3_of, session_of
from app.settings.settings import Settings
from pipeline.archive import Archived
from pipeline.failure import SparkFailed, hadoop_version, named, sentence
from pipeline.kafka_range import RangeProblem
from pipeline.s3 import S3Options
from pipeline.session import SessionOptions, SettingRefused, _users_names, settings_of
from pipeline.storage import LakeStorage, StorageError
from tests.pipeline.test_maintenance import records, written

FULL = """An error occurred while calling o9.parquet.
: org.apache.spark.SparkException: Job aborted.
\tat org.apache.spark.sql.Foo(Foo.scala:1)
Caused by: java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)"""


def cut(content: bytes) -> bytes:
    return content[:100]


def flipped(content: bytes) -> bytes:
    """Within the first page, behind its header: what a reader has to unpack."""
    return content[:40] + bytes(byte ^ 0xFF for byte in content[40:80]) + content[80:]


@pytest.mark.parametrize("damage", [cut, flipped])
def test_a_damaged_file_is_one_sentence_that_says_what_to_do(
    spark: SparkSession, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    """FP-07: and no page of Java. GP-15: the sentence names the file."""
    table = written(LakeStorage(str(tmp_path)), records(1, 2))
    path = tmp_path / "bronze" / table.snapshot().files[0].path
    path.write_bytes(damage(path.read_bytes()))
    words = ["pipeline", "usage", "--lake", str(tmp_path), "--since", "2026-01-01", "--until", "2026-01-31"]
    with pytest.raises(CommandFailed) as refused:
        CliRunner().invoke(application("pipeline"), words, catch_exceptions=False)
    said = str(refused.value)
    assert said.startswith(f"file:{path} cannot be read (") or said.startswith(f"file://{path} cannot be read ("), said
    assert "hookwire pipeline check says what is wrong with it" in said
    assert "\n" not in said


def test_a_store_without_its_package_is_one_sentence(spark: SparkSession) -> None:
    """FP-07, FP-13: with the version that fits this Spark."""
    with pytest.raises(SparkFailed, match=rf"hadoop-aws:{hadoop_version()} adds the package for s3a:$"), named():
        spark.read.parquet("s3a://nobody/nothing")


@pytest.mark.parametrize(
    ("uri", "package"),
    [
        ("abfss://c@a.dfs.core.windows.net/x", f"org.apache.hadoop:hadoop-azure:{hadoop_version()}"),
        ("gs://bucket/x", "com.google.cloud.bigdataoss:gcs-connector"),
    ],
)
def test_another_store_without_its_package_is_one_sentence(spark: SparkSession, uri: str, package: str) -> None:
    """FP-13: `abfss://` was a raw exception."""
    with pytest.raises(SparkFailed, match=rf"spark\.jars\.packages={package}"), named():
        spark.read.parquet(uri)


@pytest.mark.parametrize("place", ["settings", "AWS's variables"])
def test_credentials_are_given_once(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """FP-13: for Spark, for the log and for listings; a key of the settings takes no token of AWS's variables."""
    settings, variables = Settings(), {
        "AWS_ENDPOINT_URL": "http://minio:9000", "AWS_REGION": "eu-1", "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "token",
    }  # fmt: skip
    token = "token"
    for name, value in variables.items():
        monkeypatch.setenv(name, value if place != "settings" else "of AWS")
    if place == "settings":
        token = ""
        settings = Settings(
            pipeline_s3_endpoint="http://minio:9000", pipeline_s3_region="eu-1", pipeline_s3_access_key="key",
            pipeline_s3_secret_key="secret",
        )  # fmt: skip
    options = s3_of(settings)
    given = {name.removeprefix("spark.hadoop.fs.s3a."): value for name, value in options.spark().items()}
    assert options == S3Options("http://minio:9000", "eu-1", "key", "secret", token)
    assert options.delta()["AWS_ALLOW_HTTP"] == given["path.style.access"] == "true"
    assert session_of(settings).more["spark.hadoop.fs.s3a.secret.key"] == "secret"
    assert "secret" not in repr(options)


def test_a_full_disk_is_one_sentence() -> None:
    """FP-07: of 357 lines."""
    assert sentence(PySparkException(FULL)) == (
        "the disk is full: nothing of this batch is part of the lake; make room and run it again"
    )


def test_any_other_failure_is_its_innermost_cause() -> None:
    """FP-07."""
    text = FULL.replace("No space left on device", "Input/output error")
    assert sentence(PySparkException(text)) == "Input/output error"


def test_a_store_that_nobody_knows_is_one_sentence() -> None:
    """FP-13."""
    with pytest.raises(StorageError, match=r"^foo://lake cannot be used: "):
        LakeStorage("foo://lake")


def test_what_the_user_has_set_of_spark_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FP-12: Spark's file of defaults over ours, our settings and --conf over both."""
    (tmp_path / "spark-defaults.conf").write_text("# ours\nspark.driver.memory 7g\nspark.ui.enabled=true\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)

    ours, left = settings_of(SessionOptions()), settings_of(SessionOptions(), _users_names())
    assert ours.items() - left.items() == {("spark.driver.memory", "1g"), ("spark.ui.enabled", "false")}
    chosen = with_conf(Settings(pipeline_conf={"spark.a": "1", "spark.ui.enabled": "x"}), ["spark.ui.enabled=true"])
    won = settings_of(session_of(chosen))
    assert (won["spark.a"], won["spark.ui.enabled"]) == ("1", "true")


def test_what_the_lake_rests_on_is_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GB-10: in another zone a record of 02:30Z was in yesterday's `dt`, and `retain` deleted it a day early."""
    wrong = {
        "spark.sql.session.timeZone": "America/Los_Angeles", "spark.sql.timestampType": "TIMESTAMP_NTZ",
        "spark.sql.caseSensitive": "true", "spark.sql.ansi.enabled": "false",
        "spark.sql.files.ignoreCorruptFiles": "true", "spark.sql.files.ignoreMissingFiles": "true",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MILLIS",
    }  # fmt: skip
    (tmp_path / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in wrong.items()))
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    kept = settings_of(SessionOptions(), _users_names())
    assert {name: kept.get(name) not in (None, value) for name, value in wrong.items()} == dict.fromkeys(wrong, True)
    for name, value in wrong.items():
        with pytest.raises(SettingRefused, match=f"{name}={value} is refused: the lake rests on {kept[name]}"):
            settings_of(SessionOptions(more={name: value}))
        assert settings_of(SessionOptions(more={name: kept[name]}))[name] == kept[name]


DAY_OF = """
import sys; from datetime import UTC, datetime; from pipeline.session import *; from pyspark.sql import functions as F
spark = spark_session(SessionOptions("zone", master="local[1]"))
at = F.lit(datetime(2026, 1, 15, 2, 30, tzinfo=UTC))
sys.stdout.write(spark.range(1).select(F.to_date(at).cast("string")).collect()[0][0])
"""


def test_the_time_zone_of_a_session_is_utc_whatever_the_user_has_set() -> None:
    """GB-10."""
    zone = "spark.sql.session.timeZone"
    assert settings_of(SessionOptions(), {zone})[zone] == "UTC"


@pytest.mark.slow
def test_the_day_of_a_record_is_that_of_utc(tmp_path: Path) -> None:
    """GB-10: by Spark's own file of defaults."""
    (tmp_path / "spark-defaults.conf").write_text("spark.sql.session.timeZone America/Los_Angeles\n")
    environment = {name: value for name, value in os.environ.items() if name != "PYSPARK_GATEWAY_PORT"}
    done = subprocess.run(
        [sys.executable, "-c", DAY_OF], env=environment | {"SPARK_CONF_DIR": str(tmp_path)}, capture_output=True,
        text=True, timeout=400, check=True,
    )  # fmt: skip
    assert done.stdout == "2026-01-15"


def test_a_master_that_is_named_wins_over_sparks_file() -> None:
    """FP-12: the default one does not."""
    users = {"spark.master"}
    named_ones = (SessionOptions(master="spark://host:7077"), SessionOptions())
    assert [settings_of(options, users).get("spark.master") for options in named_ones] == ["spark://host:7077", None]


def test_a_setting_of_spark_that_is_none_is_refused() -> None:
    """FP-12."""
    with pytest.raises(CommandFailed, match=r"--conf ui: give it as spark\.name=value"):
        with_conf(Settings(), ["ui"])


@pytest.mark.parametrize(
    ("age_seconds", "done", "fired"),
    [
        (0, Archived(batches=1, rows=5), []),
        (1000, Archived(), ["HookwireArchiveStands"]),
        (0, Archived(waiting=2_000_000), ["HookwireArchiveLags"]),
        (0, Archived(problems=(RangeProblem("lost", "orders", 0, 1, 9),)), ["HookwireArchiveFindings"]),
    ],
    ids=["well", "stands", "lags", "lost"],
)
def test_an_archive_that_stands_lags_or_loses_fires_its_alert(
    tmp_path: Path, age_seconds: int, done: Archived, fired: list[str]
) -> None:
    """FP-14: the alerts of the how-to page, on the file that the archive writes."""
    file = tmp_path / "archive.prom"
    ArchiveMetrics(file).write(done)
    lines = (line.split() for line in file.read_text().splitlines() if not line.startswith("#"))
    figures = {name: float(value) for name, value in lines}
    page = Path("docs/how-to/pipeline.md").read_text()
    now = time.time() + age_seconds
    alerts = re.findall(r"- alert: (\w+)\n  expr: (.+)", page)
    assert [name for name, rule in alerts if eval(rule, {"time": lambda: now} | figures)] == fired


@pytest.mark.slow
def test_a_good_run_says_nothing_on_standard_error(tmp_path: Path) -> None:
    """FP-14: neither Java's warnings nor Spark's."""
    words = ["pipeline", "usage", "--lake", str(tmp_path / "lake"), "--since", "2026-01-01", "--json"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "HOOKWIRE_PIPELINE_MASTER": "local[1]"}
    done = subprocess.run(
        [Path(sys.executable).with_name("hookwire"), *words], env=environment, cwd=tmp_path, capture_output=True,
        text=True, timeout=240,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")
