"""The long storey on S3: an archive, an audit's readers, two archivers, and a store that answers 503 (FP-13)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import cast

import duckdb
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from pipeline.audit.held import HeldLake
from pipeline.audit.proof import proofs_of
from pipeline.failure import hadoop_version
from pipeline.lake import bronze
from pipeline.s3 import S3Options
from pipeline.storage import LakeStorage
from scripts.servers.kafka import KafkaServer
from tests.pipeline.broker import make, ours, write
from tests.pipeline.fetched import lake_jars
from tests.pipeline.foreign import batch, row
from tests.pipeline.long_storey import Archiver, archiver, s3_server
from tests.pipeline.test_pages import blocks, shown

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

LAKE = "s3a://lakes/hookwire"
COMMAND_SECONDS = 1200


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[tuple[S3Options, Path]]:
    with s3_server(tmp_path) as started:
        yield started


@pytest.fixture
def drivers(kafka: KafkaServer, topic: str, s3: tuple[S3Options, Path]) -> Iterator[Archiver]:
    options, _ = s3
    names = {"endpoint": options.endpoint, "region": options.region, "access_key": options.access_key,
             "secret_key": options.secret_key}  # fmt: skip
    with archiver(options.spark(), kafka=kafka.bootstrap, topic=topic, lake=LAKE, s3=names) as started:
        yield started


def seen(options: S3Options, drivers: Archiver) -> list[int]:
    """What deltalake, DuckDB and Delta's package for Spark see; they have to see the same."""
    dataset = DeltaTable(f"{LAKE}/bronze", storage_options=options.delta()).to_pyarrow_dataset()
    with duckdb.connect() as connection:
        connection.register("bronze", dataset)
        found = [number for (number,) in connection.sql("SELECT event_number FROM bronze ORDER BY 1").fetchall()]
    assert found == sorted(dataset.to_table(["event_number"])["event_number"].to_pylist()) == drivers.ask("read")
    return found


