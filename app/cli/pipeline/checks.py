"""Checks of the pipeline's requirements: Java, packages, also on workers, Kafka, a lake (PL-V03, PL-C07)."""

from __future__ import annotations

from collections.abc import Iterator

from app.checks.check import Check
from app.cli.pipeline.lake import STORE_SETTINGS
from app.cli.pipeline.options import kafka_of, session_of
from app.settings.settings import Settings, SettingsRefused
from pipeline.java import JavaMissing, java_major
from pipeline.kafka_jars import JarsMissing
from pipeline.kafka_reader import KafkaUnreachable, topics_of
from pipeline.lake import LakeDamaged, bronze
from pipeline.session import SettingRefused, spark_session
from pipeline.storage import LakeStorage, StorageError
from pipeline.workers import Python, python_here, python_of_workers

__all__ = ["header_checks", "pipeline_checks"]

_NEWEST_JAVA = 21
_INSTALL = "pip install 'hookwire-server[spark]'"


def pipeline_checks(settings: Settings, lake: LakeStorage) -> Iterator[Check]:
    """Yield the results of all checks, the quick ones first; the last two checks start Spark."""
    here = python_here()
    yield from _packages(here)
    yield _kafka(settings)
    yield from header_checks(settings)
    yield _lake(lake)
    yield (java := _java())
    if java.level == "ok" and not any(check.is_finding for check in _packages(here)):
        yield from _spark(settings, here)


def _packages(here: Python) -> Iterator[Check]:
    missing = [name for name, version in here.packages.items() if not version]
    if missing:
        yield Check("PL-V01", "packages", "refuse", f"missing: {', '.join(missing)}", _INSTALL)
    elif here.packages["pandas"].partition(".")[0] != "2":
        detail = f"pandas {here.packages['pandas']}, but PySpark is tested with pandas 2"
        yield Check("PL-V01", "packages", "warn", detail, "pip install 'pandas<3'")
    else:
        yield Check(
            "PL-V01", "packages", "ok", ", ".join(f"{name} {version}" for name, version in here.packages.items())
        )


def _java() -> Check:
    try:
        major = java_major()
    except JavaMissing as missing:
        return Check("PL-V03", "Java", "refuse", str(missing))
    if major > _NEWEST_JAVA:
        return Check("PL-V03", "Java", "warn", f"Java {major} is too new for Spark 4.0", "use Java 17 or 21")
    return Check("PL-V03", "Java", "ok", f"Java {major}")


def _kafka(settings: Settings) -> Check:
    try:
        topics = topics_of(kafka_of(settings), lambda name: name.startswith(settings.kafka_topic_prefix))
    except SettingsRefused:
        return Check("kafka", "Kafka", "note", "not configured (HOOKWIRE_KAFKA_BOOTSTRAP_SERVERS): nothing to archive")
    except KafkaUnreachable as error:
        return Check("kafka", "Kafka", "unreachable", str(error), "the archive goes on where it was once Kafka is back")
    return Check("kafka", "Kafka", "ok", f"{settings.kafka_bootstrap_servers} answers, {len(topics)} topics")


def header_checks(settings: Settings) -> Iterator[Check]:
    """Yield a warning if the relay sends no headers: the archive needs them to recognise our events (RO-15)."""
    if settings.kafka_bootstrap_servers and not settings.relay_headers:
        detail = "off: the archive cannot recognise the hub's records, and the audit reports all events as lost"
        yield Check("RO-15", "headers", "warn", detail, "the lake and its audit need HOOKWIRE_RELAY_HEADERS=true")


def _lake(lake: LakeStorage) -> Check:
    try:
        snapshot = bronze(lake).snapshot()
        left = [path for path in bronze(lake).unlisted(snapshot) if path.endswith(".parquet")]
    except LakeDamaged as damaged:
        return Check("lake", "lake", "refuse", f"{lake.uri}: {damaged}")
    except StorageError as error:
        return Check("lake", "lake", "unreachable", str(error), STORE_SETTINGS)
    detail = f"{lake.uri}: {snapshot.rows:,} records in {len(snapshot.files):,} files"
    return Check("lake", "lake", "ok", detail + (f", {len(left):,} files that are no part of it" if left else ""))


def _spark(settings: Settings, here: Python) -> Iterator[Check]:
    try:
        spark = spark_session(session_of(settings))
    except SettingRefused as refused:
        yield Check("GB-10", "Spark", "refuse", str(refused))
        return
    except JarsMissing as missing:
        yield Check(
            "PL-K02", "Spark", "refuse", str(missing), "or HOOKWIRE_PIPELINE_SOURCE=python, which needs no jars"
        )
        return
    yield Check("PL-V05", "Spark", "ok", f"{spark.version} at {settings.pipeline_master}")
    there = python_of_workers(spark)
    different = [f"{name} {v or 'missing'}" for name, v in there.packages.items() if v != here.packages[name]]
    if different:
        cure = "set PYSPARK_PYTHON to a Python that has the same packages, on every worker"
        yield Check("PL-V02", "workers", "refuse", f"{there.executable}: {', '.join(different)}", cure)
    else:
        yield Check("PL-V02", "workers", "ok", f"{there.executable}: the same packages")