def hookwire(*words: str, **environment: str) -> tuple[int, str, str]:
    """Run `hookwire pipeline ...` as the page says it."""
    done = subprocess.run(
        [Path(sys.executable).with_name("hookwire"), "pipeline", *words], capture_output=True, text=True,
        env={
            **{name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ},
            "HOOKWIRE_PIPELINE_LAKE": LAKE, **environment,
        },
        timeout=COMMAND_SECONDS, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("place", ["settings", "AWS's variables"])
def test_the_page_is_followed_with_credentials_in_one_place(
    kafka: KafkaServer, topic: str, s3: tuple[S3Options, Path], tmp_path: Path, place: str
) -> None:
    """FP-13: the page's block, with jars that are fetched already; data and log are reached by the same values."""
    options, _ = s3
    make(kafka, f"{topic}-orders")
    write(kafka, f"{topic}-orders", [ours(n) for n in range(1, 21)])
    [block] = blocks("lake-s3.md", "sh s3")
    block = block.replace("http://127.0.0.1:9000", options.endpoint)
    package = f'"spark.jars.packages": "org.apache.hadoop:hadoop-aws:{hadoop_version()}"'
    assert package in block
    block = block.replace(package, f'"spark.jars": "{",".join(lake_jars())}"')
    if place != "settings":
        names = {"S3_ENDPOINT": "AWS_ENDPOINT_URL", "S3_ACCESS_KEY": "AWS_ACCESS_KEY_ID",
                 "S3_SECRET_KEY": "AWS_SECRET_ACCESS_KEY"}  # fmt: skip
        for name, of_aws in names.items():
            block = block.replace(f"HOOKWIRE_PIPELINE_{name}", of_aws)
    settings = {
        "HOOKWIRE_KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap, "HOOKWIRE_KAFKA_TOPIC_PREFIX": f"{topic}-",
        "HOOKWIRE_PIPELINE_MASTER": "local[2]",
    }  # fmt: skip
    printed = shown(block, settings, tmp_path)
    expected = ("would read 21 offsets", "20 records in 1 batch", "1 file was checked, 0 damaged", "archive")
    assert [words for words in expected if words not in printed] == [], printed


def test_of_two_archivers_on_s3_one_commits_and_the_other_says_so(
    kafka: KafkaServer, topic: str, s3: tuple[S3Options, Path], drivers: Archiver
) -> None:
    """FP-09: 60 of 60 tries left the batch in the lake twice."""
    make(kafka, topic)
    write(kafka, topic, [ours(n) for n in range(1, 6)])
    outcomes = drivers.ask("race")
    rows, said = sorted(outcomes, key=str)
    assert (rows, seen(s3[0], drivers)) == (5, [1, 2, 3, 4, 5])
    assert re.fullmatch(r"bronze was changed at the same time \(commit \d, archive of run run\): run .* again", said)


def test_a_store_that_answers_503_loses_and_doubles_nothing(
    kafka: KafkaServer, topic: str, s3: tuple[S3Options, Path], drivers: Archiver
) -> None:
    """FP-13: each third request is refused; then a commit is stored and its answer lost; then nothing answers."""
    options, trouble = s3
    make(kafka, topic)
    write(kafka, topic, [ours(n) for n in range(1, 4)])
    trouble.write_text("busy")
    busy = drivers.ask("run")
    trouble.write_text("lost")
    write(kafka, topic, [ours(n) for n in range(4, 6)])
    lost = drivers.ask("run")
    assert (busy, lost, seen(options, drivers)) == (3, 2, [1, 2, 3, 4, 5])
    trouble.write_text("down")
    code, said, errors = hookwire(
        "check", HOOKWIRE_PIPELINE_S3_ENDPOINT=options.endpoint, HOOKWIRE_PIPELINE_S3_ACCESS_KEY="a",
        HOOKWIRE_PIPELINE_S3_SECRET_KEY="b",
    )  # fmt: skip
    trouble.write_text("")
    [error] = errors.splitlines()
    assert (code, said, error.startswith("hookwire: the lake cannot be read or written: ")) == (3, "", True), error
    assert seen(options, drivers) == [1, 2, 3, 4, 5]


def test_what_a_run_leaves_on_s3_is_listed_and_deleted(s3: tuple[S3Options, Path]) -> None:
    """PL-C02: the store's own calls, without Spark."""
    store = LakeStorage("s3://lakes/other/", s3[0])
    store.replace("runs/1.json", b"1")
    store.move("runs/1.json", "old/1.json")
    store.delete(["runs/1.json", "old/2.json"])
    assert (store.uri, store.files("runs"), store.files("old"), store.read("old/1.json"), store.is_local) == (
        "s3a://lakes/other", {}, {"old/1.json": 1}, b"1", False,
    )  # fmt: skip


def test_what_was_proved_is_not_read_again(s3: tuple[S3Options, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """GP-09: the store says which version of a file it has. A swapped file of the same size has another."""
    store = LakeStorage("s3a://lakes/proved", s3[0])
    for number in range(1, 5):
        batch(bronze(store), row(number), day=date(2026, 1, 14 + number))
    read: list[str] = []
    monkeypatch.setattr(LakeStorage, "sha256", lambda _, path: read.append(path))
    spark = cast(SparkSession, None)
    before, again = (proofs_of(spark, HeldLake(store), [], ["x"]).days for _ in range(2))
    assert (before, len(before), read) == (again, 4, [])
    file = bronze(store).snapshot().files[0]
    content = store.read(f"bronze/{file.path}")
    store.replace(f"bronze/{file.path}", content[:-5] + b"x" + content[-4:])
    changed = proofs_of(spark, HeldLake(store), [], ["x"]).days
    assert [place for place in before if changed[place] != before[place]] == [(file.day, "orders")]
    store.delete([f"bronze/{file.path}"])
    gone = proofs_of(spark, HeldLake(store), [], ["x"]).days[file.day, "orders"]
    assert gone not in (before[file.day, "orders"], changed[file.day, "orders"])
    assert read == []
